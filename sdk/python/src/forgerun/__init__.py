"""ForgeRun: submit jobs, wait for their results, run workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._lines import LogLine
from ._session import VERSION as __version__
from ._sse import Event
from ._submission import NewJob
from .client import AsyncClient, Client
from .errors import (
    AuthError,
    BackendError,
    ConflictError,
    ExecutionError,
    ForgeRunError,
    JobCancelled,
    JobFailed,
    JobTimedOut,
    ProtocolError,
    ResourceError,
    UnknownError,
    Unreachable,
    ValidationError,
)
from .job import AsyncJob, Job, Status
from .outbox import submit_in
from .workflows import ForEach, Nested, Step, Wait, Workflow, chain, for_each, group, nested, step, wait, workflow

if TYPE_CHECKING:
    from .context import AsyncContext, Context, Fatal, JobInfo, RetryLater, SignalTimeout, Suspended
    from .worker import Output, Stopped, Worker

__all__ = [
    "AsyncClient",
    "AsyncContext",
    "AsyncJob",
    "AuthError",
    "BackendError",
    "Client",
    "ConflictError",
    "Context",
    "Event",
    "ExecutionError",
    "Fatal",
    "ForEach",
    "ForgeRunError",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobInfo",
    "JobTimedOut",
    "LogLine",
    "Nested",
    "NewJob",
    "Output",
    "ProtocolError",
    "ResourceError",
    "RetryLater",
    "SignalTimeout",
    "Status",
    "Step",
    "Stopped",
    "Suspended",
    "UnknownError",
    "Unreachable",
    "ValidationError",
    "Wait",
    "Worker",
    "Workflow",
    "__version__",
    "chain",
    "for_each",
    "group",
    "nested",
    "step",
    "submit_in",
    "wait",
    "workflow",
]

_OF_WORKERS = {
    **dict.fromkeys(("AsyncContext", "Context", "Fatal", "JobInfo", "RetryLater"), "context"),
    **dict.fromkeys(("SignalTimeout", "Suspended"), "context"),
    **dict.fromkeys(("Output", "Stopped", "Worker"), "worker"),
}


def __getattr__(name: str) -> Any:
    # Workers bring asyncio, which takes longer to import than all else; a program that only submits does without.
    if name not in _OF_WORKERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_OF_WORKERS[name]}", __name__), name)
    globals()[name] = value
    return value
