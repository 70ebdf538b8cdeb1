"""What `forgerun init` writes works with the SDK of this repository, as it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT


@pytest.fixture
def binary(request: pytest.FixtureRequest) -> Path:
    return Path(request.config.getoption("--binary")).resolve()


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path, binary: Path) -> tuple[str, Path]:
    """A new project of a language."""
    language = request.param
    folder = tmp_path / "billing"
    written = subprocess.run([binary, "init", language, folder], check=True, capture_output=True, text=True)
    assert str(folder / "Dockerfile") in written.stdout
    return language, folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "project" in metafunc.fixturenames:
        languages = metafunc.config.getoption("--language") or ["python", "typescript", "go"]
        languages = [language for language in languages if language != "rust"]
        metafunc.parametrize("project", languages, indirect=True)


def test_a_new_project_passes_its_own_tests(project: tuple[str, Path], binary: Path) -> None:
    language, folder = project
    env = {**os.environ, "FORGERUN_BIN": str(binary)}

    def run(*command: str) -> None:
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, f"{command}:\n{ended.stdout}\n{ended.stderr}"

    match language:
        case "python":
            env["PYTHONPATH"] = str(ROOT / "sdk/python/src")
            described = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            assert described["name"] == "billing" and described["dependencies"][0].startswith("forgerun>=")
            run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
            run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / ".mypy"), ".")
        case "typescript":
            sdk = ROOT / "sdk/typescript"
            modules = folder / "node_modules"
            modules.mkdir()
            (modules / "forgerun").symlink_to(sdk)
            for name in ("typescript", "@types", "undici-types", ".bin"):
                (modules / name).symlink_to(sdk / "node_modules" / name)
            run("npm", "test", "--silent")
        case "go":
            run("go", "mod", "edit", "-replace", f"github.com/forgerun/forgerun/sdk/go={ROOT / 'sdk/go'}")
            run("go", "vet", "./...")
            run("go", "test", "./...")
