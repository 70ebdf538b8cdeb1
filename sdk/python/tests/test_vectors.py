"""The cases that all languages run."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import datetime
from typing import Any

import pytest

from conftest import VECTORS
from forgerun import AsyncClient, ForgeRunError, NewJob, Unreachable, webhooks
from forgerun._http import Io, Request, Response
from forgerun._retry import RetryPolicy, poll_wait
from forgerun.canonical import canonicalize
from forgerun.context import received
from forgerun.errors import from_answer, of_job


def load(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VECTORS / file).read_text())
    return found


def cases(file: str, member: str = "cases") -> pytest.MarkDecorator:
    found = load(file)[member]
    assert found, f"{file} has no {member}"
    return pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in found])


def seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


@cases("errors.json")
def test_errors(case: dict[str, Any]) -> None:
    if case["expect"] is None:
        assert case["status"] < 400, "an answer below 400 is no error, and is never read as one"
        return
    error = from_answer(case["status"], case["headers"], case["body"].encode(), load("errors.json")["now"])
    assert {
        "class": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "retry_after_ms": None if error.retry_after is None else round(error.retry_after * 1000),
        "details": error.details,
        "request_id": error.request_id,
    } == {name: value for name, value in case["expect"].items() if name != "canonical"}


@cases("outcomes.json")
def test_outcomes(case: dict[str, Any]) -> None:
    error = of_job("7", case["state"], json.loads(case["problem"] or "{}"))
    assert {
        "class": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "details": error.details,
    } == case["expect"]
    assert error.job_id == "7"


@cases("retries.json")
def test_retries(case: dict[str, Any]) -> None:
    failure = case["failure"]
    error: ForgeRunError
    if "unreachable" in failure:
        error = Unreachable("a", "refused", maybe_sent=failure["unreachable"]["maybe_sent"])
    else:
        error = from_answer(failure["status"], failure["headers"], failure["body"].encode())
    harmless = {"harmless": True, "only_if_not_sent": False}[case["repeat"]]
    wait = RetryPolicy().wait(error, harmless, case["retries_made"], case["random"])
    assert wait == pytest.approx(seconds(case["expect_wait_ms"]))


@cases("polling.json")
def test_polling(case: dict[str, Any]) -> None:
    waits: list[float] = []
    retry_after, ends = None, "timed_out"
    timeout = case["timeout_ms"] / 1000
    while (wait := poll_wait(len(waits), sum(waits), retry_after, timeout)) is not None:
        answer = case["answers"][len(waits)]
        waits.append(wait)
        retry_after = seconds(answer["retry_after_ms"])
        if answer["ended"]:
            ends = "ended"
            break
    assert ([wait * 1000 for wait in waits], ends) == (case["expect_waits_ms"], case["ends"])


class Recorder(AsyncClient):
    """A client whose requests are answered by the test."""

    def __init__(self, events: list[str]) -> None:
        super().__init__("http://127.0.0.1:1", _io=Clock())
        self.events = events
        self.requests: list[Request] = []
        self._session.http.send = self.send  # type: ignore[method-assign]

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        event = self.events.pop(0) if self.events else "accepted"
        if event == "unreachable":
            raise Unreachable("a", "closed", maybe_sent=True)
        if event.startswith("status"):
            return Answered(int(event.split()[1]), b"")
        return Answered(202, b'{"job_id":"1","state":"QUEUED","jobs":[]}')


class Answered(Response):
    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.headers, self._body = status, {}, body

    async def body(self) -> bytes:
        return self._body


class Clock(Io):
    async def sleep(self, seconds: float) -> None:
        pass


@cases("idempotency.json")
def test_idempotency(case: dict[str, Any]) -> None:
    events = list(case["events"])
    client = Recorder(events)

    async def play() -> None:
        while events:
            verb, _, key = events.pop(0).partition(" ")
            assert verb == "submit"
            try:
                await client.submit("t", {"a": 1}, idempotency_key=key or None)
            except ForgeRunError:
                pass

    asyncio.run(play())
    keys = [request.headers["idempotency-key"] for request in client.requests]
    names: dict[str, str] = {"K": "K"}
    letters = [names.setdefault(key, "ABCDEFGH"[len(names) - 1]) for key in keys]
    assert letters == case["expect_keys"]
    for key in {*keys} - {"K"}:
        assert uuid.UUID(key).version == 4


def new_job(case: dict[str, Any]) -> NewJob:
    options = dict(case.get("options") or {})
    if "delay_ms" in options:
        options["delay"] = options.pop("delay_ms") / 1000
    if "timeout_ms" in options:
        options["timeout"] = options.pop("timeout_ms") / 1000
    return NewJob(case["type"], case["args"], **{"queue": case.get("queue"), **options})


@pytest.fixture
def at_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.fromisoformat(load("envelopes.json")["now"].replace("Z", "+00:00"))
    monkeypatch.setattr("forgerun.client._now", lambda: now)


@cases("envelopes.json", "submissions")
def test_submissions(case: dict[str, Any], at_now: None) -> None:
    client = Recorder([])
    asyncio.run(client.submit_job(new_job(case)))
    [request] = client.requests
    assert_request(request, case["expect"])


@cases("envelopes.json", "batches")
def test_batches(case: dict[str, Any], at_now: None) -> None:
    client = Recorder([])
    asyncio.run(client.submit_many(map(new_job, case["jobs"])))
    [request] = client.requests
    assert_request(request, case["expect"])


def assert_request(request: Request, expect: dict[str, Any]) -> None:
    assert (request.method, request.path) == (expect["method"], expect["path"])
    assert isinstance(request.body, bytes)
    assert json.loads(request.body) == expect["body"]
    assert request.headers["idempotency-key"]
    assert expect.get("headers", {}).items() <= request.headers.items()


@cases("envelopes.json", "received")
def test_received(case: dict[str, Any]) -> None:
    job, value, parents = received(case["job"])
    assert {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempt,
        "tags": list(job.tags),
        "meta": job.meta,
        "input": value,
        "parents": parents,
        "traceparent": job.traceparent,
        "lease_token": job.lease_token,
    } == case["expect"]


@cases("canonical.json")
def test_canonical(case: dict[str, Any]) -> None:
    if case["expect"] is None:
        with pytest.raises(ValueError):
            canonicalize(case["input"])
    else:
        assert canonicalize(case["input"]) == case["expect"]


@cases("signatures.json")
def test_signatures(case: dict[str, Any]) -> None:
    tolerance = load("signatures.json")["tolerance_s"]

    def verify() -> Any:
        return webhooks.verify(
            case["body"].encode(),
            case["headers"],
            case.get("secret"),
            keys=case.get("jwks"),
            url=case.get("url"),
            method=case.get("method", "POST"),
            now=case["now"],
            tolerance=tolerance,
        )

    if case["expect"] == "ok":
        assert verify() == json.loads(case["body"])
    else:
        with pytest.raises(webhooks.SignatureError) as refused:
            verify()
        assert refused.value.kind == case["expect"]
