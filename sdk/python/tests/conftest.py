"""A server for all tests, and workers that end with their test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from forgerun import Client, Stopped, Worker
from forgerun.testing import DevServer

SDK = Path(__file__).parents[1]
VECTORS = SDK.parent / "vectors"
NO_RATE = {"FORGERUN_LIMITS__RATE_PER_MINUTE": "0"}

_queues = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[DevServer]:
    with DevServer(env=NO_RATE) as server:
        yield server


@pytest.fixture
def client(server: DevServer) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def queue() -> str:
    """A queue of the test's own."""
    return f"q{next(_queues)}"


class Running:
    """A worker that runs on a thread."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.stopped: Stopped | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.stopped = self.worker.run()
        except BaseException as error:
            self.error = error

    def stop(self) -> Stopped:
        """Asks it to stop, and waits until it has."""
        self.worker.stop()
        return self.join()

    def join(self, timeout: float = 30.0) -> Stopped:
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "the worker does not stop"
        if self.error is not None:
            raise self.error
        assert self.stopped is not None
        return self.stopped


@pytest.fixture
def run_worker() -> Iterator[Callable[[Worker], Running]]:
    started: list[Running] = []

    def run(worker: Worker) -> Running:
        started.append(Running(worker))
        return started[-1]

    yield run
    for running in started:
        if running.thread.is_alive():
            running.worker.stop()
            running.worker.stop()
            running.thread.join(30)
