"""Workers: take jobs of queues, run a handler for each, report how it ended.

A worker has one kind of request, the round trip `workers/exchange`: it reports all that ended, asks for as many jobs as there is
room for, and keeps the leases of the others. At most two are under way: one asks for jobs, which the server may hold; the other
carries what must not wait for it. Ends are kept until the server has taken them; a repetition is recognised by it.

    handler ends -> ends -> exchange -> settled, lost, or again
    exchange -> jobs -> a handler each; those that are taken ahead wait for a free one
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import queue
import re
import signal
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from . import errors
from ._http import Request, Upload
from ._session import Session, from_json, new_key, segment, to_json
from .client import AsyncClient
from .context import AsyncContext, Context, Fatal, JobInfo, RetryLater, received

F = TypeVar("F", bound=Callable[..., Any])

CONCURRENCY_MAX = 1000
ASK_WAIT = 20.0
"""Seconds for which the server is asked to hold a request for jobs. It allows 30; proxies cut idle requests after a minute."""
ASK_GRACE = 0.3
"""Seconds for which a worker that stops waits for the answer to its last request for jobs."""
ENTRIES_MAX = 500
EXCHANGE_BYTES_MAX = 8 * 1024 * 1024
INLINE_BYTES_MAX = 1024 * 1024
"""Bytes of a result that go into the report itself; larger ones are uploaded before."""
AHEAD = 0.05
"""Seconds of work that are taken ahead where jobs are shorter than that: a handler would wait for the network between two of them."""
AHEAD_FACTOR = 7
"""How many jobs are taken ahead for each handler at most."""
AHEAD_MAX = 1.0
"""Seconds for which a job that was taken ahead waits for a handler before it goes back."""
GATHER = 0.005
"""Seconds for which ends wait for a request for jobs that has just been sent, to go along with the next one."""
AWAY_FIRST, AWAY_LONGEST = 0.2, 5.0
NO_HANDLER_DELAY = 5.0
TRACE_CHARS_MAX = 8000
MESSAGE_CHARS_MAX = 4000

log = logging.getLogger("forgerun.worker")


@dataclass(frozen=True)
class Output:
    """A result that is no JSON value, or a large one: bytes, a file, or a stream that is open for reading."""

    content: bytes | Path | BinaryIO
    content_type: str = "application/octet-stream"
    filename: str | None = None


@dataclass
class Stopped:
    """How a worker stopped."""

    succeeded: int = 0
    failed: int = 0
    handed_back: int = 0
    lost: int = 0
    """Jobs that were cancelled, or went to another worker."""


@dataclass(frozen=True)
class Handler:
    pattern: re.Pattern[str]
    function: Callable[..., Any]
    is_async: bool
    n_parameters: int

    @classmethod
    def of(cls, job_type: str, function: Callable[..., Any]) -> Handler:
        pattern = re.compile(".*".join(map(re.escape, job_type.split("*"))), re.DOTALL)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds and p.default is p.empty]
        if len(needed) > 2:
            raise TypeError(f"a handler takes (input) or (ctx, input), not {len(needed)} arguments")
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)
        )
        return cls(pattern, function, is_async, len(needed))

    def call(self, context: AsyncContext | Context, value: Any) -> Any:
        return self.function(*((), (value,), (context, value))[self.n_parameters])


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
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency is 1 to {CONCURRENCY_MAX}, not {concurrency}")
        if lease < 1:
            raise ValueError("a lease lasts at least a second")
        self.url, self.key = url, key
        self.queues = list(queues)
        self.concurrency = concurrency
        self.lease, self.drain, self.grace = lease, drain, grace
        self._handlers: list[Handler] = []
        self._run: _Run | None = None

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
            self._run = _Run(self, client._session)
            try:
                return await self._run.run()
            finally:
                self._run = None

    def stop(self) -> None:
        """Stops a worker that runs, from any thread: it takes no more and waits for what runs. The second time it does not wait."""
        run = self._run
        if run is not None:
            run.loop.call_soon_threadsafe(run.stop)


class _Held:
    """A job that the worker holds."""

    __slots__ = ("arrived", "began", "context", "handler", "input", "job", "reason", "task")

    def __init__(self, job: JobInfo, value: Any, context: AsyncContext, handler: Handler, now: float) -> None:
        self.job, self.input, self.context, self.handler = job, value, context, handler
        self.arrived = self.began = now
        self.reason: str | None = None
        """Why the handler was cancelled: "lost" or "stop"."""
        self.task: asyncio.Task[None] | None = None


@dataclass
class _End:
    """How an attempt ended, on its way to the server."""

    held: _Held
    kind: str
    """A name of a counter in `Stopped`."""
    entry: bytes
    is_repeated: bool = False
    """Whether it was sent before, without an answer."""


class _Run:
    """One run of a worker. All but `_Threads` happens in one event loop."""

    def __init__(self, worker: Worker, session: Session) -> None:
        self.worker = worker
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.id = f"{socket.gethostname()}-{os.getpid()}-{new_key()[:8]}"
        self.stopped = Stopped()
        self.held: dict[str, _Held] = {}
        """By lease token: waiting, running, or being uploaded."""
        self.waiting: deque[_Held] = deque()
        self.ends: deque[_End] = deque()
        self.n_running = 0
        self.n_reporting = 0
        self.mean: float | None = None
        """Seconds that handlers take, with more weight on the last ones."""
        self.asking: asyncio.Task[None] | None = None
        self.asked_at = 0.0
        self.reporting: asyncio.Task[None] | None = None
        self.uploads: set[asyncio.Task[None]] = set()
        self.beat_due = True
        self.directive = "running"
        self.stopping = self.hurrying = False
        self.not_before = 0.0
        """When the next request may be sent, while the server is away."""
        self.failures = 0
        self.fatal: errors.ForgeRunError | None = None
        self.unknown_types: set[str] = set()
        self.pumping = False
        self.moved = asyncio.Event()
        """Set whenever something may have changed for a stop that waits."""
        self.threads = _Threads(worker.concurrency, self.loop, self._ended)
        head = {"worker_id": self.id, "queues": worker.queues, "visibility_timeout_ms": round(worker.lease * 1000)}
        self.head = to_json(head)[:-1]
        facts = {"hostname": socket.gethostname(), "pid": os.getpid(), "concurrency": worker.concurrency}
        self.facts = to_json(facts)[1:-1]

    async def run(self) -> Stopped:
        beating = self.loop.create_task(self._beat())
        try:
            log.info("worker %s takes jobs of %s", self.id, ", ".join(self.worker.queues))
            self.pump()
            await self._until(lambda: self.stopping)
            log.info("worker %s stops; %d jobs run", self.id, self.n_running)
            await self._end_asking()
            await self._until(self._is_idle, self.worker.drain, or_hurry=True)
            await self._cancel_all()
        except asyncio.CancelledError:
            self.stop()
            await self._cancel_all()
            raise
        finally:
            beating.cancel()
            self.threads.close()
            tasks = [task for task in (self.asking, self.reporting, *self.uploads) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(beating, *tasks, return_exceptions=True)
        if self.fatal is not None:
            raise self.fatal
        return self.stopped

    # Stopping

    def stop(self) -> None:
        if self.stopping:
            self.hurrying = True
        else:
            self.stopping = True
            self.beat_due = True
            while self.waiting:
                self._hand_back(self.waiting.popleft())
        self._changed()

    async def _end_asking(self) -> None:
        """The server gives nothing to a worker that stops; what it gave just before comes in a moment."""
        await self._until(lambda: self.asking is None, ASK_GRACE)
        if self.asking is not None:
            # Its ends go along with the next request.
            self.asking.cancel()

    async def _cancel_all(self) -> None:
        for held in list(self.held.values()):
            self._cancel(held, "stop")
        await self._until(self._is_idle, self.worker.grace)
        for held in list(self.held.values()):
            # A thread cannot be stopped; its job goes back all the same.
            self._hand_back(held)
        await self._until(lambda: not self.ends and not self.n_reporting, min(self.worker.grace, 5.0))
        for end in self.ends:
            log.error("the end of job %s could not be reported", end.held.job.id)

    def _is_idle(self) -> bool:
        return not self.n_running and not self.held and not self.ends and not self.n_reporting

    async def _until(self, condition: Callable[[], bool], timeout: float | None = None, or_hurry: bool = False) -> None:
        deadline = None if timeout is None else self.loop.time() + timeout
        while not (condition() or self.fatal is not None or (or_hurry and self.hurrying)):
            self.moved.clear()
            left = None if deadline is None else deadline - self.loop.time()
            try:
                await asyncio.wait_for(self.moved.wait(), left)
            except asyncio.TimeoutError:
                return

    # Handlers

    def _take(self, job: Mapping[str, Any]) -> None:
        info, value, parents = received(job)
        handler = self.worker.handler(info.type)
        if handler is None:
            self._no_handler(info)
            return
        held = _Held(info, value, AsyncContext(info, parents, self), handler, time.monotonic())
        self.held[info.lease_token] = held
        if self.stopping:
            self._hand_back(held)
        elif self.n_running < self.worker.concurrency:
            self._start(held)
        else:
            if not self.waiting:
                self.loop.call_later(AHEAD_MAX, self._give_up_waiting)
            self.waiting.append(held)

    def _no_handler(self, job: JobInfo) -> None:
        if job.type not in self.unknown_types and len(self.unknown_types) < 1000:
            self.unknown_types.add(job.type)
            log.warning("no handler for jobs of type %s; they go back to their queue", job.type)
        held = _Held(job, None, AsyncContext(job, {}, self), Handler.of("", lambda: None), 0.0)
        self._hand_back(held, NO_HANDLER_DELAY)

    def _start(self, held: _Held) -> None:
        self.n_running += 1
        held.began = time.monotonic()
        if held.handler.is_async:
            held.task = self.loop.create_task(self._run_async(held))
        else:
            self.threads.submit(held)

    async def _run_async(self, held: _Held) -> None:
        try:
            value = await held.handler.call(held.context, held.input)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            self._ended(held, None, error)
        else:
            self._ended(held, value, None)

    def _ended(self, held: _Held, value: Any, error: BaseException | None) -> None:
        """A handler has ended."""
        self.n_running -= 1
        took = time.monotonic() - held.began
        self.mean = took if self.mean is None else (7 * self.mean + took) / 8
        while self.waiting and self.n_running < self.worker.concurrency:
            self._start(self.waiting.popleft())
        if held.reason != "lost" and held.job.lease_token in self.held:
            if error is None:
                self._succeeded(held, value)
            elif held.reason == "stop" or isinstance(error, asyncio.CancelledError):
                self._hand_back(held)
            else:
                self._failed(held, failure_of(error))
        self._changed()

    def _succeeded(self, held: _Held, value: Any) -> None:
        if isinstance(value, (bytes, bytearray, Output)):
            self._upload(held, value if isinstance(value, Output) else Output(bytes(value)))
            return
        try:
            result = to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            failure = {"code": "handler_error", "type": type(error).__name__, "retryable": False}
            self._failed(held, {**failure, "message": f"the result is no JSON: {error}"[:MESSAGE_CHARS_MAX]})
            return
        if len(result) > INLINE_BYTES_MAX:
            self._upload(held, Output(result, "application/json"))
        else:
            self._end(held, "succeeded", b"" if value is None else b',"result":' + result)

    def _failed(self, held: _Held, failure: dict[str, Any]) -> None:
        delay = failure.pop("delay_ms", None)
        log.info("job %s (%s) failed: %s", held.job.id, held.job.type, failure["message"])
        # Half of a surrogate pair in a message must not keep the failure from being reported.
        entry = b',"error":' + json.dumps(failure, default=str).encode()
        self._end(held, "failed", entry if delay is None else entry + b',"delay_ms":%d' % delay)

    def _hand_back(self, held: _Held, delay: float = 0.0) -> None:
        self._end(held, "handed_back", b',"requeue":true,"delay_ms":%d' % (delay * 1000))

    def _end(self, held: _Held, kind: str, end: bytes) -> None:
        self.held.pop(held.job.lease_token, None)
        head = b'{"job_id":%b,"lease_token":%b' % (to_json(held.job.id), to_json(held.job.lease_token))
        self.ends.append(_End(held, kind, head + end + b"}"))
        self._changed()

    def _cancel(self, held: _Held, reason: str) -> None:
        if held.reason is None:
            held.reason = reason
            held.context._cancelled.set()
            if held.task is not None:
                held.task.cancel()

    def _lose(self, held: _Held) -> None:
        """The job was cancelled, or belongs to another worker: nothing that its handler does counts any more."""
        log.info("job %s (%s) is no longer ours", held.job.id, held.job.type)
        self.stopped.lost += 1
        self.held.pop(held.job.lease_token, None)
        with contextlib.suppress(ValueError):
            self.waiting.remove(held)
        self._cancel(held, "lost")
        self._changed()

    def _give_up_waiting(self) -> None:
        oldest = time.monotonic() - AHEAD_MAX
        while self.waiting and self.waiting[0].arrived <= oldest:
            # Another worker may be free. Nothing is taken ahead until jobs are seen to be short again.
            self.mean = None
            self._hand_back(self.waiting.popleft())
        if self.waiting:
            self.loop.call_at(self.loop.time() + self.waiting[0].arrived - oldest, self._give_up_waiting)

    def _room(self) -> int:
        """For how many jobs there is room."""
        concurrency = self.worker.concurrency
        n_held = self.n_running + len(self.waiting)
        if self.stopping or self.directive != "running" or len(self.ends) + self.n_reporting > 4 * concurrency:
            return 0
        if self.mean is None or self.mean >= AHEAD:
            return max(0, concurrency - n_held)
        limit = concurrency + int(concurrency * min(AHEAD_FACTOR, AHEAD / max(self.mean, 1e-6)))
        n_free = min(limit - n_held, CONCURRENCY_MAX)
        # What is taken ahead is taken in few requests.
        return n_free if 4 * n_free >= limit else 0

    # The round trip

    def _changed(self) -> None:
        """Looks at what there is to send, once all that happens now has happened."""
        self.moved.set()
        if not self.pumping:
            self.pumping = True
            self.loop.call_soon(self.pump)

    def pump(self) -> None:
        self.pumping = False
        now = self.loop.time()
        if self.fatal is not None or now < self.not_before:
            return
        if self.asking is None:
            room = self._room()
            if room:
                self.asked_at = now
                self.asking = self.loop.create_task(self._exchange(room))
        if self.reporting is None and (self.ends or self.beat_due):
            gathers = self.asking is not None and now < self.asked_at + GATHER
            if gathers and not self.stopping:
                self.loop.call_at(self.asked_at + GATHER, self._changed)
            else:
                self.reporting = self.loop.create_task(self._exchange(0))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.worker.lease / 3)
            self.beat_due = True
            self._changed()

    async def _exchange(self, room: int) -> None:
        ends = self._next_ends()
        beats, self.beat_due = self.beat_due, False
        extended = dict(self.held) if beats else {}
        try:
            answer = await self._send(room, ends, extended, beats)
        except errors.ForgeRunError as error:
            self._put_back(ends)
            self.beat_due = self.beat_due or beats
            self._away(error)
        except BaseException:
            self._put_back(ends)
            raise
        else:
            if self.failures:
                log.info("the server answers again")
            self.failures = 0
            self._settle(ends, answer.get("results") or [])
            self._obey(answer, extended, beats)
            for job in answer.get("jobs") or []:
                self._take(job)
        finally:
            self.n_reporting -= len(ends)
            if room:
                self.asking = None
            else:
                self.reporting = None
            self._changed()

    def _put_back(self, ends: list[_End]) -> None:
        for end in reversed(ends):
            end.is_repeated = True
            self.ends.appendleft(end)

    def _next_ends(self) -> list[_End]:
        ends: list[_End] = []
        size = 0
        while self.ends and len(ends) < ENTRIES_MAX:
            size += len(self.ends[0].entry)
            if ends and size > EXCHANGE_BYTES_MAX:
                break
            ends.append(self.ends.popleft())
        self.n_reporting += len(ends)
        return ends

    async def _send(self, room: int, ends: list[_End], extended: Mapping[str, _Held], beats: bool) -> dict[str, Any]:
        parts = [self.head, b',"count":%d' % room]
        if room:
            parts.append(b',"wait_ms":%d' % (ASK_WAIT * 1000))
        if ends:
            parts += [b',"done":[', b",".join(end.entry for end in ends), b"]"]
        if beats:
            entries = [{"job_id": held.job.id, "lease_token": token} for token, held in extended.items()]
            state = b'"terminate"' if self.stopping and not self.held else b'"quiet"' if self.stopping else b'"running"'
            parts += [b',"extend":', to_json(entries), b',"state":', state, b",", self.facts]
        parts.append(b"}")
        # A request that the server does not hold and that gets no answer must not cost the leases.
        timeout = ASK_WAIT + self.session.timeout if room else max(5.0, self.worker.lease / 2)
        headers = {"accept": "application/json", "content-type": "application/json"}
        request = Request("POST", "/ojs/v1/workers/exchange", headers, b"".join(parts), timeout)
        response = await self.session.send_once(request)
        try:
            answer: dict[str, Any] = from_json(await response.body())
        except OSError as error:
            raise errors.Unreachable(self.session.http.authority, str(error), maybe_sent=True) from error
        return answer

    def _away(self, error: errors.ForgeRunError) -> None:
        if not error.retryable and not isinstance(error, errors.ProtocolError):
            log.error("the server refuses this worker: %s", error)
            self.fatal, self.stopping = error, True
            return
        if self.not_before <= self.loop.time():
            wait = min(AWAY_LONGEST, AWAY_FIRST * (1 << min(self.failures, 10)))
            wait = max(wait, min(error.retry_after or 0.0, 60.0)) * (1 + os.urandom(1)[0] / 512)
            self.failures += 1
            log.warning("the server is away: %s; trying again in %.1f s", error, wait)
            self._pause(wait)

    def _pause(self, wait: float) -> None:
        self.not_before = self.loop.time() + wait
        self.loop.call_at(self.not_before, self._changed)

    def _settle(self, ends: list[_End], results: list[dict[str, Any]]) -> None:
        for n, end in enumerate(ends):
            result = results[n] if n < len(results) else {}
            status = result.get("status")
            is_gone = status in (404, 409, 410)
            # The server recognises what ended a job for good; what only ended an attempt has let go of the job the first time.
            if (status is not None and 200 <= status < 300) or (is_gone and end.is_repeated and end.kind != "succeeded"):
                setattr(self.stopped, end.kind, getattr(self.stopped, end.kind) + 1)
            elif is_gone:
                self._lose(end.held)
            else:
                self._refused(end, errors.from_problem(result.get("problem") or {}, status))

    def _refused(self, end: _End, error: errors.ForgeRunError) -> None:
        job = end.held.job
        if error.retryable:
            self.ends.append(end)
            self._away(error)
        elif end.kind == "succeeded":
            # The server does not want this result and never will: that is a failure, with its reason.
            failure = {"code": "handler_error", "type": "ResultRefused", "retryable": False}
            self._failed(end.held, {**failure, "message": f"the result was refused: {error}"[:MESSAGE_CHARS_MAX]})
        else:
            log.error("the end of job %s was refused: %s", job.id, error)

    def _obey(self, answer: Mapping[str, Any], extended: Mapping[str, _Held], beats: bool) -> None:
        gone = {*answer.get("cancelled", ()), *answer.get("lost", ())}
        for token, held in extended.items():
            if held.job.id in gone and token in self.held:
                self._lose(held)
        directive = answer.get("directive")
        if directive == "terminate" and not self.stopping:
            log.info("the server ends this worker")
            self.stop()
        elif beats:
            self.directive = directive or "running"
        elif directive == "quiet" and self.directive == "running":
            # The server stops. Whether this worker shall be quiet is said in answers to heartbeats.
            self._pause(AWAY_FIRST)

    # Large results

    def _upload(self, held: _Held, output: Output) -> None:
        task = self.loop.create_task(self._send_output(held, output))
        self.uploads.add(task)
        task.add_done_callback(self.uploads.discard)

    async def _send_output(self, held: _Held, output: Output) -> None:
        tries = 0
        while held.reason != "lost":
            try:
                await self._upload_once(held, output)
            except errors.ForgeRunError as error:
                if error.status in (404, 409, 410):
                    self._lose(held)
                    return
                if error.retryable and _can_repeat(output):
                    await asyncio.sleep(min(AWAY_LONGEST, AWAY_FIRST * (1 << min(tries, 10))))
                    tries += 1
                    continue
                self._failed(held, failure_of(error))
            except (OSError, ValueError) as error:
                self._failed(held, failure_of(error))
            else:
                self._end(held, "succeeded", b"")
            return

    async def _upload_once(self, held: _Held, output: Output) -> None:
        headers = {"lease-token": held.job.lease_token, "content-type": output.content_type}
        if output.filename:
            name = re.sub(r'["\\\r\n]', "_", output.filename)
            headers["content-disposition"] = f'attachment; filename="{name}"'
        path = f"/ojs/v1/jobs/{segment(held.job.id)}/result"
        if isinstance(output.content, bytes):
            await self.session.send("PUT", path, output.content, headers=headers, hold=600)
            return
        with contextlib.ExitStack() as stack:
            stream = output.content
            size = None
            if isinstance(stream, Path):
                stream = stack.enter_context(stream.open("rb"))
                size = os.fstat(stream.fileno()).st_size
            elif stream.seekable():
                stream.seek(0)
            upload = Upload(lambda: stream.read(256 * 1024), size)
            response = await self.session.send("PUT", path, upload, headers=headers, hold=600)
            await response.body()

    # What handlers report: the `Backend` of contexts

    async def progress(self, job: JobInfo, percent: float, message: str | None) -> None:
        body = {"job_id": job.id, "lease_token": job.lease_token, "percentage": percent, "message": message}
        try:
            await self.session.fetch("POST", "/ojs/v1/workers/progress", body)
        except errors.ForgeRunError as error:
            log.debug("progress of job %s was lost: %s", job.id, error)

    async def load_steps(self, job: JobInfo) -> dict[str, Any]:
        answer = await self.session.fetch("GET", f"/ojs/v1/checkpoints/{segment(job.id)}/resume")
        steps = answer["state"] if answer.get("has_checkpoint") else {}
        if not isinstance(steps, dict):
            raise ValueError("the checkpoint of the job is no object of steps")
        return steps

    async def save_steps(self, job: JobInfo, steps: Mapping[str, Any]) -> None:
        headers = {"lease-token": job.lease_token}
        await self.session.fetch("PUT", f"/ojs/v1/checkpoints/{segment(job.id)}", {"state": steps}, headers=headers)


class _Threads:
    """Threads for handlers that are plain functions. They are daemons: one that does not end must not keep the process."""

    def __init__(
        self,
        n_max: int,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[_Held, Any, BaseException | None], None],
    ) -> None:
        self._n_max = n_max
        self._loop = loop
        self._ended = ended
        self._jobs: queue.SimpleQueue[_Held | None] = queue.SimpleQueue()
        self._n_threads = 0
        self._n_busy = 0
        self._done: deque[tuple[_Held, Any, BaseException | None]] = deque()

    def submit(self, held: _Held) -> None:
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


def failure_of(error: BaseException) -> dict[str, Any]:
    """An exception of a handler, as it is reported."""
    failure: dict[str, Any] = {
        "code": "handler_error",
        "type": type(error).__name__,
        "message": (str(error) or type(error).__name__)[:MESSAGE_CHARS_MAX],
    }
    if isinstance(error, RetryLater):
        return {**failure, "retryable": True, "delay_ms": round(error.after * 1000)}
    if isinstance(error, Fatal):
        return {**failure, "retryable": False}
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {**failure, "backtrace": trace[-TRACE_CHARS_MAX:].splitlines()}


def _can_repeat(output: Output) -> bool:
    return isinstance(output.content, (bytes, Path)) or output.content.seekable()
