"""What the helpers of all frameworks do with a request: bytes in, an answer out."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import webhooks
from .._handler import failure_of
from .._run import PAUSE_HELD
from .._session import to_json
from .._lines import LogLine
from .._steps import Recorded
from ..context import AsyncContext, Context, JobInfo
from ..worker import Worker
from ..workflows import AnyStep

log = logging.getLogger("forgerun.worker")

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

Verify = Callable[[bytes, Mapping[str, str]], Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    retry_after: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def verifier(
    secret: str | Sequence[str] | None, keys: Callable[[], Mapping[str, Any]] | None, url: str | None
) -> Verify:
    """Checks the signatures of a request, and returns its JSON."""
    if secret is None and keys is None:
        raise ValueError("give secret or keys: without one, any client could send anything to this address")
    return lambda body, headers: webhooks.verify(body, headers, secret, keys=keys() if keys else None, url=url)


def receive(verify: Verify, body: bytes, headers: Mapping[str, str]) -> tuple[Answer | None, dict[str, Any]]:
    """A delivery of a webhook: an answer that refuses it, or the event with its name and id."""
    try:
        event = verify(body, headers)
    except webhooks.SignatureError as error:
        return problem(401, str(error), error.kind), {}
    found = {name.lower(): value for name, value in headers.items()}
    return None, {"id": found.get("webhook-id", ""), "name": found.get("x-forgerun-event", ""), "data": event}


class _NoServer:
    """A context behind `worker http` has no lease of its own: progress, logs and steps stay with this process."""

    async def progress(self, job: JobInfo, percent: float, message: str | None) -> None:
        pass

    async def load_steps(self, job: JobInfo) -> Recorded:
        return Recorded()

    async def save_step(self, job: JobInfo, recorded: Recorded, name: str, result: Any) -> Any:
        return result

    def log(self, job: JobInfo, line: LogLine) -> None:
        log.log(_LEVELS.get(line.level, logging.INFO), "job %s: %s", job.id, line.text)

    async def pause(self, job: JobInfo, seconds: float) -> None:
        if seconds > PAUSE_HELD:
            raise RuntimeError(f"a handler behind `worker http` can sleep {PAUSE_HELD:g} s at most, not {seconds:g}")
        await asyncio.sleep(seconds)

    async def suspend(self, job: JobInfo, signal: str, seconds: float | None) -> None:
        raise RuntimeError("a handler behind `worker http` cannot wait for a signal")

    async def add_steps(self, job: JobInfo, steps: Sequence[AnyStep]) -> None:
        raise RuntimeError("a handler behind `worker http` cannot add steps")


async def work(worker: Worker, verify: Verify, body: bytes, headers: Mapping[str, str]) -> Answer:
    """A job that `forgerun worker http` posts: runs its handler and answers as that command expects."""
    try:
        verify(body, headers)
    except webhooks.SignatureError as error:
        return problem(401, str(error), error.kind)
    found = {name.lower(): value for name, value in headers.items()}
    job = JobInfo(
        found.get("forgerun-job-id") or str(uuid.uuid4()),
        found.get("forgerun-job-type", ""),
        found.get("forgerun-queue", ""),
        int(found.get("forgerun-attempt") or 1),
        traceparent=found.get("traceparent"),
    )
    handler = worker.handler(job.type)
    if handler is None:
        return problem(422, f"no handler for jobs of type {job.type}", "handler_not_found")
    context = AsyncContext(job, {}, _NoServer())
    try:
        value = json.loads(body)
        if handler.is_async:
            result = await handler.call(context, value)
        else:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(None, handler.call, Context(context, loop), value)
        if isinstance(result, (bytes, bytearray)):
            return Answer(200, bytes(result), "application/octet-stream")
        return Answer(200, to_json(result))
    except Exception as error:
        failure = failure_of(error)
        delay = failure.get("delay_ms")
        return problem(
            500,
            failure["message"],
            failure["type"],
            retryable=failure.get("retryable", True),
            retry_after=None if delay is None else -(-delay // 1000),
        )


def problem(status: int, detail: str, code: str, *, retryable: bool = False, retry_after: int | None = None) -> Answer:
    value = {"title": code, "status": status, "detail": detail, "retryable": retryable}
    if retry_after is not None:
        value["retryAfter"] = retry_after
    return Answer(status, json.dumps(value).encode(), "application/problem+json", retry_after)
