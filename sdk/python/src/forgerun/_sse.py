"""Server-sent events, as the HTML standard reads them, and streams of them that come back after a break."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Container, Iterator
from dataclasses import dataclass
from typing import Any

from ._codes import FINAL_EVENTS
from ._session import Session
from .errors import ProtocolError, Unreachable

LINE_BYTES_MAX = 4 * 1024 * 1024
RECONNECTS_MAX = 5
"""How often a stream comes back without hearing anything before the trouble is raised."""

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    id: str
    """Go on after it with `events(after=id)`."""
    name: str
    """`job-started`, `job-progress`, …"""
    data: Any
    """What it says, mostly a dict."""

    @property
    def is_end(self) -> bool:
        """Whether it is the last of its job."""
        return self.name in FINAL_EVENTS


class Parser:
    def __init__(self) -> None:
        self.retry: float | None = None
        """Seconds that the server wants a client to wait before it comes back."""
        self._rest = b""
        self._id = self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        self._rest += piece
        at = 0
        for end in _LINE_END.finditer(self._rest):
            if end.group() == b"\r" and end.end() == len(self._rest):
                break  # A line feed that belongs to it may follow.
            event = self._line(self._rest[at : end.start()].decode("utf-8", "replace"))
            at = end.end()
            if event is not None:
                yield event
        self._rest = self._rest[at:]
        if len(self._rest) > LINE_BYTES_MAX:
            raise ProtocolError("an event is too long")

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isdigit():
            self.retry = min(max(int(value) / 1000, 0.1), 30.0)
        return None

    def _end(self) -> Event | None:
        name, data = self._name or "message", "\n".join(self._data)
        has_data = bool(self._data)
        self._name, self._data = "", []
        if not has_data:
            return None
        try:
            value = json.loads(data)
        except ValueError:
            value = data
        return Event(self._id, name, value)


async def follow(
    session: Session, path: str, after: str = "", *, ends: Container[str] = FINAL_EVENTS
) -> AsyncIterator[Event]:
    """The events of a job until one of `ends` has come. After a break the stream goes on behind the last event: none is missed, none comes twice."""
    failures, wait = 0, 1.0
    while True:
        headers = {"accept": "text/event-stream"}
        if after:
            headers["last-event-id"] = after
        response = await session.send("GET", path, headers=headers)
        try:
            if response.status == 204:
                return
            if response.content_type != "text/event-stream":
                raise ProtocolError(f"a stream was expected, not {response.content_type!r}")
            parser = Parser()
            while piece := await response.chunk():
                for event in parser.feed(piece):
                    after, failures = event.id or after, 0
                    yield event
                    if event.name in ends:
                        return
                wait = parser.retry or wait
            reason = "the stream ended"
        except OSError as error:
            reason = str(error)
        finally:
            response.close()
        failures += 1
        if failures > RECONNECTS_MAX:
            raise Unreachable(session.http.authority, reason, maybe_sent=True)
        await session.io.sleep(wait * (1 + os.urandom(1)[0] / 512))
