"""HTTP/1.1 over a stream of bytes: just what a ForgeRun server needs, with bounds and timeouts.

Written once as coroutines, over streams of two kinds: those of `_blocking.py` never suspend, those of `_aio.py` do.
Redirects and proxies are not followed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from .errors import ProtocolError, Unreachable

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT = 10.0
STALL_TIMEOUT = 60.0
"""How long a body may stand still. An event stream says `:` every 15 s."""
IDLE_TIMEOUT = 30.0
"""How long an unused connection is kept; servers commonly close theirs after 60 s."""
IDLE_MAX = 32
HEAD_BYTES_MAX = 64 * 1024
ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of an answer that is read whole."""
READ_BYTES = 64 * 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Stream(Protocol):
    """A connection. Every call may raise `OSError`; a timeout is `TimeoutError`."""

    async def read(self, timeout: float) -> bytes: ...
    async def write(self, data: bytes, timeout: float) -> None: ...
    def is_usable(self) -> bool: ...
    def close(self) -> None: ...


class Io(Protocol):
    """How connections are opened and time passes."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> Stream: ...
    async def sleep(self, seconds: float) -> None: ...
    async def call(self, function: Callable[[], bytes]) -> bytes: ...


@dataclass
class Upload:
    """A body that is sent piece by piece. `size` is `None` where it is not known before the end."""

    read: Callable[[], bytes]
    size: int | None


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Upload = b""
    timeout: float = 40.0
    """How long the head of the answer may take."""


class _Connection:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.buffer = bytearray()
        self.idle_since = 0.0

    async def fill(self, timeout: float) -> bool:
        data = await self.stream.read(timeout)
        self.buffer += data
        return bool(data)

    async def until(self, end: bytes, timeout: float) -> bytes:
        """What comes up to `end`, without it."""
        searched = 0
        while True:
            at = self.buffer.find(end, searched)
            if at >= 0:
                found = bytes(self.buffer[:at])
                del self.buffer[: at + len(end)]
                return found
            searched = max(0, len(self.buffer) - len(end))
            if len(self.buffer) > HEAD_BYTES_MAX:
                raise ProtocolError("the head of the answer is too long")
            if not await self.fill(timeout):
                raise ConnectionResetError("the server closed the connection")


class Response:
    """An answer whose head has come. Read it to its end, or close it."""

    def __init__(self, http: Http, connection: _Connection, status: int, headers: dict[str, str], method: str) -> None:
        self.status = status
        self.headers = headers
        self._http = http
        self._connection: _Connection | None = connection
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        self._chunked = coding.endswith("chunked")
        self._left: int | None = None
        if status in (204, 304) or method == "HEAD":
            self._left, self._chunked = 0, False
        elif not self._chunked and length is not None:
            if not length.isdigit():
                raise ProtocolError(f"content-length {length!r} is no number")
            self._left = int(length)
        self._keep = headers.get("connection", "").lower() != "close" and (self._chunked or self._left is not None)
        if self._left == 0:
            self._finish()

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    def _finish(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._keep:
                self._http.put_back(connection)
            else:
                connection.stream.close()

    def close(self) -> None:
        """Gives up on the rest of the body."""
        self._keep = False
        self._finish()

    async def chunk(self) -> bytes:
        """The next piece of the body; empty at its end. Raises `OSError` if the connection breaks."""
        connection = self._connection
        if connection is None:
            return b""
        try:
            if self._chunked:
                return await self._next_chunk(connection)
            if not connection.buffer and not await connection.fill(STALL_TIMEOUT):
                if self._left is None:
                    self._finish()
                    return b""
                raise ConnectionResetError("the connection closed before the whole answer arrived")
            n = len(connection.buffer) if self._left is None else min(self._left, len(connection.buffer))
            piece = bytes(connection.buffer[:n])
            del connection.buffer[:n]
            if self._left is not None:
                self._left -= n
                if self._left == 0:
                    self._finish()
            return piece
        except BaseException:
            self.close()
            raise

    async def _next_chunk(self, connection: _Connection) -> bytes:
        if not self._left:
            if self._left == 0:
                await connection.until(b"\r\n", STALL_TIMEOUT)
            size = (await connection.until(b"\r\n", STALL_TIMEOUT)).split(b";")[0].strip()
            try:
                self._left = int(size, 16)
            except ValueError:
                raise ProtocolError("a chunk has no size") from None
            if self._left == 0:
                while await connection.until(b"\r\n", STALL_TIMEOUT):
                    pass
                self._finish()
                return b""
        if not connection.buffer and not await connection.fill(STALL_TIMEOUT):
            raise ConnectionResetError("the connection closed before the whole answer arrived")
        piece = bytes(connection.buffer[: self._left])
        del connection.buffer[: len(piece)]
        self._left -= len(piece)
        return piece

    async def chunks(self) -> AsyncIterator[bytes]:
        while piece := await self.chunk():
            yield piece

    async def body(self) -> bytes:
        """The whole body."""
        pieces, size = [], 0
        while piece := await self.chunk():
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                self.close()
                raise ProtocolError(f"the answer has more than {ANSWER_BYTES_MAX} bytes; read a result with stream()")
        return b"".join(pieces)


class Http:
    """Requests to one server over connections that are kept open between them."""

    def __init__(self, io: Io, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http or https URL")
        self.io = io
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.prefix = parts.path.rstrip("/")
        self._secure = parts.scheme == "https"
        self._tls = tls
        self._idle: list[_Connection] = []
        self._pid = os.getpid()
        self.authority = parts.netloc.rpartition("@")[2]
        self._head = "".join(_header(name, value) for name, value in {"host": self.authority, **headers}.items())

    async def send(self, request: Request) -> Response:
        """Sends once. Raises `Unreachable` if no answer comes."""
        connection = self._take()
        try:
            connection = connection or await self._connect()
        except OSError as error:
            raise Unreachable(self.authority, _reason(error), maybe_sent=False) from error
        try:
            return await self._exchange(connection, request)
        except OSError as error:
            connection.stream.close()
            raise Unreachable(self.authority, _reason(error), maybe_sent=True) from error
        except BaseException:
            connection.stream.close()
            raise

    async def _connect(self) -> _Connection:
        if self._secure and self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        tls = self._tls if self._secure else None
        return _Connection(await self.io.connect(self.host, self.port, tls, CONNECT_TIMEOUT))

    async def _exchange(self, connection: _Connection, request: Request) -> Response:
        upload = request.body if isinstance(request.body, Upload) else None
        head = f"{request.method} {self.prefix}{request.path} HTTP/1.1\r\n{self._head}"
        head += "".join(_header(name, value) for name, value in request.headers.items())
        if upload is not None and upload.size is None:
            head += "transfer-encoding: chunked\r\n"
        elif request.body or request.method in ("POST", "PUT"):
            head += f"content-length: {upload.size if upload else len(request.body)}\r\n"  # type: ignore[arg-type]
        head += "\r\n"
        body = request.body if isinstance(request.body, bytes) else b""
        try:
            await connection.stream.write(head.encode("latin-1") + body, STALL_TIMEOUT)
            if upload is not None:
                await self._upload(connection, upload)
        except OSError:
            # A server that does not want the body may have answered before it closed the connection.
            if upload is None:
                raise
        while True:
            text = (await connection.until(b"\r\n\r\n", request.timeout)).decode("latin-1")
            status_line, _, rest = text.partition("\r\n")
            status = status_line.split(" ", 2)[1:2]
            if not status_line.startswith("HTTP/1.") or not status or not status[0].isdigit():
                raise ProtocolError(f"{self.authority} does not speak HTTP/1.1")
            if int(status[0]) >= 200:
                headers = _headers(rest)
                if status_line.startswith("HTTP/1.0"):
                    headers["connection"] = "close"
                return Response(self, connection, int(status[0]), headers, request.method)

    async def _upload(self, connection: _Connection, upload: Upload) -> None:
        sent = 0
        while piece := await self.io.call(upload.read):
            sent += len(piece)
            if upload.size is None:
                piece = b"%x\r\n%b\r\n" % (len(piece), piece)
            elif sent > upload.size:
                raise ValueError("the content is longer than its size")
            await connection.stream.write(piece, STALL_TIMEOUT)
        if upload.size is None:
            await connection.stream.write(b"0\r\n\r\n", STALL_TIMEOUT)
        elif sent < upload.size:
            raise ValueError("the content is shorter than its size")

    def _take(self) -> _Connection | None:
        if os.getpid() != self._pid:
            # The connections belong to the process that forked this one.
            self._idle, self._pid = [], os.getpid()
        oldest = time.monotonic() - IDLE_TIMEOUT
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.idle_since > oldest and not connection.buffer and connection.stream.is_usable():
                return connection
            connection.stream.close()

    def put_back(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        if len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.stream.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().stream.close()


def _header(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError(f"the header {name} has a control character")
    return f"{name}: {value}\r\n"


def _headers(text: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _reason(error: OSError) -> str:
    return (
        "it took too long"
        if isinstance(error, TimeoutError)
        else (error.strerror or str(error) or type(error).__name__)
    )
