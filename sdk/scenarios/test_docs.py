"""The programs of docs/start/first-worker.md and docs/do/migrate-from-bullmq.md work as they stand."""

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


def node_command(folder: Path, name: str, text: str) -> list[str]:
    modules = folder / "node_modules"
    modules.mkdir(exist_ok=True)
    if not (modules / "forgerun").exists():
        (modules / "forgerun").symlink_to(ROOT / "sdk/typescript")
    path = folder / f"{name}.mjs"
    path.write_text(text)
    return ["node", str(path)]


def test_first_worker(language: str, url: str, tmp_path: Path) -> None:
    env = {**os.environ, "FORGERUN_URL": url}

    def command(name: str, text: str) -> list[str]:
        match language:
            case "python":
                env["PYTHONPATH"] = str(ROOT / "sdk/python/src")
                path = tmp_path / f"{name}.py"
                path.write_text(text)
                return [sys.executable, str(path)]
            case "typescript":
                return node_command(tmp_path, name, text)
            case _:
                folder = tmp_path / name
                folder.mkdir()
                (folder / "main.go").write_text(text)
                module = "github.com/forgerun/forgerun/sdk/go"
                (folder / "go.mod").write_text(
                    f"module {name}\ngo 1.22\nrequire {module} v0.0.0\nreplace {module} => {ROOT / 'sdk/go'}\n"
                )
                program = tmp_path / f"{name}.bin"
                subprocess.run(["go", "build", "-o", program, "."], cwd=folder, check=True)
                return [str(program)]

    worker, submission = (command(name, text) for name, text in zip(("worker", "submission"), blocks(language)))
    with subprocess.Popen(worker, cwd=tmp_path, env=env, preexec_fn=end_with_parent()) as working:
        try:
            done = subprocess.run(submission, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr
        finally:
            working.send_signal(signal.SIGTERM)
        assert working.wait(60) == 0


def test_migrated_from_bullmq(language: str, url: str, tmp_path: Path) -> None:
    (program,) = code((ROOT / "docs/do/migrate-from-bullmq.md").read_text(), "js")
    command = node_command(tmp_path, "mails", program)
    env = {**os.environ, "FORGERUN_URL": url}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "sent to ada\n"), done.stderr
