"""FastAPI (and Starlette): receive webhooks, and do jobs that `forgerun worker http` posts.

app.include_router(webhook_router("/hooks/forgerun", on_event, secret="whsec_…"))
app.include_router(job_router("/jobs", worker, secret="whsec_…"))
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from ..worker import Worker
from ._requests import Answer, receive, verifier, work


def webhook_router(
    path: str,
    on_event: Callable[[dict[str, Any]], Awaitable[None] | None],
    *,
    secret: str | Sequence[str] | None = None,
    keys: Callable[[], Mapping[str, Any]] | None = None,
    url: str | None = None,
) -> APIRouter:
    """Calls `on_event({"id", "name", "data"})` for each delivery whose signature holds. The same id may come twice.

    `keys` returns the server's JWK set, and `url` is the address of the webhook as the server shows it.
    """
    router = APIRouter()
    verify = verifier(secret, keys, url)

    async def endpoint(request: Request) -> Response:
        refused, event = receive(verify, await request.body(), request.headers)
        if refused is not None:
            return _response(refused)
        called = on_event(event)
        if inspect.isawaitable(called):
            await called
        return Response(status_code=204)

    router.add_api_route(path, endpoint, methods=["POST"], include_in_schema=False, response_model=None)
    return router


def job_router(path: str, worker: Worker, *, secret: str | Sequence[str]) -> APIRouter:
    """Runs the handlers of a worker for jobs that `forgerun worker http --secret … --url …` posts."""
    router = APIRouter()
    verify = verifier(secret, None, None)

    async def endpoint(request: Request) -> Response:
        return _response(await work(worker, verify, await request.body(), request.headers))

    router.add_api_route(path, endpoint, methods=["POST"], include_in_schema=False, response_model=None)
    return router


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, answer.headers, answer.content_type)
