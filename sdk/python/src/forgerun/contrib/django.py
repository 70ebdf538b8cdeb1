"""Django: receive webhooks, and do jobs that `forgerun worker http` posts.

urlpatterns = [
    path("hooks/forgerun", webhook_view(on_event, secret="whsec_…")),
    path("jobs", job_view(worker, secret="whsec_…")),
]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from ..worker import Worker
from ._requests import Answer, receive, verifier, work

View = Callable[[HttpRequest], HttpResponse]


def webhook_view(
    on_event: Callable[[dict[str, Any]], None],
    *,
    secret: str | Sequence[str] | None = None,
    keys: Callable[[], Mapping[str, Any]] | None = None,
    url: str | None = None,
) -> View:
    """Calls `on_event({"id", "name", "data"})` for each delivery whose signature holds. The same id may come twice.

    `keys` returns the server's JWK set, and `url` is the address of the webhook as the server shows it.
    """
    verify = verifier(secret, keys, url)

    def view(request: HttpRequest) -> HttpResponse:
        refused, event = receive(verify, request.body, request.headers)
        if refused is not None:
            return _response(refused)
        on_event(event)
        return HttpResponse(status=204)

    return _exempt(view)


def job_view(worker: Worker, *, secret: str | Sequence[str]) -> View:
    """Runs the handlers of a worker for jobs that `forgerun worker http --secret … --url …` posts."""
    verify = verifier(secret, None, None)

    def view(request: HttpRequest) -> HttpResponse:
        return _response(asyncio.run(work(worker, verify, request.body, request.headers)))

    return _exempt(view)


def _exempt(view: View) -> View:
    checked: View = csrf_exempt(require_POST(view))
    return checked


def _response(answer: Answer) -> HttpResponse:
    return HttpResponse(answer.body, status=answer.status, content_type=answer.content_type, headers=answer.headers)
