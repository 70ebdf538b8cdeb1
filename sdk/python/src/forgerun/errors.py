"""Why a call or a job failed, by category.

The code decides, not the HTTP status: a 503 that carries `INVALID_PAYLOAD` is a `ValidationError`. A code that is not known
here is an `UnknownError`, which is final unless the server says that it is retryable.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ._codes import CODES, canonical


class ForgeRunError(Exception):
    """What the server said about a request that failed, or about a job that did."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "UNKNOWN",
        retryable: bool = False,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        problem: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """The code as the server wrote it; `HTTP_` and the status if it wrote none."""
        self.retryable = retryable
        """Whether the same request may succeed later. Never true for errors of the caller."""
        self.details = dict(details or {})
        self.retry_after = retry_after
        """Seconds to wait before a repetition."""
        self.problem = dict(problem or {})
        """The whole problem object."""
        self.request_id = request_id
        """By which an operator finds the request."""
        self.status = status
        """The HTTP status; `None` for what did not come over HTTP."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ValidationError(ForgeRunError):
    """The input must be corrected first."""


class ConflictError(ForgeRunError):
    """Something that exists already stands in the way."""


class AuthError(ForgeRunError):
    """Credentials or rights are missing."""


class ResourceError(ForgeRunError):
    """A limit, a queue, or something that is not there."""


class ExecutionError(ForgeRunError):
    """The run of a job went wrong."""

    job_id: str | None = None


class JobFailed(ExecutionError):
    """The job failed for good."""


class JobTimedOut(ExecutionError):
    """The job ran too long."""


class JobCancelled(ExecutionError):
    """The job was cancelled."""


class BackendError(ForgeRunError):
    """The server, or something it needs, failed."""


class Unreachable(BackendError):
    """No answer came."""

    def __init__(self, host: str, reason: str, *, maybe_sent: bool) -> None:
        super().__init__(f"could not reach {host}: {reason}", code="UNREACHABLE", retryable=True)
        self.maybe_sent = maybe_sent
        """Whether the request may have reached the server all the same."""


class ProtocolError(BackendError):
    """The server answered something that cannot be understood."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="PROTOCOL")


class UnknownError(ForgeRunError):
    """The server reported a code that is not known here."""


_BY_CODE: dict[str, type[ForgeRunError]] = {"HANDLER_TIMEOUT": JobTimedOut, "JOB_CANCELLED": JobCancelled}
_BY_CATEGORY: dict[str, type[ForgeRunError]] = {
    "validation": ValidationError,
    "conflict": ConflictError,
    "auth": AuthError,
    "resource": ResourceError,
    "execution": JobFailed,
    "backend": BackendError,
}


def from_answer(status: int | None, headers: Mapping[str, str], body: bytes, now: float | None = None) -> ForgeRunError:
    """The error that an answer with a status of 400 or more reports. `headers` have lower-case names."""
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    problem = value if isinstance(value, dict) else {}
    error = from_problem(problem, status)
    after = parse_retry_after(headers.get("retry-after"), now)
    if after is not None:
        error.retry_after = after
    error.request_id = headers.get("x-request-id")
    return error


def of_job(job_id: str, state: str, problem: Mapping[str, Any]) -> ExecutionError:
    """Why a job ended badly. `problem` is its failure object, empty if there is none."""
    error = from_problem(problem, None)
    kind = JobCancelled if state == "CANCELED" else JobTimedOut if isinstance(error, JobTimedOut) else JobFailed
    message = error.message if problem else f"the job ended as {state}"
    failure = kind(
        message,
        code=error.code,
        retryable=error.retryable,
        details=error.details,
        retry_after=error.retry_after,
        problem=problem,
    )
    failure.job_id = job_id
    return failure


def from_problem(problem: Mapping[str, Any], status: int | None) -> ForgeRunError:
    """The error behind a problem object, in each of the forms that a body may have."""
    nested = _get(problem, "error", dict) or {}
    codes = [_get(problem, name, str) for name in ("code", "ojs_code", "rfa_code")]
    codes += [_get(nested, name, str) for name in ("errorCode", "code", "canonical_code")]
    known = [code for code in codes if code]
    exact = next((code for code in known if code in CODES), None)
    meant = exact or next(filter(None, map(canonical, known)), None)
    category, by_default = CODES[meant] if meant else ("unknown", False) if known else (_category(status), False)
    said = _either(problem, nested, "retryable", bool)
    if said is None and not known and status is not None:
        said = status in (408, 425, 429, 500, 502, 503, 504)
    seconds = _get(problem, "retryAfter", (int, float))
    kind = _BY_CODE.get(meant or "") or _BY_CATEGORY.get(category, UnknownError)
    return kind(
        _either(problem, nested, "message", str)
        or _either(problem, nested, "detail", str)
        or _either(problem, nested, "title", str)
        or _phrase(status),
        code=known[0] if known else "UNKNOWN" if status is None else f"HTTP_{status}",
        retryable=_is_retryable(category, by_default, said),
        details=_either(problem, nested, "details", dict),
        retry_after=float(seconds) if seconds is not None and seconds >= 0 else None,
        problem=problem,
        status=status,
    )


def _is_retryable(category: str, by_default: bool, said: bool | None) -> bool:
    if category in ("validation", "conflict", "auth"):
        return False
    return by_default or (category == "backend") if said is None else said


def _category(status: int | None) -> str:
    """The category of a status, for answers without a code."""
    if status is None:
        return "unknown"
    groups = {401: "auth", 403: "auth", 409: "conflict", 412: "conflict"}
    groups |= dict.fromkeys((404, 408, 410, 413, 425, 429), "resource")
    return groups.get(status) or {4: "validation", 5: "backend"}.get(status // 100, "unknown")


def _get(value: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """A member, unless it has the wrong type: then it counts as absent."""
    found = value.get(name)
    is_bool = isinstance(found, bool)
    return found if isinstance(found, kind) and (not is_bool or kind is bool) else None


def _either(problem: Mapping[str, Any], nested: Mapping[str, Any], name: str, kind: type) -> Any:
    found = _get(problem, name, kind)
    return _get(nested, name, kind) if found is None else found


def _phrase(status: int | None) -> str:
    try:
        return HTTPStatus(status or 0).phrase
    except ValueError:
        return "no reason given"


def parse_retry_after(text: str | None, now: float | None = None) -> float | None:
    """`Retry-After` in seconds: it is a number of seconds, or a date."""
    text = (text or "").strip()
    if text.isdigit():
        return float(text)
    if not text.endswith("GMT"):
        return None
    # Imported here because it doubles the time that importing this package takes.
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - (time.time() if now is None else now))
    except (TypeError, ValueError):
        return None
