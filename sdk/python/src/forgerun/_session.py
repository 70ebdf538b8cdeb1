"""Requests to a ForgeRun server: key, trace, errors by their code, repetitions where they do no harm."""

from __future__ import annotations

import json
import logging
import os
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import errors
from ._http import Http, Io, Request, Response, Upload
from ._retry import RetryPolicy

if TYPE_CHECKING:
    import ssl

VERSION = "0.1.0"
DEFAULT_URL = "http://127.0.0.1:8080"

log = logging.getLogger("forgerun")


class Session:
    def __init__(
        self,
        io: Io,
        url: str | None,
        key: str | None,
        *,
        timeout: float,
        policy: RetryPolicy,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.url = (url or os.environ.get("FORGERUN_URL") or DEFAULT_URL).rstrip("/")
        self.key = key or os.environ.get("FORGERUN_API_KEY")
        self.io = io
        self.timeout = timeout
        self.policy = policy
        headers = {"user-agent": f"forgerun-python/{VERSION}"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        self.http = Http(io, self.url, headers, tls)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        hold: float = 0.0,
        give_up: float | None = None,
    ) -> Response:
        """Sends, and sends again where that promises something. An answer of 400 or more is raised.

        All calls that come here may be sent twice: they read, carry an idempotency key, or change nothing the second time. `body` is bytes, an upload (which is never sent again), or else is written as JSON. `hold`: seconds for which the server
        was asked to hold its answer. `give_up`: seconds after which no answer is of use.
        """
        sent = {"accept": "application/json", **(headers or {})}
        if body is not None and not isinstance(body, (bytes, Upload)):
            body = to_json(body)
        if body is not None:
            sent.setdefault("content-type", "application/json")
        trace = None if "traceparent" in sent else current_traceparent()
        if trace:
            sent["traceparent"] = trace
        request = Request(method, path, sent, b"" if body is None else body, give_up or self.timeout + hold)
        policy = RetryPolicy(retries=0) if give_up or isinstance(body, Upload) else self.policy
        retries = 0
        while True:
            try:
                return await self.send_once(request)
            except errors.ForgeRunError as error:
                wait = policy.wait(error, True, retries, int.from_bytes(os.urandom(2), "big") / 65536)
                if wait is None:
                    raise
                log.debug("a request is sent again: %s %s, %s, after %.2f s", method, path, error, wait)
            await self.io.sleep(wait)
            retries += 1

    async def send_once(self, request: Request) -> Response:
        response = await self.http.send(request)
        if response.status < 400:
            return response
        try:
            body = await response.body()
        except OSError:
            body = b""
        raise errors.from_answer(response.status, response.headers, body)

    async def fetch(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """The JSON of the answer."""
        response = await self.send(method, path, body, **how)
        try:
            return from_json(await response.body())
        except OSError as error:
            raise errors.Unreachable(self.http.authority, str(error), maybe_sent=True) from error


def to_json(value: Any) -> bytes:
    """Raises `ValueError` or `TypeError` for what JSON cannot hold, such as NaN, half of a surrogate pair, or a set."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def from_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise errors.ProtocolError(f"the answer is no JSON: {error}") from None


def new_key() -> str:
    """A new idempotency key."""
    return str(uuid.uuid4())


def segment(text: str) -> str:
    """A text as one segment of a path."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no id")
    return quote(text, safe="")


def current_traceparent() -> str | None:
    """The trace of the current span, if the program uses OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" if span.is_valid else None
