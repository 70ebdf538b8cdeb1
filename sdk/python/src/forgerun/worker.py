"""Workers: handlers by type of job, and how they are run. `_run.py` has the loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ._handler import Handler, Output
from ._run import HELD_MAX, Run, Settings, Stopped
from .client import AsyncClient

__all__ = ["Output", "Stopped", "Worker"]

F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """Takes jobs and runs their handlers: coroutines as tasks, plain functions on threads."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int = 16,
        lease: float = 30.0,
        drain: float = 30.0,
        grace: float = 10.0,
    ) -> None:
        """`queues`: the first one named goes first. `concurrency`: jobs at once. `lease`: seconds for which a job stays with a worker that
        has fallen silent. `drain`: seconds that a worker which stops waits for what runs, before it cancels it and hands it back; `grace`:
        seconds that a cancelled handler has to end.
        """
        if isinstance(queues, str) or not queues:
            raise ValueError("queues is a list with the name of at least one queue")
        if not 1 <= concurrency <= HELD_MAX:
            raise ValueError(f"concurrency is 1 to {HELD_MAX}, not {concurrency}")
        if lease < 1:
            raise ValueError("a lease lasts at least a second")
        self.url, self.key = url, key
        self.queues = list(queues)
        self.concurrency = concurrency
        self.lease, self.drain, self.grace = lease, drain, grace
        self._handlers: list[Handler] = []
        self._run: Run | None = None

    def job(self, job_type: str) -> Callable[[F], F]:
        """Makes a function the handler of a type of jobs: a name, or a pattern in which `*` stands for any text. The first that fits counts.

        The function takes `(input)`, or `(ctx, input)` with a `Context`, or an `AsyncContext` if it is `async`.
        """

        def register(function: F) -> F:
            self._handlers.append(Handler.of(job_type, function))
            return function

        return register

    def handler(self, job_type: str) -> Handler | None:
        """The handler for a type of jobs."""
        return next((handler for handler in self._handlers if handler.pattern.fullmatch(job_type)), None)

    def run(self) -> Stopped:
        """Works until SIGTERM, SIGINT, `stop` or the server ends it; a second signal hands back at once what runs."""
        return asyncio.run(self._run_with_signals())

    async def _run_with_signals(self) -> Stopped:
        loop = asyncio.get_running_loop()
        handled = []
        for name in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread has signals, and not every platform has them here.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(name, self.stop)
                handled.append(name)
        try:
            return await self.run_async()
        finally:
            for name in handled:
                loop.remove_signal_handler(name)

    async def run_async(self) -> Stopped:
        """The same in an event loop that runs already. Cancelling it stops the worker like `stop`, without the time to drain."""
        if not self._handlers:
            raise ValueError("a worker needs a handler; give it one with @worker.job(TYPE)")
        if self._run is not None:
            raise RuntimeError("the worker runs already")
        async with AsyncClient(self.url, self.key) as client:
            settings = Settings(self.handler, self.queues, self.concurrency, self.lease, self.drain, self.grace)
            self._run = Run(settings, client._session)
            try:
                return await self._run.run()
            finally:
                self._run = None

    def stop(self) -> None:
        """Stops a worker that runs, from any thread: it takes no more and waits for what runs. The second time it does not wait."""
        run = self._run
        if run is not None:
            run.loop.call_soon_threadsafe(run.stop)
