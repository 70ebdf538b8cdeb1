"""Lines of the log of a job: as handlers log them, and as clients read them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ._sse import follow

if TYPE_CHECKING:
    from ._session import Session

PAGE_LINES = 1000


@dataclass(frozen=True)
class LogLine:
    """A line of the log of a job."""

    at: datetime
    level: str
    """`debug`, `info`, `warn` or `error`; other workers may use other words."""
    stream: str
    text: str
    seq: int = 0
    """Its number in the log of the job, from 1; 0 until the server has it. A gap means that lines were deleted: the log was too long."""
    attempt: int = 0
    """The attempt that logged it, from 1; 0 until the server has it."""

    @classmethod
    def of(cls, view: Mapping[str, Any]) -> LogLine:
        at = datetime.fromisoformat(str(view["at"]).replace("Z", "+00:00"))
        return cls(at, view["level"], view["stream"], view["text"], view["seq"], view["attempt"])


async def read_lines(
    session: Session, path: str, *, following: bool, stream: str | None, attempt: int | None, after: int
) -> AsyncIterator[LogLine]:
    """The lines behind one, page by page; or as they come, until the job has ended."""
    query = {name: value for name, value in (("stream", stream), ("attempt", attempt)) if value is not None}
    if following:
        address = f"{path}?{urlencode(query)}" if query else path
        async for event in follow(session, address, str(after) if after else "", ends=("end",)):
            if event.name == "log":
                yield LogLine.of(event.data)
        return
    cursor: str | int | None = after
    while cursor is not None:
        parameters = urlencode({**query, "limit": PAGE_LINES, "after": cursor})
        page = await session.fetch("GET", f"{path}?{parameters}")
        for line in page["lines"]:
            yield LogLine.of(line)
        cursor = page.get("next_cursor")
