"""What a worker runs: handlers, what they return, and how their exceptions are reported."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .context import AsyncContext, Context, Fatal, RetryLater

MESSAGE_CHARS_MAX = 4000
TRACE_CHARS_MAX = 8000


@dataclass(frozen=True)
class Output:
    """A result that is no JSON value, or a large one: bytes, a file, or a stream that is open for reading."""

    content: bytes | Path | BinaryIO
    content_type: str = "application/octet-stream"
    filename: str | None = None


@dataclass(frozen=True)
class Handler:
    pattern: re.Pattern[str]
    function: Callable[..., Any]
    is_async: bool
    n_parameters: int

    @classmethod
    def of(cls, job_type: str, function: Callable[..., Any]) -> Handler:
        pattern = re.compile(".*".join(map(re.escape, job_type.split("*"))), re.DOTALL)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = [
            p for p in inspect.signature(function).parameters.values() if p.kind in kinds and p.default is p.empty
        ]
        if len(needed) > 2:
            raise TypeError(f"a handler takes (input) or (ctx, input), not {len(needed)} arguments")
        # An object may be called as a coroutine, too.
        called = getattr(function, "__call__", None)  # noqa: B004
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
        return cls(pattern, function, is_async, len(needed))

    def call(self, context: AsyncContext | Context, value: Any) -> Any:
        return self.function(*((), (value,), (context, value))[self.n_parameters])


def failure_of(error: BaseException) -> dict[str, Any]:
    """An exception of a handler, as it is reported."""
    failure: dict[str, Any] = {
        "code": "handler_error",
        "type": type(error).__name__,
        "message": (str(error) or type(error).__name__)[:MESSAGE_CHARS_MAX],
    }
    if isinstance(error, RetryLater):
        return {**failure, "retryable": True, "delay_ms": round(error.after * 1000)}
    if isinstance(error, Fatal):
        return {**failure, "retryable": False}
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {**failure, "backtrace": trace[-TRACE_CHARS_MAX:].splitlines()}
