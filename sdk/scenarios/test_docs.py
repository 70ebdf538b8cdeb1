"""The sixty seconds of docs/sdks.md work as they stand."""

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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    languages = metafunc.config.getoption("--language") or list(TITLES)
    metafunc.parametrize("language", [language for language in languages if language in TITLES])


def blocks(language: str) -> tuple[str, str]:
    """The worker and the submission of a language."""
    page = (ROOT / "docs/sdks.md").read_text()
    section = re.split(r"^##", page.split(f"\n### {TITLES[language]}\n")[1], flags=re.MULTILINE)[0]
    worker, submission = re.findall(r"^```\w+\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    return worker, submission


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


def test_sixty_seconds(language: str, url: str, tmp_path: Path) -> None:
    env = {**os.environ, "FORGERUN_URL": url}

    def command(name: str, text: str) -> list[str]:
        match language:
            case "python":
                env["PYTHONPATH"] = str(ROOT / "sdk/python/src")
                path = tmp_path / f"{name}.py"
                path.write_text(text)
                return [sys.executable, str(path)]
            case "typescript":
                modules = tmp_path / "node_modules"
                modules.mkdir(exist_ok=True)
                if not (modules / "forgerun").exists():
                    (modules / "forgerun").symlink_to(ROOT / "sdk/typescript")
                path = tmp_path / f"{name}.mjs"
                path.write_text(text)
                return ["node", str(path)]
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
