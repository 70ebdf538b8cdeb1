"""The programs of docs/start and docs/do/migrate-from-bullmq.md work as they stand."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT
from parent import end_with_parent

TITLES = {"python": "Python", "typescript": "TypeScript", "go": "Go"}
FENCES = {"python": "python", "typescript": "js", "go": "go"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    languages = metafunc.config.getoption("--language") or list(TITLES)
    shown = ["typescript"] if metafunc.function is test_migrated_from_bullmq else list(TITLES)
    metafunc.parametrize("language", [language for language in languages if language in shown])


def blocks(language: str) -> tuple[str, str]:
    """The worker and the submission of a language."""
    page = (ROOT / "docs/start/first-worker.md").read_text()
    section = re.split(r"^## ", page.split(f"\n## {TITLES[language]}\n")[1], flags=re.MULTILINE)[0]
    worker, submission = code(section, FENCES[language])
    return worker, submission


def code(text: str, fence: str) -> list[str]:
    return re.findall(rf"^```{fence}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    binary = request.config.getoption("--binary")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FORGERUN_")}
    server = subprocess.Popen(
        [binary, "dev", "--listen", "127.0.0.1:0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=end_with_parent(),
    )
    with server:
        assert server.stdout
        yield server.stdout.readline().removeprefix("forgerun listening on ").strip()
        server.kill()


def command(language: str, folder: Path, name: str, text: str) -> list[str]:
    """Writes a program of a page, and how it is run."""
    match language:
        case "python":
            path = folder / f"{name}.py"
            path.write_text(text)
            return [sys.executable, str(path)]
        case "typescript":
            modules = folder / "node_modules"
            modules.mkdir(exist_ok=True)
            if not (modules / "forgerun").exists():
                (modules / "forgerun").symlink_to(ROOT / "sdk/typescript")
            path = folder / f"{name}.mjs"
            path.write_text(text)
            return ["node", str(path)]
        case _:
            sources = folder / name
            sources.mkdir()
            (sources / "main.go").write_text(text)
            module = "github.com/forgerun/forgerun/sdk/go"
            (sources / "go.mod").write_text(
                f"module {name}\ngo 1.22\nrequire {module} v0.0.0\nreplace {module} => {ROOT / 'sdk/go'}\n"
            )
            program = folder / f"{name}.bin"
            subprocess.run(["go", "build", "-o", program, "."], cwd=sources, check=True)
            return [str(program)]


def environment(url: str) -> dict[str, str]:
    return {**os.environ, "FORGERUN_URL": url, "PYTHONPATH": str(ROOT / "sdk/python/src")}


def run(program: list[str], folder: Path, url: str) -> str:
    done = subprocess.run(program, cwd=folder, env=environment(url), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first_worker(language: str, url: str, tmp_path: Path) -> None:
    worker, submission = (
        command(language, tmp_path, name, text) for name, text in zip(("worker", "submission"), blocks(language))
    )
    with subprocess.Popen(worker, cwd=tmp_path, env=environment(url), preexec_fn=end_with_parent()) as working:
        try:
            assert run(submission, tmp_path, url) == "6\n"
        finally:
            working.send_signal(signal.SIGTERM)
        assert working.wait(60) == 0


def test_submission(language: str, url: str, tmp_path: Path) -> None:
    (program,) = code((ROOT / "docs/start/sixty-seconds.md").read_text(), FENCES[language])
    assert re.fullmatch(r"[0-9a-f-]{36}\n", run(command(language, tmp_path, "submission", program), tmp_path, url))


def test_migrated_from_bullmq(language: str, url: str, tmp_path: Path) -> None:
    (program,) = code((ROOT / "docs/do/migrate-from-bullmq.md").read_text(), "js")
    assert run(command(language, tmp_path, "mails", program), tmp_path, url) == "sent to ada\n"
