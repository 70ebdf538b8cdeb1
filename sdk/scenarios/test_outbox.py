"""`submit_in` of each language on a real PostgreSQL: what commits becomes a job, what is rolled back does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT
from parent import end_with_parent
from postgres import Cluster
from server import Server, until

FOLDER = Path(__file__).parent / "outbox"
PROGRAMS = {
    "python": [sys.executable, str(FOLDER / "app.py")],
    "typescript": ["node", str(FOLDER / "app.mjs")],
    "go": ["go", "run", "."],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    languages = metafunc.config.getoption("--language") or list(PROGRAMS)
    metafunc.parametrize("language", [language for language in languages if language in PROGRAMS])


@pytest.fixture
def database() -> Iterator[str]:
    cluster = Cluster()
    yield cluster.database()
    cluster.stop()


def test_what_an_application_commits_becomes_a_job(
    language: str, database: str, request: pytest.FixtureRequest
) -> None:
    binary = Path(request.config.getoption("--binary")).resolve()
    env = {**os.environ, "FORGERUN_OUTBOX_SOURCE": database}
    subprocess.run([binary, "outbox", "install"], check=True, env=env, capture_output=True)
    app = {**env, "DATABASE_URL": f"{database}?sslmode=disable", "PYTHONPATH": str(ROOT / "sdk/python/src")}
    cwd = FOLDER / "go" if language == "go" else FOLDER
    printed = subprocess.run(PROGRAMS[language], check=True, env=app, cwd=cwd, stdout=subprocess.PIPE, text=True)
    ids = printed.stdout.split()
    server = Server(binary, None)
    run = [binary, "outbox", "run", "--url", server.url]
    forwarder = subprocess.Popen(run, env={**env, "FORGERUN_API_KEY": server.key}, preexec_fn=end_with_parent())
    try:
        until("the jobs have arrived", lambda: len(server.call("GET", "/v1/jobs")["jobs"]) == 2)
        for n, job_id in enumerate(ids, 1):
            job = server.call("GET", f"/ojs/v1/jobs/{job_id}")["job"]
            assert (job["type"], job["queue"], job["args"]) == ("invoice.render", "invoices", [{"invoice": n}])
    finally:
        forwarder.kill()
        forwarder.wait()
        server.stop()
