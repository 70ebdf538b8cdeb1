"""Connections of asyncio, as `_http.py` wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._http import READ_BYTES, Stream

if TYPE_CHECKING:
    import ssl


class AsyncStream(asyncio.Protocol):
    """A protocol of asyncio that is read piece by piece. Nothing more is read from the network while a piece waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._pieces: list[bytes] = []
        self._n_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._n_bytes += len(data)
        if self._n_bytes > 4 * READ_BYTES:
            self._transport.pause_reading()
        _wake(self._reader)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    async def read(self, timeout: float) -> bytes:
        if not self._pieces and not self._ended:
            self._reader = self._loop.create_future()
            await self._wait(self._reader, timeout)
        if self._pieces:
            data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            if self._n_bytes > 4 * READ_BYTES and not self._ended:
                self._transport.resume_reading()
            self._n_bytes = 0
            return data
        if self._error is not None:
            raise _os_error(self._error)
        return b""

    async def write(self, data: bytes, timeout: float) -> None:
        if self._ended:
            raise ConnectionResetError("the server closed the connection")
        self._transport.write(data)
        if self._full:
            self._writer = self._loop.create_future()
            await self._wait(self._writer, timeout)

    async def _wait(self, future: asyncio.Future[None], timeout: float) -> None:
        timer = self._loop.call_later(timeout, _expire, future)
        try:
            await future
        finally:
            timer.cancel()

    def is_usable(self) -> bool:
        return self._loop is asyncio.get_running_loop() and not self._ended and not self._pieces

    def close(self) -> None:
        if not self._loop.is_closed():
            self._transport.abort()


class AsyncIo:
    """For `AsyncClient`."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> Stream:
        connecting = asyncio.get_running_loop().create_connection(AsyncStream, host, port, ssl=tls)
        try:
            _, stream = await asyncio.wait_for(connecting, timeout)
        except asyncio.TimeoutError:
            raise TimeoutError("connecting took too long") from None
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[[], bytes]) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(None, function)


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError("the server took too long"))


def _os_error(error: Exception) -> OSError:
    return error if isinstance(error, OSError) else ConnectionResetError(str(error))
