"""Each scenario runs for each language on each store. Scenarios that leave the server alone share one per language and store."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from adapter import Adapter  # noqa: E402
from postgres import Cluster  # noqa: E402
from server import Server  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ["python", "typescript", "go", "rust"]
STORES = ["sqlite", "postgres"]


def target() -> Path:
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--language", action="append", choices=LANGUAGES, help="only this one; may be repeated")
    parser.addoption("--store", action="append", choices=STORES, help="only this one; may be repeated")
    binary = os.environ.get("FORGERUN_BIN") or str(target() / "debug/forgerun")
    parser.addoption("--binary", default=binary, help="the server; %(default)s")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Projects and pages are about the SDKs; the crate has its own examples."""
    is_about_sdks = collection_path.name in ("test_init.py", "test_docs.py")
    return True if is_about_sdks and config.getoption("--language") == ["rust"] else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "setting" in metafunc.fixturenames:
        languages = metafunc.config.getoption("--language") or LANGUAGES
        stores = metafunc.config.getoption("--store") or STORES
        settings = list(itertools.product(languages, stores))
        ids = [f"{language}-{store}" for language, store in settings]
        metafunc.parametrize("setting", settings, ids=ids, indirect=True, scope="session")


@dataclass
class Program:
    """How the adapter of a language is started."""

    command: list[str]
    env: dict[str, str] = field(default_factory=dict)


def program(language: str, scratch: Path) -> Program:
    sdk = ROOT / "sdk"
    match language:
        case "python":
            return Program([sys.executable, str(sdk / "python/tests/scenario.py")], {"PYTHONPATH": str(sdk / "python/src")})
        case "typescript":
            return Program(["node", str(sdk / "typescript/test/scenario.mjs")])
        case "go":
            built = scratch / "scenario-go"
            subprocess.run(["go", "build", "-o", str(built), "./internal/scenario"], cwd=sdk / "go", check=True)
            return Program([str(built)])
        case _:
            built = Path(os.environ.get("FORGERUN_SCENARIO_RUST") or target() / "debug/examples/scenario")
            assert built.exists(), f"{built} is missing: cargo build -p forgerun-client --example scenario"
            return Program([str(built)])


@dataclass
class Setting:
    """One language on one store."""

    language: str
    store: str
    program: Program
    binary: Path
    cluster: Cluster | None
    scratch: Path
    started: list[Adapter] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)

    def server(self) -> Server:
        server = Server(self.binary, self.cluster.database() if self.cluster else None)
        self.servers.append(server)
        return server

    def adapter(self, server: Server, log: str) -> Adapter:
        adapter = Adapter(self.program.command, self.program.env, server, self.scratch / log)
        self.started.append(adapter)
        return adapter


@pytest.fixture(scope="session")
def cluster() -> Iterator[list[Cluster]]:
    """The one PostgreSQL of the run, once somebody needs it."""
    clusters: list[Cluster] = []
    yield clusters
    for cluster in clusters:
        cluster.stop()


@pytest.fixture(scope="session")
def programs() -> dict[str, Program]:
    return {}


@pytest.fixture(scope="session")
def setting(
    request: pytest.FixtureRequest, cluster: list[Cluster], programs: dict[str, Program]
) -> Iterator[Setting]:
    language, store = request.param
    binary = Path(request.config.getoption("--binary")).resolve()
    assert binary.exists(), f"{binary} is missing: cargo build"
    if store == "postgres" and not cluster:
        cluster.append(Cluster())
    with tempfile.TemporaryDirectory(prefix="forgerun-scenarios-") as folder:
        scratch = Path(folder)
        setting = Setting(language, store, program(language, scratch), binary, None, scratch)
        setting.cluster = cluster[0] if store == "postgres" else None
        yield setting
        for server in setting.servers:
            server.stop()


@dataclass
class World:
    """What a scenario has: a server, an adapter without a worker, and a queue of its own."""

    setting: Setting
    server: Server
    sdk: Adapter
    queue: str

    def another(self, log: str | None = None) -> Adapter:
        """A second process of the same language."""
        return self.setting.adapter(self.server, log or self.sdk.log.name)

    def work(self, adapter: Adapter | None = None, concurrency: int = 4, lease_ms: int = 30_000) -> None:
        """Starts a worker of the queue."""
        (adapter or self.sdk).do("worker", queues=[self.queue], concurrency=concurrency, lease_ms=lease_ms)


_queues = itertools.count(1)


def _close(adapters: list[Adapter]) -> None:
    for adapter in adapters:
        if adapter.process.poll() is None:
            adapter.close()
        else:
            adapter.kill()
    adapters.clear()


@pytest.fixture(scope="session")
def shared_server(setting: Setting) -> Server:
    return setting.server()


@pytest.fixture
def world(setting: Setting, shared_server: Server) -> Iterator[World]:
    """A server that others use too: not to be stopped."""
    name = f"q{next(_queues)}"
    yield World(setting, shared_server, setting.adapter(shared_server, name), name)
    _close(setting.started)


@pytest.fixture
def own_world(setting: Setting) -> Iterator[World]:
    """A server of the scenario's own, which it may kill."""
    server = setting.server()
    name = f"q{next(_queues)}"
    yield World(setting, server, setting.adapter(server, name), name)
    _close(setting.started)
    server.stop()
    setting.servers.remove(server)
