"""A job to be submitted, and the two bodies that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

Seconds = float | timedelta
"""A span of time: seconds, or a `timedelta`."""


@dataclass(frozen=True)
class NewJob:
    """A job to be submitted. `args` is any JSON."""

    type: str
    args: Any = None
    queue: str | None = None
    priority: int | None = None
    """-100 to 100, higher first."""
    max_retries: int = 3
    """How often the server tries again after a failure."""
    timeout: Seconds | str | None = None
    """How long one attempt may run: seconds, a `timedelta`, or text such as `1h30m`."""
    deadline: Seconds | datetime | str | None = None
    """By when the whole job must have ended: a span after its submission, or a time."""
    tags: Sequence[str] = ()
    unique_key: str | None = None
    """A second job with this key is a `ConflictError` until the first has ended."""
    delay: Seconds | None = None
    at: datetime | str | None = None
    callback: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    """Two submissions with the same key are one job. Without one, each call of `submit` has a key of its own."""
    traceparent: str | None = None
    fair: Mapping[str, str | int] | None = None
    """`{"key": "customer-7", "weight": 2}`: jobs of a queue take turns by key, `weight` turns at a time."""

    def body(self, now: datetime) -> dict[str, Any]:
        """The body of `POST /v1/jobs`."""
        when = self._when(now)
        body = {
            "type": "EXECUTE" if when is None else "DEFERRED",
            "job_type": self.type,
            "payload": self.args,
            "max_retries": self.max_retries,
            "queue": self.queue,
            "priority": self.priority,
            "fair": self.fair,
            "execution_at": when,
            "timeout": span(self.timeout),
            "deadline": moment(self.deadline),
            "tags": list(self.tags) or None,
            "unique_key": self.unique_key,
            "callback": self.callback,
            "correlation_id": self.correlation_id,
        }
        return {name: value for name, value in body.items() if value is not None or name == "payload"}

    def envelope(self, now: datetime) -> dict[str, Any]:
        """The job in the body of `POST /ojs/v1/jobs/batch`, which hands workers the same input."""
        for name in ("unique_key", "callback", "correlation_id", "idempotency_key", "traceparent"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} cannot be given to one of many jobs; submit it by itself")
        options = {
            "queue": self.queue,
            "priority": self.priority,
            "fair": self.fair,
            "retry": {"max_attempts": self.max_retries + 1},
            "timeout": span(self.timeout),
            "deadline": moment(self.deadline),
            "tags": list(self.tags) or None,
            "scheduled_at": self._when(now),
        }
        options = {name: value for name, value in options.items() if value is not None}
        return {"type": self.type, "args": arguments(self.args), "options": options}

    def _when(self, now: datetime) -> str | None:
        if self.delay is not None and self.at is not None:
            raise ValueError("a job has a delay or a time, not both")
        if self.at is not None:
            return self.at if isinstance(self.at, str) else _time(self.at)
        delay = self.delay if isinstance(self.delay, timedelta) else timedelta(seconds=self.delay or 0)
        return _time(now + delay) if delay > timedelta() else None


def arguments(args: Any) -> list[Any]:
    """The list of arguments that reaches a handler as `args`."""
    if args is None:
        return []
    return args if isinstance(args, list) and len(args) > 1 else [args]


def span(value: Seconds | str | None) -> str | None:
    """A span of time as the server reads it."""
    if value is None or isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return f"{round(seconds * 1000)}ms"


def moment(value: Seconds | datetime | str | None) -> str | None:
    """A span of time, or a time, as the server reads it."""
    return _time(value) if isinstance(value, datetime) else span(value)


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    text = value.astimezone(timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
