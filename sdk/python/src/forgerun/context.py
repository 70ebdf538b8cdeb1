"""What a handler gets beside its input."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, Protocol, TypeVar, cast

from ._lines import LogLine
from ._steps import Recorded
from .workflows import AnyStep

T = TypeVar("T")


@dataclass(frozen=True)
class JobInfo:
    """The job that a handler works on."""

    id: str
    type: str
    queue: str
    attempt: int
    """From 1."""
    tags: Sequence[str] = ()
    meta: Mapping[str, Any] | None = None
    traceparent: str | None = None
    """The trace that the job belongs to; give it to jobs that you submit for this one."""
    workflow_id: str | None = None
    lease_token: str = ""


def received(job: Mapping[str, Any]) -> tuple[JobInfo, Any, dict[str, Any]]:
    """A job as workers get it: what it is, its input, and the results of the steps before."""
    args = job.get("args")
    # One argument is handed over as it is. A list that was submitted as such says so, as `args_wrapped` is there and false.
    value = args
    if not args:
        value = args if job.get("args_wrapped") is False else None
    elif job.get("args_wrapped") is not False and len(args) == 1:
        value = args[0]
    meta = job.get("meta") or {}
    info = JobInfo(
        job["id"],
        job["type"],
        job.get("queue", ""),
        job.get("attempt", 0),
        job.get("tags") or (),
        meta,
        job.get("traceparent") or meta.get("traceparent"),
        job.get("workflow_id"),
        job.get("lease_token") or "",
    )
    steps = job.get("parent_steps")
    return info, value, dict(zip(steps, job.get("parent_results") or [], strict=False)) if steps else {}


class RetryLater(Exception):
    """Raised by a handler: the attempt failed, and the next one, if there is one, comes after so many seconds."""

    def __init__(self, after: float, message: str | None = None) -> None:
        super().__init__(message or f"to be tried again in {after:g} s")
        self.after = after


class Fatal(Exception):
    """Raised by a handler: the job failed, and the same input would fail in the same way."""


class Suspended(BaseException):
    """Raised by `sleep` and `wait_for`: the job goes back to its queue. Like `CancelledError`, it is not an `Exception`: let it pass."""

    def __init__(self, after: float, signal: str | None = None) -> None:
        super().__init__(f"the job goes on in {after:g} s" + (f", or with signal {signal}" if signal else ""))
        self.after = after
        self.signal = signal
        """The signal that ends the wait before."""


class SignalTimeout(TimeoutError):
    """Raised by `wait_for`: no signal came in time, and none will count any more."""


LogLevel = Literal["debug", "info", "warn", "error"]
_NAME = re.compile(r"[A-Za-z0-9._-]{1,32}")


class Backend(Protocol):
    """Where a context sends what a handler reports."""

    async def progress(self, job: JobInfo, percent: float, message: str | None) -> None: ...
    async def load_steps(self, job: JobInfo) -> Recorded: ...
    async def save_step(self, job: JobInfo, recorded: Recorded, name: str, result: Any) -> Any: ...
    def log(self, job: JobInfo, line: LogLine) -> None: ...
    async def pause(self, job: JobInfo, seconds: float) -> None: ...
    async def suspend(self, job: JobInfo, signal: str, seconds: float | None) -> None: ...
    async def add_steps(self, job: JobInfo, steps: Sequence[AnyStep]) -> None: ...


class AsyncContext:
    """For handlers that are `async def`. When the job is cancelled, the handler's task is cancelled: `asyncio.CancelledError`."""

    def __init__(self, job: JobInfo, parents: dict[str, Any], backend: Backend) -> None:
        self.job = job
        self.parents = parents
        """The results of the steps before, by their names, however large; `None` where a step left nothing, or no JSON."""
        self._backend = backend
        self._cancelled = threading.Event()
        self._steps: Recorded | None = None
        self._recording = asyncio.Lock()
        self._n_sleeps = 0

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: the job was cancelled, ran out of time, or the worker stops."""
        return self._cancelled.is_set()

    async def progress(self, percent: float, message: str | None = None) -> None:
        """Reports how far the work is, 0 to 100. A report that is lost is no reason to fail."""
        if not 0 <= percent <= 100:
            raise ValueError(f"progress is 0 to 100, not {percent}")
        await self._backend.progress(self.job, percent, message)

    def log(self, text: object, *, level: LogLevel = "info", stream: str = "log") -> None:
        """Adds a line to the log of the job, which is kept and deleted with it. Returns at once; lines are sent in batches.

        The stream `output` is for partial results. A line that is lost is no reason to fail.
        """
        self._backend.log(self.job, _line(text, level, stream))

    async def sleep(self, seconds: float, *, name: str | None = None) -> None:
        """Goes on after so many seconds, on any worker, however often workers and servers are restarted meanwhile.

        For longer than a few seconds the job goes back to its queue, and the handler runs again from its beginning: put what
        comes before into steps. It counts as no attempt. Sleeps are told apart by their order, or by `name`.
        """
        self._n_sleeps += 1
        label = f"sleep:{name or self._n_sleeps}"
        until = await self.step(label, lambda: time.time() + seconds)
        rest = until - time.time()
        if rest > 0:
            await self._backend.pause(self.job, rest)

    async def wait_for(self, signal: str, *, timeout: float | None = None) -> Any:
        """The payload of a signal to this job (`Job.signal`), sent before this call or after it. A job has one signal of a name.

        Until it comes, the job goes back to its queue, and the handler runs again from its beginning then: put what comes before into
        steps. It counts as no attempt. After `timeout` seconds without a signal it raises `SignalTimeout`.
        """
        rest = None
        if timeout is not None:
            until = await self.step(f"wait:{signal}", lambda: time.time() + timeout)
            rest = max(until - time.time(), 0.0)
        name = f"signal:{signal}"
        recorded = await self._recorded()
        if name not in recorded and rest != 0:
            await self._backend.suspend(self.job, signal, rest)
        if name not in recorded:
            # Of a signal and this, the first counts.
            await self._record(name, {"timed_out": True})
        if "signal" not in recorded[name]:
            raise SignalTimeout(f"no signal {signal} came in time")
        return recorded[name]["signal"]

    async def add_steps(self, *steps: AnyStep) -> None:
        """Adds steps to the workflow that this job is a step of. They may depend on it, and on all others.

        Each needs an `id`. A second attempt that adds the same ids gets a `ConflictError`: put the call into a `step`.
        """
        await self._backend.add_steps(self.job, steps)

    async def step(self, name: str, function: Callable[[], Awaitable[T] | T]) -> T:
        """The result of a step: of this run, or recorded by an attempt before.

        A step runs at least once, and one result is recorded: a worker that dies between the end of `function` and the record
        runs it again, and where two workers have run it, the first result counts for both. Results are JSON of up to 256 KiB; a
        job has up to 1,000 steps and 1 MiB of results.
        """
        steps = await self._recorded()
        if name in steps:
            return cast(T, steps[name])
        result = function()
        if inspect.isawaitable(result):
            result = await result
        return cast(T, await self._record(name, result))

    async def _recorded(self) -> dict[str, Any]:
        async with self._recording:
            if self._steps is None:
                self._steps = await self._backend.load_steps(self.job)
        return self._steps.results

    async def _record(self, name: str, result: Any) -> Any:
        # One at a time: without single records, steps that end together must not write over each other.
        async with self._recording:
            assert self._steps is not None, "steps are read before they are recorded"
            # Recorded before it is remembered, so that a record that failed is no result.
            counts = await self._backend.save_step(self.job, self._steps, name, result)
            self._steps.results[name] = counts
            return counts


def _line(text: object, level: LogLevel, stream: str) -> LogLine:
    if not all(_NAME.fullmatch(name) for name in (level, stream)):
        raise ValueError("the names of levels and streams have 1 to 32 letters, digits, dots, hyphens and underscores")
    return LogLine(datetime.now(timezone.utc), level, stream, str(text))


class Context:
    """For handlers that are plain functions, which run on threads. They look at `cancelled` where they can stop."""

    def __init__(self, context: AsyncContext, loop: asyncio.AbstractEventLoop) -> None:
        self._async = context
        self._loop = loop
        self.job = context.job
        self.parents = context.parents
        """The results of the steps before, by their names, however large; `None` where a step left nothing, or no JSON."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: the job was cancelled, ran out of time, or the worker stops."""
        return self._async.cancelled

    def wait_cancelled(self, timeout: float) -> bool:
        """Sleeps, but no longer than the handler may go on; true if it should stop."""
        return self._async._cancelled.wait(timeout)

    def progress(self, percent: float, message: str | None = None) -> None:
        """Reports how far the work is, 0 to 100. A report that is lost is no reason to fail."""
        self._call(self._async.progress(percent, message))

    def log(self, text: object, *, level: LogLevel = "info", stream: str = "log") -> None:
        """Adds a line to the log of the job. See `AsyncContext.log`."""
        self._loop.call_soon_threadsafe(self._async._backend.log, self.job, _line(text, level, stream))

    def sleep(self, seconds: float, *, name: str | None = None) -> None:
        """Goes on after so many seconds, on any worker. See `AsyncContext.sleep`."""
        self._call(self._async.sleep(seconds, name=name))

    def wait_for(self, signal: str, *, timeout: float | None = None) -> Any:
        """The payload of a signal to this job. See `AsyncContext.wait_for`."""
        return self._call(self._async.wait_for(signal, timeout=timeout))

    def add_steps(self, *steps: AnyStep) -> None:
        """Adds steps to the workflow that this job is a step of. See `AsyncContext.add_steps`."""
        self._call(self._async.add_steps(*steps))

    def step(self, name: str, function: Callable[[], T]) -> T:
        """The result of a step: of this run, or recorded by an attempt before. See `AsyncContext.step`."""
        steps = self._call(self._async._recorded())
        if name in steps:
            return cast(T, steps[name])
        return cast(T, self._call(self._async._record(name, function())))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
