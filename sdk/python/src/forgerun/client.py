"""Clients: submit jobs and look after them. `Client` blocks, `AsyncClient` is for asyncio; they have the same methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from ._blocking import BlockingIo, blocking, run
from ._http import Io
from ._retry import RetryPolicy
from ._session import Session, new_key, segment, to_json
from ._submission import NewJob, Seconds
from .job import AsyncJob, Job
from .workflows import Workflow

if TYPE_CHECKING:
    import ssl

P = ParamSpec("P")

BATCH_JOBS_MAX = 1000
BATCH_BYTES_MAX = 4 * 1024 * 1024


class AsyncClient:
    """A client for asyncio. One serves a whole program; use it as `async with`, or call `close` at the end."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 40.0,
        retries: int = 5,
        tls: ssl.SSLContext | None = None,
        _io: Io | None = None,
    ) -> None:
        """`url` and `key` default to `FORGERUN_URL` (or http://127.0.0.1:8080) and `FORGERUN_API_KEY`.

        `timeout`: seconds until an answer begins. `retries`: how often a request is repeated where that does no harm.
        """
        if _io is None:
            from ._aio import AsyncIo

            _io = AsyncIo()
        policy = RetryPolicy(retries=retries)
        self._session = Session(_io, url, key, timeout=timeout, policy=policy, tls=tls)
        self._holds = 0

    @property
    def url(self) -> str:
        return self._session.url

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. A later call opens new ones."""
        self._session.http.close()

    async def submit(
        self,
        type: str,
        args: Any = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        max_retries: int = 3,
        timeout: Seconds | str | None = None,
        deadline: Seconds | datetime | str | None = None,
        tags: Sequence[str] = (),
        unique_key: str | None = None,
        delay: Seconds | None = None,
        at: datetime | str | None = None,
        callback: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        fair: Mapping[str, str | int] | None = None,
    ) -> AsyncJob:
        """Submits a job. However often the request has to be sent, it is one job. `NewJob` explains the options."""
        job = NewJob(
            type,
            args,
            queue,
            priority,
            max_retries,
            timeout,
            deadline,
            tags,
            unique_key,
            delay,
            at,
            callback,
            correlation_id,
            idempotency_key,
            traceparent,
            fair,
        )
        return await self.submit_job(job)

    async def submit_job(self, job: NewJob) -> AsyncJob:
        """Submits a job that was described before."""
        headers = {"idempotency-key": job.idempotency_key or new_key()}
        if job.traceparent:
            headers["traceparent"] = job.traceparent
        body = to_json(job.body(_now()))
        return AsyncJob(self, (await self._session.fetch("POST", "/v1/jobs", body, headers=headers))["job_id"])

    async def submit_many(self, jobs: Iterable[NewJob]) -> list[AsyncJob]:
        """Submits many jobs, up to 1,000 and 4 MiB with one request, each of which is taken as a whole or not at all.

        If a later request fails, the jobs of the earlier ones have been submitted. Types are those of the Open Job Spec here: words of
        small letters, digits, `_` and `-`, joined by dots.
        """
        handles: list[AsyncJob] = []
        for chunk in _chunks(to_json(job.envelope(_now())) for job in jobs):
            body = b'{"jobs":[%b]}' % b",".join(chunk)
            headers = {"idempotency-key": new_key()}
            answer = await self._session.fetch("POST", "/ojs/v1/jobs/batch", body, headers=headers)
            handles += [AsyncJob(self, job["id"]) for job in answer["jobs"]]
        return handles

    def job(self, job_id: str) -> AsyncJob:
        """A handle of a job that was submitted before."""
        return AsyncJob(self, job_id)

    async def submit_workflow(self, workflow: Workflow, *, idempotency_key: str | None = None) -> AsyncJob:
        """Begins a workflow and returns the handle of its own job; `workflow` shows its steps."""
        headers = {"idempotency-key": idempotency_key or new_key()}
        answer = await self._session.fetch("POST", "/v1/workflows", workflow.body(), headers=headers)
        return AsyncJob(self, answer["workflow_id"])

    async def workflow(self, workflow_id: str) -> dict[str, Any]:
        """A workflow with its steps."""
        view: dict[str, Any] = await self._session.fetch("GET", f"/v1/workflows/{segment(workflow_id)}")
        return view

    async def cancel_workflow(self, workflow_id: str, *, compensate: bool = True) -> dict[str, Any]:
        """Cancels what is left of a workflow and, unless told otherwise, undoes what it did."""
        path = f"/v1/workflows/{segment(workflow_id)}/cancel"
        view: dict[str, Any] = await self._session.fetch("POST", path, {"compensate": compensate})
        return view

    async def retry_workflow(self, workflow_id: str, *, from_step: str | None = None) -> dict[str, Any]:
        """Tries again what failed of a workflow and what did not have its turn; or that step and all that depend on it."""
        path = f"/v1/workflows/{segment(workflow_id)}/retry"
        view: dict[str, Any] = await self._session.fetch("POST", path, {"from": from_step} if from_step else {})
        return view

    async def pause_workflow(self, workflow_id: str) -> dict[str, Any]:
        """Holds a workflow back: no step starts until it is resumed. Steps that run go on."""
        view: dict[str, Any] = await self._session.fetch("POST", f"/v1/workflows/{segment(workflow_id)}/pause")
        return view

    async def resume_workflow(self, workflow_id: str) -> dict[str, Any]:
        """Ends the pause of a workflow and of its steps."""
        view: dict[str, Any] = await self._session.fetch("POST", f"/v1/workflows/{segment(workflow_id)}/resume")
        return view

    async def signal(self, workflow_id: str, name: str, payload: Any = True) -> None:
        """Ends the step of a workflow that waits for this signal; `payload`, any JSON, becomes the result of the step.

        A signal that comes before the wait is kept. The same one again changes nothing; another payload, or one after the timeout, is a
        `ConflictError`; an unknown name is a `ResourceError`.
        """
        path = f"/v1/workflows/{segment(workflow_id)}/signals/{segment(name)}"
        # As text: `None` is a payload too.
        await self._session.fetch("POST", path, to_json(payload))

    async def schedule(
        self,
        name: str,
        cron: str,
        type: str,
        args: Any = None,
        *,
        timezone: str = "UTC",
        overlap: str | None = None,
        catch_up: str | None = None,
        enabled: bool | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Registers a schedule, or changes the one of that name. `options` are those of `submit`: `queue`, `max_retries`, `timeout`, …

        `overlap`: `skip`, `allow`, `cancel_previous` or `enqueue`; `catch_up`: `none`, `one` or `all`.
        """
        job = NewJob(type, args, **options).body(_now())
        body = {
            "cron": cron,
            "timezone": timezone,
            "overlap_policy": overlap,
            "catch_up": catch_up,
            "enabled": enabled,
            "job": job,
        }
        body = {name: value for name, value in body.items() if value is not None}
        view: dict[str, Any] = await self._session.fetch("PUT", f"/v1/schedules/{segment(name)}", body)
        return view

    async def unschedule(self, name: str) -> None:
        """Deletes a schedule; its jobs stay."""
        await self._session.fetch("DELETE", f"/v1/schedules/{segment(name)}")

    async def schedules(self) -> list[dict[str, Any]]:
        """All schedules, by name."""
        return await self._pages("/v1/schedules?limit=200", "schedules")

    async def _pages(self, path: str, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = await self._session.fetch("GET", path + cursor)
            found += page[name]
            if not page.get("next_cursor"):
                return found
            cursor = f"&cursor={segment(page['next_cursor'])}"


def _handle(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncJob]],
) -> Callable[Concatenate[Any, P], Job]:
    """The blocking twin of a method that returns a handle."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        return Job(run(method(self._async, *args, **kwargs)))

    return call


class Client:
    """A client that blocks. Threads may share it. Use it as `with`, or call `close` at the end."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 40.0,
        retries: int = 5,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`url` and `key` default to `FORGERUN_URL` (or http://127.0.0.1:8080) and `FORGERUN_API_KEY`.

        `timeout`: seconds until an answer begins. `retries`: how often a request is repeated where that does no harm.
        """
        self._async = AsyncClient(url, key, timeout=timeout, retries=retries, tls=tls, _io=BlockingIo())

    @property
    def url(self) -> str:
        return self._async.url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = blocking(AsyncClient.close)
    submit = _handle(AsyncClient.submit)
    submit_job = _handle(AsyncClient.submit_job)
    submit_workflow = _handle(AsyncClient.submit_workflow)
    workflow = blocking(AsyncClient.workflow)
    cancel_workflow = blocking(AsyncClient.cancel_workflow)
    retry_workflow = blocking(AsyncClient.retry_workflow)
    pause_workflow = blocking(AsyncClient.pause_workflow)
    resume_workflow = blocking(AsyncClient.resume_workflow)
    signal = blocking(AsyncClient.signal)
    unschedule = blocking(AsyncClient.unschedule)
    schedules = blocking(AsyncClient.schedules)

    def submit_many(self, jobs: Iterable[NewJob]) -> list[Job]:
        return [Job(job) for job in run(self._async.submit_many(jobs))]

    submit_many.__doc__ = AsyncClient.submit_many.__doc__

    def schedule(self, name: str, cron: str, type: str, args: Any = None, **options: Any) -> dict[str, Any]:
        return run(self._async.schedule(name, cron, type, args, **options))

    schedule.__doc__ = AsyncClient.schedule.__doc__

    def job(self, job_id: str) -> Job:
        """A handle of a job that was submitted before."""
        return Job(self._async.job(job_id))


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _chunks(envelopes: Iterable[bytes]) -> Iterable[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for envelope in envelopes:
        if chunk and (len(chunk) == BATCH_JOBS_MAX or size + len(envelope) > BATCH_BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(envelope)
        size += len(envelope) + 1
    if chunk:
        yield chunk
