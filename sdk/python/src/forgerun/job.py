"""Handles of jobs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import errors
from ._blocking import blocking, iterate
from ._codes import FINAL_STATES
from ._lines import LogLine, read_lines
from ._retry import poll_wait
from ._session import from_json, segment, to_json
from ._sse import Event, follow

if TYPE_CHECKING:
    from .client import AsyncClient

HOLD_MAX = 30
"""Seconds for which a server holds an answer at most."""
HOLDS_MAX = 32
"""Answers of one client that are held at once. Each keeps a connection; further waits poll."""
RESULT_TIMEOUT = 300.0
RESUMES_MAX = 5


@dataclass(frozen=True)
class Status:
    """Where a job stands."""

    state: str
    """CREATED, QUEUED, ASSIGNED, RUNNING, SUCCEEDED, FAILED or CANCELED."""
    attempt: int
    progress: int | None
    """Percent, as the handler last reported."""
    view: Mapping[str, Any] = field(repr=False)
    """All that the server says about the job."""

    @property
    def is_paused(self) -> bool:
        """Whether it is held back until it is resumed."""
        return bool(self.view.get("paused"))

    @property
    def has_ended(self) -> bool:
        return self.state in FINAL_STATES

    @classmethod
    def of(cls, view: Mapping[str, Any]) -> Status:
        return cls(str(view.get("state", "")), int(view.get("attempt") or 0), view.get("progress"), view)


class AsyncJob:
    """A job on the server."""

    def __init__(self, client: AsyncClient, job_id: str) -> None:
        self._client = client
        self._session = client._session
        self.id = job_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def _path(self, rest: str = "") -> str:
        return f"/v1/jobs/{segment(self.id)}{rest}"

    async def status(self) -> Status:
        """Where it stands."""
        return Status.of(await self._session.fetch("GET", self._path()))

    async def wait(self, timeout: float = RESULT_TIMEOUT) -> Status:
        """Waits until it has ended, well or badly. `TimeoutError` if that takes longer; the job goes on."""
        began = time.monotonic()
        polls, known = 0, False
        while True:
            left = timeout - (time.monotonic() - began)
            try:
                status, held, retry_after = await self._ask(left)
            except errors.ForgeRunError as error:
                # The request was sent again already. It is the job that matters, so go on, unless no question was answered yet.
                if time.monotonic() - began < timeout and not (error.retryable and known):
                    raise
                held, retry_after = False, error.retry_after
            else:
                known = True
                if status.has_ended:
                    return status
            waited = time.monotonic() - began
            if held and waited < timeout:
                continue
            wait = poll_wait(polls, waited, retry_after, timeout)
            polls += 1
            if wait is None:
                await self._session.io.sleep(max(0.0, timeout - waited))
                raise TimeoutError(f"the job {self.id} did not end within {timeout:g} s")
            await self._session.io.sleep(wait)

    async def _ask(self, left: float) -> tuple[Status, bool, float | None]:
        """Where it stands, whether the server held its answer, and the pause that it asks for."""
        may_hold = left > 0 and self._client._holds < HOLDS_MAX
        # A server holds whole seconds; of the last part of one the end is ours.
        hold = max(1, min(HOLD_MAX, int(left))) if may_hold else 0
        give_up = left if may_hold and left < 1 else None
        headers = {"prefer": f"wait={hold}"} if hold else {}
        self._client._holds += may_hold
        asked_at = time.monotonic()
        try:
            response = await self._session.send("GET", self._path(), headers=headers, hold=hold, give_up=give_up)
            status = Status.of(from_json(await response.body()))
        except OSError as error:
            raise errors.Unreachable(self._session.http.authority, str(error), maybe_sent=True) from error
        finally:
            self._client._holds -= may_hold
        # A server that is about to stop answers at once: ask it like one that does not hold answers.
        held = "wait" in response.headers.get("preference-applied", "") and time.monotonic() - asked_at > hold / 2
        return status, held, errors.parse_retry_after(response.headers.get("retry-after"))

    async def result(self, timeout: float = RESULT_TIMEOUT) -> Any:
        """What its handler returned: a value if that is JSON, otherwise bytes; `None` if nothing.

        Raises `JobFailed`, `JobTimedOut` or `JobCancelled` if it ended badly, and `TimeoutError` if it does not end in time.
        """
        await self._succeeded(timeout)
        try:
            response = await self._session.send("GET", self._path("/result"), headers={"accept": "*/*"})
        except errors.ResourceError as error:
            if str(error.problem.get("type", "")).endswith("/result-not-found"):
                return None
            raise
        try:
            body = await response.body()
        except OSError:
            body = b"".join([piece async for piece in self._pieces()])
        is_json = response.content_type == "application/json" or response.content_type.endswith("+json")
        return from_json(body) if is_json else body

    async def stream(self, timeout: float = RESULT_TIMEOUT) -> AsyncIterator[bytes]:
        """The bytes of its result, piece by piece, of any size. A download that breaks goes on where it ended."""
        await self._succeeded(timeout)
        async for piece in self._pieces():
            yield piece

    async def _succeeded(self, timeout: float) -> None:
        status = await self.wait(timeout)
        if status.state != "SUCCEEDED":
            raise await self._failure(status)

    async def _failure(self, status: Status) -> errors.ExecutionError:
        headers = {"accept": "application/problem+json"}
        response = await self._session.send("GET", self._path(), headers=headers)
        value = from_json(await response.body())
        is_problem = response.content_type == "application/problem+json" and isinstance(value, dict)
        return errors.of_job(self.id, status.state, value if is_problem else {})

    async def _pieces(self) -> AsyncIterator[bytes]:
        at, breaks, etag = 0, 0, None
        while True:
            headers = {"accept": "*/*"}
            if at:
                headers |= {"range": f"bytes={at}-", "if-range": etag or ""}
            response = await self._session.send("GET", self._path("/result"), headers=headers)
            starts_here = response.headers.get("content-range", "").startswith(f"bytes {at}-")
            if at and not (response.status == 206 and starts_here):
                response.close()
                raise errors.ProtocolError("the result is another one than before; begin again")
            etag = etag or response.headers.get("etag")
            try:
                while piece := await response.chunk():
                    at, breaks = at + len(piece), 0
                    yield piece
                return
            except OSError as error:
                breaks += 1
                if breaks > RESUMES_MAX or not (etag or "").startswith('"'):
                    raise errors.Unreachable(self._session.http.authority, str(error), maybe_sent=True) from error
            finally:
                response.close()
            await self._session.io.sleep(0.1 * 2**breaks)

    async def cancel(self) -> Status:
        """Cancels it. A job that has ended stays as it is."""
        return Status.of(await self._session.fetch("POST", self._path("/cancel")))

    async def retry(self) -> Status:
        """Tries a failed job again."""
        return Status.of(await self._session.fetch("POST", self._path("/retry")))

    async def pause(self) -> Status:
        """Holds it back: no worker gets it until it is resumed. One that runs goes on. A job that has ended is a `ValidationError`."""
        return Status.of(await self._session.fetch("POST", self._path("/pause")))

    async def resume(self) -> Status:
        """Ends a pause."""
        return Status.of(await self._session.fetch("POST", self._path("/resume")))

    async def signal(self, name: str, payload: Any = True) -> None:
        """Sends a signal to its handler, which gets `payload`, any JSON, where it waits for it: `ctx.wait_for(name)`.

        One that comes before the wait is kept, and the same one again changes nothing. Another payload, or one after the timeout, is a
        `ConflictError`.
        """
        await self._session.fetch("POST", self._path(f"/signals/{segment(name)}"), to_json(payload))

    async def report(self) -> dict[str, Any]:
        """How it went, once it has ended: its events, times and attempts."""
        report: dict[str, Any] = await self._session.fetch("GET", self._path("/report"))
        return report

    def events(self, after: str = "") -> AsyncIterator[Event]:
        """What happened to it from the first event on, and then whatever happens, until it ends. Survives restarts of the server."""
        return follow(self._session, self._path("/events"), after)

    def logs(
        self, *, follow: bool = False, stream: str | None = None, attempt: int | None = None, after: int = 0
    ) -> AsyncIterator[LogLine]:
        """The lines of its log, in their order: those that are there, or with `follow` also new ones until the job has ended. That
        survives restarts of the server. `after`: go on behind the line with this `seq`."""
        path = self._path("/logs")
        return read_lines(self._session, path, following=follow, stream=stream, attempt=attempt, after=after)


class Job:
    """A job on the server."""

    def __init__(self, job: AsyncJob) -> None:
        self._async = job

    @property
    def id(self) -> str:
        return self._async.id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    status = blocking(AsyncJob.status)
    wait = blocking(AsyncJob.wait)
    result = blocking(AsyncJob.result)
    cancel = blocking(AsyncJob.cancel)
    retry = blocking(AsyncJob.retry)
    pause = blocking(AsyncJob.pause)
    resume = blocking(AsyncJob.resume)
    signal = blocking(AsyncJob.signal)
    report = blocking(AsyncJob.report)

    def stream(self, timeout: float = RESULT_TIMEOUT) -> Iterator[bytes]:
        """The bytes of its result, piece by piece, of any size. A download that breaks goes on where it ended."""
        return iterate(self._async.stream(timeout))

    def events(self, after: str = "") -> Iterator[Event]:
        """What happened to it from the first event on, and then whatever happens, until it ends. Survives restarts of the server."""
        return iterate(self._async.events(after))

    def logs(
        self, *, follow: bool = False, stream: str | None = None, attempt: int | None = None, after: int = 0
    ) -> Iterator[LogLine]:
        """The lines of its log, in their order. See `AsyncJob.logs`."""
        return iterate(self._async.logs(follow=follow, stream=stream, attempt=attempt, after=after))
