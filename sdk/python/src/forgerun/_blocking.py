"""Blocking sockets behind the interface of asynchronous ones, so that all else is written once.

A coroutine that waits for blocking calls only never suspends: one step runs it to its end.
"""

from __future__ import annotations

import functools
import select
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ._http import READ_BYTES, Stream

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
P = ParamSpec("P")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for blocking calls only."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a blocking client cannot wait for asyncio")


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """The items of an asynchronous iterator that waits for blocking calls only."""
    close = getattr(items, "aclose", None)
    try:
        while True:
            try:
                yield run(_next(items))
            except StopAsyncIteration:
                return
    finally:
        if close is not None:
            run(close())


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The blocking twin of a method, for a class that keeps the asynchronous object in `_async`."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._async, *args, **kwargs))

    return call


async def _next(items: AsyncIterator[T]) -> T:
    return await items.__anext__()


class BlockingStream:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    async def read(self, timeout: float) -> bytes:
        self._socket.settimeout(timeout)
        return self._socket.recv(READ_BYTES)

    async def write(self, data: bytes, timeout: float) -> None:
        self._socket.settimeout(timeout)
        self._socket.sendall(data)

    def is_usable(self) -> bool:
        # Between two answers nothing comes but the end.
        if not hasattr(select, "poll"):
            return not select.select([self._socket], [], [], 0)[0]
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self._socket.close()


class BlockingIo:
    """For `Client`."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> Stream:
        sock = socket.create_connection((host, port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return BlockingStream(tls.wrap_socket(sock, server_hostname=host) if tls else sock)
        except BaseException:
            sock.close()
            raise

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, function: Callable[[], bytes]) -> bytes:
        return function()
