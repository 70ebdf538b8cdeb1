"""Lines that handlers log, on their way to the server: in batches, and never in the way of the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from . import errors
from ._session import Session
from ._lines import LogLine
from .context import JobInfo

LINES_MAX = 1000
"""Lines in one request; the server takes as many."""
BYTES_MAX = 128 * 1024
"""Bytes in one request; the server takes as many."""
LINE_OVERHEAD = 96
"""What a line counts there beside its text."""
LINE_BYTES_MAX = 16 * 1024
"""Bytes of a line that the server takes; longer ones go in pieces."""
PENDING_MAX = 10_000
"""Lines of a job that wait for the server; more are dropped, and counted."""
FLUSH = 0.2
"""Seconds for which lines gather."""

log = logging.getLogger("forgerun.worker")


@dataclass
class Pending:
    """Lines of a job that wait to be sent."""

    job: JobInfo
    lines: list[LogLine] = field(default_factory=list)
    n_dropped: int = 0
    is_due: bool = False
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)


class LogBuffer:
    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._loop = loop
        self._pending: dict[str, Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def has(self, job: JobInfo) -> bool:
        return job.lease_token in self._pending

    def add(self, job: JobInfo, line: LogLine) -> None:
        pending = self._pending.setdefault(job.lease_token, Pending(job))
        if len(pending.lines) >= PENDING_MAX:
            pending.n_dropped += 1
            return
        pending.lines += [replace(line, text=piece) for piece in _pieces(line.text)]
        if not pending.is_due:
            pending.is_due = True
            self._loop.call_later(FLUSH, self._due, pending)

    def _due(self, pending: Pending) -> None:
        pending.is_due = False
        task = self._loop.create_task(self._send(pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, job: JobInfo) -> None:
        """Drops the lines of a job that is no longer ours."""
        pending = self._pending.pop(job.lease_token, None)
        if pending is not None:
            pending.lines.clear()

    async def flush(self, job: JobInfo) -> None:
        """Sends what a job has logged, for the last time."""
        pending = self._pending.pop(job.lease_token, None)
        if pending is not None:
            await self._send(pending)

    async def _send(self, pending: Pending) -> None:
        job = pending.job
        async with pending.sending:
            while pending.lines:
                lines = _batch(pending.lines)
                body = {"job_id": job.id, "lease_token": job.lease_token, "lines": [_entry(line) for line in lines]}
                try:
                    await self._session.fetch("POST", "/ojs/v1/workers/logs", body, give_up=5.0)
                except errors.ForgeRunError as error:
                    pending.n_dropped += len(lines) + len(pending.lines)
                    pending.lines.clear()
                    log.debug("%d lines of job %s were lost: %s", pending.n_dropped, job.id, error)
                    return


def _batch(lines: list[LogLine]) -> list[LogLine]:
    """The first lines that fit into one request; they are removed from the list."""
    n, size = 0, 0
    for line in lines[:LINES_MAX]:
        size += len(line.text.encode()) + LINE_OVERHEAD
        if size > BYTES_MAX:
            break
        n += 1
    batch = lines[:n]
    del lines[:n]
    return batch


def _pieces(text: str) -> Iterator[str]:
    """A text as lines that the server takes."""
    # Half of a surrogate pair must not cost the whole batch.
    data = text.encode("utf-8", "replace")
    at = 0
    while len(data) - at > LINE_BYTES_MAX:
        end = at + LINE_BYTES_MAX
        while data[end] & 0xC0 == 0x80:
            end -= 1  # Not within a character.
        yield data[at:end].decode()
        at = end
    yield data[at:].decode()


def _entry(line: LogLine) -> dict[str, Any]:
    at = line.at.isoformat(timespec="milliseconds")
    return {"at": at, "level": line.level, "stream": line.stream, "text": line.text}
