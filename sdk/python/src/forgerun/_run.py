"""One run of a worker.

One kind of request, the round trip `workers/exchange`: it reports all that ended, asks for as many jobs as there is room for, and keeps
the leases of the others. At most two are under way: one asks for jobs, which the server may hold; the other carries what must not
wait for it. Ends are kept until the server has taken them; it recognises a repetition.

    handler ends -> ends -> exchange -> settled, lost, or again
    exchange -> jobs -> a handler each; those that are taken ahead wait for a free one
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import errors
from ._handler import MESSAGE_CHARS_MAX, Handler, Output, failure_of
from ._held import Held, Threads
from ._http import Request
from ._lines import LogLine
from ._logs import LogBuffer
from ._references import address, fetch_parents
from ._session import Session, from_json, new_key, segment, to_json
from ._steps import Recorded, load_steps, save_step
from ._upload import AWAY_FIRST, AWAY_LONGEST, upload
from .context import AsyncContext, JobInfo, Suspended, received
from .workflows import AnyStep

HELD_MAX = 1000
"""Jobs that a worker holds: as many as one heartbeat may list."""
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
PAUSE_HELD = 2.0
"""Seconds of a sleep for which a handler keeps its job; for longer the job goes back until then."""
PAUSE_MAX = 6 * 24 * 3600.0
"""Seconds for which a job goes back at most; the server allows a week."""
NO_HANDLER = Handler.of("", lambda: None)
NO_HANDLER_DELAY = 5.0
"""Seconds before a job that no handler is for may come again."""

log = logging.getLogger("forgerun.worker")


@dataclass(frozen=True)
class Settings:
    """What `Worker` is made with."""

    handler: Callable[[str], Handler | None]
    queues: Sequence[str]
    concurrency: int
    lease: float
    drain: float
    grace: float


@dataclass
class Stopped:
    """How a worker stopped."""

    succeeded: int = 0
    failed: int = 0
    handed_back: int = 0
    lost: int = 0
    """Jobs that were cancelled, or went to another worker."""


@dataclass
class End:
    """How an attempt ended, on its way to the server."""

    held: Held
    kind: str
    """A name of a counter in `Stopped`."""
    entry: bytes
    is_repeated: bool = False
    """Whether it was sent before, without an answer."""


class Run:
    """One run of a worker. All but `Threads` happens in one event loop."""

    def __init__(self, settings: Settings, session: Session) -> None:
        self.settings = settings
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.id = f"{socket.gethostname()}-{os.getpid()}-{new_key()[:8]}"
        self.stopped = Stopped()
        self.held: dict[str, Held] = {}
        """By lease token: waiting, running, or being uploaded."""
        self.waiting: deque[Held] = deque()
        self.ends: deque[End] = deque()
        self.n_running = 0
        self.n_reporting = 0
        self.mean: float | None = None
        """Seconds that handlers take, with more weight on the last ones."""
        self.asking: asyncio.Task[None] | None = None
        self.asked_at = 0.0
        self.reporting: asyncio.Task[None] | None = None
        self.uploads: set[asyncio.Task[None]] = set()
        """What is sent for jobs whose handlers have ended: results and logs."""
        self.logs = LogBuffer(session, self.loop)
        self.beat_due = True
        self.directive = "running"
        self.stopping = self.hurrying = False
        self.stop_asked = asyncio.Event()
        self.not_before = 0.0
        """When the next request may be sent, while the server is away."""
        self.failures = 0
        self.fatal: errors.ForgeRunError | None = None
        self.unknown_types: set[str] = set()
        self.pumping = self.gathering = self.tidying = False
        self.moved = asyncio.Event()
        """Set whenever something may have changed for a stop that waits."""
        self.threads = Threads(settings.concurrency, self.loop, self._ended)
        head = {"worker_id": self.id, "queues": settings.queues, "visibility_timeout_ms": round(settings.lease * 1000)}
        self.head = to_json(head)[:-1]
        facts = {"hostname": socket.gethostname(), "pid": os.getpid(), "concurrency": settings.concurrency}
        self.facts = to_json(facts)[1:-1]

    async def run(self) -> Stopped:
        beating = self.loop.create_task(self._beat())
        try:
            log.info("worker %s takes jobs of %s", self.id, ", ".join(self.settings.queues))
            self.pump()
            await self.stop_asked.wait()
            log.info("worker %s stops; %d jobs run", self.id, self.n_running)
            await self._end_asking()
            await self._until(lambda: self._is_idle() or self.hurrying, self.settings.drain)
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
            self.stopping = self.beat_due = True
            self.stop_asked.set()
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
        await self._until(self._is_idle, self.settings.grace)
        for held in list(self.held.values()):
            # A thread cannot be stopped; its job goes back all the same.
            self._hand_back(held)
        await self._until(
            lambda: not (self.ends or self.n_reporting) or bool(self.fatal), min(self.settings.grace, 5.0)
        )
        for end in self.ends:
            log.error("the end of job %s could not be reported", end.held.job.id)

    def _is_idle(self) -> bool:
        """Whether all handlers have ended, and all ends are reported, unless the server refuses this worker."""
        return not self.n_running and (self.fatal is not None or not (self.held or self.ends or self.n_reporting))

    async def _until(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = self.loop.time() + timeout
        while not condition():
            self.moved.clear()
            try:
                await asyncio.wait_for(self.moved.wait(), deadline - self.loop.time())
            except asyncio.TimeoutError:
                return

    # Handlers

    def _take(self, job: Mapping[str, Any]) -> None:
        info, value, parents = received(job)
        handler = self.settings.handler(info.type)
        if handler is None:
            self._no_handler(info)
            return
        held = Held(info, value, AsyncContext(info, parents, self), handler, time.monotonic())
        self.held[info.lease_token] = held
        if self.stopping:
            self._hand_back(held)
        elif self.n_running < self.settings.concurrency:
            self._start(held)
        else:
            self.waiting.append(held)
            if not self.tidying:
                self.tidying = True
                self.loop.call_later(AHEAD_MAX, self._give_up_waiting)

    def _no_handler(self, job: JobInfo) -> None:
        if job.type not in self.unknown_types and len(self.unknown_types) < 1000:
            self.unknown_types.add(job.type)
            log.warning("no handler for jobs of type %s; they go back to their queue", job.type)
        held = Held(job, None, AsyncContext(job, {}, self), NO_HANDLER, 0.0)
        self._hand_back(held, NO_HANDLER_DELAY)

    def _start(self, held: Held) -> None:
        self.n_running += 1
        held.began = time.monotonic()
        if held.handler.is_async or any(map(address, held.context.parents.values())):
            held.task = self.loop.create_task(self._run_async(held))
        else:
            self.threads.submit(held)

    async def _run_async(self, held: Held) -> None:
        try:
            await fetch_parents(self.session, held.context.parents)
            if not held.handler.is_async:
                held.task = None
                self.threads.submit(held)
                return
            value = await held.handler.call(held.context, held.input)
        except (Exception, asyncio.CancelledError, SystemExit, Suspended) as error:
            self._ended(held, None, error)
        else:
            self._ended(held, value, None)

    def _ended(self, held: Held, value: Any, error: BaseException | None) -> None:
        """A handler has ended."""
        self.n_running -= 1
        took = time.monotonic() - held.began
        self.mean = took if self.mean is None else (7 * self.mean + took) / 8
        while self.waiting and self.n_running < self.settings.concurrency:
            self._start(self.waiting.popleft())
        if held.reason != "lost" and held.job.lease_token in self.held:
            if self.logs.has(held.job):
                self._keep(held, self._end_behind_logs(held, value, error))
            else:
                self._settle_handler(held, value, error)
        self._changed()

    async def _end_behind_logs(self, held: Held, value: Any, error: BaseException | None) -> None:
        """Logs are taken only while the job is held, so they go before its end."""
        try:
            await self.logs.flush(held.job)
        finally:
            if held.job.lease_token in self.held:
                self._settle_handler(held, value, error)

    def _settle_handler(self, held: Held, value: Any, error: BaseException | None) -> None:
        if error is None:
            self._succeeded(held, value)
        elif isinstance(error, Suspended):
            self._hand_back(held, min(error.after, PAUSE_MAX), error.signal)
        elif held.reason == "stop" or isinstance(error, asyncio.CancelledError):
            self._hand_back(held)
        else:
            self._failed(held, failure_of(error))

    def _succeeded(self, held: Held, value: Any) -> None:
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

    def _failed(self, held: Held, failure: dict[str, Any]) -> None:
        delay = failure.pop("delay_ms", None)
        log.info("job %s (%s) failed: %s", held.job.id, held.job.type, failure["message"])
        # Half of a surrogate pair in a message must not keep the failure from being reported.
        entry = b',"error":' + json.dumps(failure, default=str).encode()
        self._end(held, "failed", entry if delay is None else entry + b',"delay_ms":%d' % delay)

    def _hand_back(self, held: Held, delay: float = 0.0, until_signal: str | None = None) -> None:
        entry = b',"requeue":true,"delay_ms":%d' % math.ceil(delay * 1000)
        if until_signal is not None:
            entry += b',"until_signal":' + to_json(until_signal)
        self._end(held, "handed_back", entry)

    def _end(self, held: Held, kind: str, end: bytes) -> None:
        self.held.pop(held.job.lease_token, None)
        head = b'{"job_id":%b,"lease_token":%b' % (to_json(held.job.id), to_json(held.job.lease_token))
        self.ends.append(End(held, kind, head + end + b"}"))
        self._changed()

    def _cancel(self, held: Held, reason: str) -> None:
        if held.reason is None:
            held.reason = reason
            held.context._cancelled.set()
            if held.task is not None:
                # Behind its first step: a task that is cancelled before that never says that it ended.
                self.loop.call_soon(held.task.cancel)

    def _lose(self, held: Held) -> None:
        """The job was cancelled, or belongs to another worker: nothing that its handler does counts any more."""
        log.info("job %s (%s) is no longer ours", held.job.id, held.job.type)
        self.stopped.lost += 1
        self.held.pop(held.job.lease_token, None)
        self.logs.forget(held.job)
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
        self.tidying = bool(self.waiting)
        if self.waiting:
            self.loop.call_later(self.waiting[0].arrived - oldest, self._give_up_waiting)

    def _room(self) -> int:
        """For how many jobs there is room."""
        concurrency = self.settings.concurrency
        # A thread may still run for a lost job; a job is still held while its result is uploaded.
        n_held = max(self.n_running + len(self.waiting), len(self.held))
        if self.stopping or self.directive != "running" or len(self.ends) + self.n_reporting > 4 * concurrency:
            return 0
        if self.mean is None or self.mean >= AHEAD:
            return max(0, concurrency - n_held)
        ahead = int(concurrency * min(AHEAD_FACTOR, AHEAD / max(self.mean, 1e-6)))
        limit = min(concurrency + ahead, HELD_MAX)
        n_free = limit - n_held
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
            if self.asking is None or now >= self.asked_at + GATHER or self.stopping:
                self.reporting = self.loop.create_task(self._exchange(0))
            elif not self.gathering:
                self.gathering = True
                self.loop.call_at(self.asked_at + GATHER, self._gathered)

    def _gathered(self) -> None:
        self.gathering = False
        self._changed()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lease / 3)
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

    def _put_back(self, ends: list[End]) -> None:
        for end in reversed(ends):
            end.is_repeated = True
            self.ends.appendleft(end)

    def _next_ends(self) -> list[End]:
        ends: list[End] = []
        size = 0
        while self.ends and len(ends) < ENTRIES_MAX:
            size += len(self.ends[0].entry)
            if ends and size > EXCHANGE_BYTES_MAX:
                break
            ends.append(self.ends.popleft())
        self.n_reporting += len(ends)
        return ends

    async def _send(self, room: int, ends: list[End], extended: Mapping[str, Held], beats: bool) -> dict[str, Any]:
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
        timeout = ASK_WAIT + self.session.timeout if room else max(5.0, self.settings.lease / 2)
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
            self.fatal, self.hurrying = error, True
            self.stop()
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

    def _settle(self, ends: list[End], results: list[dict[str, Any]]) -> None:
        for n, end in enumerate(ends):
            result = results[n] if n < len(results) else {}
            status = result.get("status")
            is_gone = status in (404, 409, 410)
            # The server recognises what ended a job for good; what only ended an attempt has let go of the job the first time.
            if (status is not None and 200 <= status < 300) or (
                is_gone and end.is_repeated and end.kind != "succeeded"
            ):
                setattr(self.stopped, end.kind, getattr(self.stopped, end.kind) + 1)
            elif is_gone:
                self._lose(end.held)
            else:
                self._refused(end, errors.from_problem(result.get("problem") or {}, status))

    def _refused(self, end: End, error: errors.ForgeRunError) -> None:
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

    def _obey(self, answer: Mapping[str, Any], extended: Mapping[str, Held], beats: bool) -> None:
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

    def _upload(self, held: Held, output: Output) -> None:
        self._keep(held, self._send_output(held, output))

    def _keep(self, held: Held, work: Coroutine[Any, Any, None]) -> None:
        """Holds the job while this is sent."""
        held.task = self.loop.create_task(work)
        self.uploads.add(held.task)
        held.task.add_done_callback(self.uploads.discard)

    async def _send_output(self, held: Held, output: Output) -> None:
        try:
            await upload(self.session, held, output)
        except asyncio.CancelledError:
            if held.reason == "stop":
                self._hand_back(held)
            raise
        except errors.ForgeRunError as error:
            if error.status in (404, 409, 410):
                self._lose(held)
            else:
                self._failed(held, failure_of(error))
        except (OSError, ValueError) as error:
            self._failed(held, failure_of(error))
        else:
            self._end(held, "succeeded", b"")

    # What handlers report: the `Backend` of contexts

    async def progress(self, job: JobInfo, percent: float, message: str | None) -> None:
        body = {"job_id": job.id, "lease_token": job.lease_token, "percentage": percent, "message": message}
        try:
            await self.session.fetch("POST", "/ojs/v1/workers/progress", body)
        except errors.ForgeRunError as error:
            log.debug("progress of job %s was lost: %s", job.id, error)

    def log(self, job: JobInfo, line: LogLine) -> None:
        self.logs.add(job, line)

    async def pause(self, job: JobInfo, seconds: float) -> None:
        if seconds > PAUSE_HELD:
            raise Suspended(seconds)
        await asyncio.sleep(seconds)

    async def suspend(self, job: JobInfo, signal: str, seconds: float | None) -> None:
        raise Suspended(PAUSE_MAX if seconds is None else seconds, signal)

    async def add_steps(self, job: JobInfo, steps: Sequence[AnyStep]) -> None:
        if job.workflow_id is None:
            raise ValueError("the job is no step of a workflow")
        body = {"lease_token": job.lease_token, "steps": [step.body() for step in steps]}
        await self.session.fetch("POST", f"/v1/workflows/{segment(job.workflow_id)}/steps", body)

    async def load_steps(self, job: JobInfo) -> Recorded:
        return await load_steps(self.session, job)

    async def save_step(self, job: JobInfo, recorded: Recorded, name: str, result: Any) -> Any:
        return await save_step(self.session, job, recorded, name, result)
