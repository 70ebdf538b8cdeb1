"""Jobs that a worker holds, and the threads for handlers that are plain functions."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ._handler import Handler
from .context import AsyncContext, Context, JobInfo


class Held:
    """A job that the worker holds."""

    __slots__ = ("arrived", "began", "context", "handler", "input", "job", "reason", "task")

    def __init__(self, job: JobInfo, value: Any, context: AsyncContext, handler: Handler, now: float) -> None:
        self.job, self.input, self.context, self.handler = job, value, context, handler
        self.arrived = self.began = now
        self.reason: str | None = None
        """Why the handler was cancelled: "lost" or "stop"."""
        self.task: asyncio.Task[None] | None = None


class Threads:
    """Threads for handlers that are plain functions. They are daemons: one that does not end must not keep the process."""

    def __init__(
        self,
        n_max: int,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[Held, Any, BaseException | None], None],
    ) -> None:
        self._n_max = n_max
        self._loop = loop
        self._ended = ended
        self._jobs: queue.SimpleQueue[Held | None] = queue.SimpleQueue()
        self._n_threads = 0
        self._n_busy = 0
        self._done: deque[tuple[Held, Any, BaseException | None]] = deque()

    def submit(self, held: Held) -> None:
        self._n_busy += 1
        if self._n_busy > self._n_threads and self._n_threads < self._n_max:
            self._n_threads += 1
            threading.Thread(target=self._work, name=f"forgerun-{self._n_threads}", daemon=True).start()
        self._jobs.put(held)

    def close(self) -> None:
        for _ in range(self._n_threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (held := self._jobs.get()) is not None:
            value, failed = None, None
            try:
                value = held.handler.call(Context(held.context, self._loop), held.input)
            except BaseException as error:
                failed = error
            self._done.append((held, value, failed))
            # The loop is gone if the worker has stopped without waiting for this thread.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        while self._done:
            self._n_busy -= 1
            self._ended(*self._done.popleft())
