"""The helpers for web frameworks, called as the server and `forgerun worker http` call them."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import django
import pytest
from django.conf import settings
from django.test import RequestFactory
from fastapi import FastAPI

import forgerun
from forgerun import Worker

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

Post = Callable[[str, bytes, dict[str, str]], tuple[int, dict[str, str], bytes]]
received: list[dict[str, Any]] = []


def new_worker() -> Worker:
    worker = Worker()
    worker.job("upper")(lambda ctx, text: {"text": text.upper(), "id": ctx.job.id, "attempt": ctx.job.attempt})
    worker.job("bytes")(lambda _: b"\x00\x01")

    @worker.job("async")
    async def echo(ctx: forgerun.AsyncContext, value: Any) -> Any:
        await ctx.progress(10)
        return [await ctx.step("a", lambda: 1), value]

    @worker.job("fail")
    def fail(how: str) -> None:
        raise {"fatal": forgerun.Fatal("never"), "later": forgerun.RetryLater(2.5), "other": KeyError("x")}[how]

    return worker


def fastapi_post() -> Post:
    from forgerun.contrib.fastapi import job_router, webhook_router

    async def on_event(event: dict[str, Any]) -> None:
        received.append(event)

    app = FastAPI()
    app.include_router(webhook_router("/hook", on_event, secret=SECRET))
    app.include_router(job_router("/jobs", new_worker(), secret=SECRET))

    def post(path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return asyncio.run(call(app, path, body, headers))

    return post


async def call(app: FastAPI, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    """A request as a server of ASGI hands it to an application."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


def django_post() -> Post:
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"])
        django.setup()
    from forgerun.contrib.django import job_view, webhook_view

    views = {"/hook": webhook_view(received.append, secret=SECRET), "/jobs": job_view(new_worker(), secret=SECRET)}

    def post(path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        request = RequestFactory().post(path, body, content_type="application/json", headers=headers)
        answer = views[path](request)
        return answer.status_code, {name.lower(): value for name, value in answer.items()}, answer.content

    return post


@pytest.fixture(params=[fastapi_post, django_post], ids=["fastapi", "django"])
def post(request: pytest.FixtureRequest) -> Post:
    received.clear()
    made: Post = request.param()
    return made


def signed(body: bytes, **more: str) -> dict[str, str]:
    stamp = str(int(time.time()))
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    tag = base64.b64encode(hmac.digest(key, f"msg_1.{stamp}.".encode() + body, "sha256")).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": f"v1,{tag}", **more}


def test_an_event_that_is_signed_arrives(post: Post) -> None:
    body = b'{"job_id": "7"}'
    assert post("/hook", body, signed(body, **{"X-Forgerun-Event": "job_failed"}))[0] == 204
    assert received == [{"id": "msg_1", "name": "job_failed", "data": {"job_id": "7"}}]


@pytest.mark.parametrize("path", ["/hook", "/jobs"])
def test_what_is_not_signed_is_refused(post: Post, path: str) -> None:
    for headers in ({}, signed(b"another body")):
        status, _, body = post(path, b"{}", headers)
        assert (status, json.loads(body)["title"]) == (401, "bad_signature" if headers else "missing_header")
    assert received == []


def job(post: Post, type: str, value: Any) -> tuple[int, dict[str, str], bytes]:
    body = json.dumps(value).encode()
    facts = {"Forgerun-Job-Id": "7", "Forgerun-Job-Type": type, "Forgerun-Queue": "q", "Forgerun-Attempt": "2"}
    return post("/jobs", body, signed(body, **facts))


def test_jobs_are_done_and_answered(post: Post) -> None:
    status, headers, body = job(post, "upper", "hello")
    assert (status, json.loads(body)) == (200, {"text": "HELLO", "id": "7", "attempt": 2})
    assert headers["content-type"].startswith("application/json")
    assert json.loads(job(post, "async", [1])[2]) == [1, [1]]
    status, headers, body = job(post, "bytes", None)
    assert (status, headers["content-type"], body) == (200, "application/octet-stream", b"\x00\x01")


@pytest.mark.parametrize(
    ("type", "how", "status", "retryable", "detail"),
    [
        ("fail", "fatal", 500, False, "never"),
        ("fail", "later", 500, True, "to be tried again in 2.5 s"),
        ("fail", "other", 500, True, "'x'"),
        ("missing", "", 422, False, "no handler for jobs of type missing"),
    ],
)
def test_failures_are_problems(post: Post, type: str, how: str, status: int, retryable: bool, detail: str) -> None:
    answered, headers, body = job(post, type, how)
    problem = json.loads(body)
    assert (answered, problem["retryable"], problem["detail"]) == (status, retryable, detail)
    assert headers["content-type"].startswith("application/problem+json")
    assert headers.get("retry-after") == ("3" if how == "later" else None)
    assert problem.get("retryAfter") == (3 if how == "later" else None)


def test_an_unprotected_address_is_refused() -> None:
    from forgerun.contrib.fastapi import webhook_router

    with pytest.raises(ValueError, match="give secret or keys"):
        webhook_router("/hook", received.append)
