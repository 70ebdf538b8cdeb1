"""The HTTP client, over both kinds of streams, against servers that answer byte for byte what a test says."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from typing import Any, TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from forgerun import Client, ProtocolError, Unreachable
from forgerun._aio import AsyncIo
from forgerun._blocking import BlockingIo, run
from forgerun._http import Http, Request, Response, Upload
from forgerun._sse import Event, Parser

T = TypeVar("T")


class Scripted:
    """Answers each request with the next piece of the script; `None` closes the connection. A list is sent in its pieces."""

    def __init__(self, script: list[bytes | list[bytes] | None], linger: bool = True) -> None:
        self.script = script
        self.linger = linger
        self.requests: list[bytes] = []
        self.tls: ssl.SSLContext | None = None
        self.n_connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while self.script:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.n_connections += 1
            if self.tls is not None:
                try:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                except OSError:
                    continue
            with connection:
                while self.script and (request := self._read(connection)):
                    self.requests.append(request)
                    answer = self.script.pop(0)
                    if answer is None:
                        break
                    for piece in [answer] if isinstance(answer, bytes) else answer:
                        connection.sendall(piece)
                    if not self.linger:
                        break

    def _read(self, connection: socket.socket) -> bytes:
        """A request whose body has the length that its head says, or is chunked."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return b""
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [int(line[16:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")]
        chunked = b"transfer-encoding: chunked" in head.lower()
        while len(body) < (lengths[0] if lengths else 0) or (chunked and not body.endswith(b"0\r\n\r\n")):
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    servers: list[Scripted] = []

    def start(*script: bytes | list[bytes] | None, linger: bool = True) -> Scripted:
        servers.append(Scripted(list(script), linger))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(params=["blocking", "asyncio"])
def drive(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]:
    """Runs a coroutine that is given the kind of streams to use."""
    if request.param == "blocking":
        return lambda coroutine: run(coroutine(BlockingIo()))
    return lambda coroutine: asyncio.run(coroutine(AsyncIo()))


Drive = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def get(http: Http, **how: Any) -> tuple[int, bytes]:
    response = await http.send(Request("GET", "/x", **how))
    return response.status, await response.body()


async def get_once(http: Http, **how: Any) -> tuple[int, bytes]:
    try:
        return await get(http, **how)
    finally:
        http.close()


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        [bytes([byte]) for byte in OK],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=["length", "byte by byte", "chunked", "after 100", "until the end", "1.0"],
)
def test_bodies_are_read_in_every_form(scripted: Callable[..., Scripted], drive: Drive, answer: Any) -> None:
    server = scripted(answer, linger=False)
    assert drive(lambda io: get_once(Http(io, server.url, {}))) == (200, b"ok")


def test_connections_are_used_again(scripted: Callable[..., Scripted], drive: Drive) -> None:
    server = scripted(OK, b"HTTP/1.1 204 No Content\r\n\r\n", OK)

    async def ask(io: Any) -> list[tuple[int, bytes]]:
        http = Http(io, server.url, {"authorization": "Bearer k"})
        return [await get(http) for _ in range(3)]

    assert drive(ask) == [(200, b"ok"), (204, b""), (200, b"ok")]
    assert server.n_connections == 1
    assert all(b"\r\nauthorization: Bearer k\r\n" in request for request in server.requests)


def test_a_connection_that_the_server_closed_is_not_used_again(scripted: Callable[..., Scripted], drive: Drive) -> None:
    server = scripted(OK, OK, linger=False)

    async def ask(io: Any) -> list[tuple[int, bytes]]:
        http = Http(io, server.url, {})
        first = await get(http)
        # The end of the connection has arrived once a second one is served.
        while http._idle and http._idle[0].stream.is_usable():
            await io.sleep(0.001)
        return [first, await get(http)]

    assert drive(ask) == [(200, b"ok")] * 2
    assert server.n_connections == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, Unreachable),
        (b"HTTP/1.1 200 OK\r\ncontent-le", Unreachable),
        (b"SSH-2.0-OpenSSH\r\n\r\n", ProtocolError),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000, ProtocolError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nok", ProtocolError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", ConnectionResetError),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", ProtocolError),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nok", ConnectionResetError),
    ],
)
def test_answers_that_are_broken_are_errors(
    scripted: Callable[..., Scripted], drive: Drive, answer: Any, error: type[Exception]
) -> None:
    server = scripted(answer, linger=False)
    with pytest.raises(error):
        drive(lambda io: get_once(Http(io, server.url, {})))


def test_a_server_that_says_nothing_is_given_up(drive: Drive) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="it took too long") as unreachable:
            drive(lambda io: get_once(Http(io, url, {}), timeout=0.05))
    assert unreachable.value.maybe_sent


def test_a_refused_connection_is_unreachable_and_nothing_was_sent(drive: Drive) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(Unreachable) as unreachable:
        drive(lambda io: get_once(Http(io, url, {})))
    assert not unreachable.value.maybe_sent and unreachable.value.retryable


@pytest.mark.parametrize("size", [None, 600_000])
def test_uploads_are_sent_piece_by_piece(scripted: Callable[..., Scripted], drive: Drive, size: int | None) -> None:
    server = scripted(OK)
    pieces = itertools.chain([b"x" * 100_000] * 6, itertools.repeat(b""))

    async def put(io: Any) -> tuple[int, bytes]:
        http = Http(io, server.url, {})
        response = await http.send(Request("PUT", "/x", {}, Upload(lambda: next(pieces), size)))
        return response.status, await response.body()

    assert drive(put) == (200, b"ok")
    body = server.requests[0].partition(b"\r\n\r\n")[2]
    assert body.count(b"x") == 600_000
    assert (len(body) == 600_000) == (size is not None)


def test_headers_cannot_smuggle_others(drive: Drive) -> None:
    async def ask(io: Any) -> Response:
        return await Http(io, "http://127.0.0.1:1", {}).send(Request("GET", "/", {"x": "a\r\ny: b"}))

    with pytest.raises((ValueError, Unreachable)):
        drive(ask)
    with pytest.raises(ValueError, match="control character"):
        Client("http://127.0.0.1:1", "key\r\nx: y")
    with pytest.raises(ValueError, match="no http or https URL"):
        Client("ftp://a")


def test_a_key_stays_with_its_server_when_it_redirects(scripted: Callable[..., Scripted], drive: Drive) -> None:
    elsewhere = scripted(OK)
    server = scripted(b"HTTP/1.1 302 Found\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % elsewhere.url.encode())
    assert drive(lambda io: get_once(Http(io, server.url, {"authorization": "Bearer k"})))[0] == 302
    assert elsewhere.requests == []


EVENTS = (
    b'retry: 3000\n\n: hello\n\nevent: job-started\nid: 7\ndata: {"a":1}\n\ndata: x\ndata:y\r\n\r\nevent: nothing\n\n'
)


@pytest.mark.parametrize("size", range(1, len(EVENTS) + 1, 7))
def test_events_are_read_however_the_bytes_are_cut(size: int) -> None:
    parser = Parser()
    pieces = [EVENTS[at : at + size] for at in range(0, len(EVENTS), size)]
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert events == [Event("7", "job-started", {"a": 1}), Event("7", "message", "x\ny")]
    assert parser.retry == 3.0


def stream(*events: str) -> bytes:
    text = "".join(f"id: {n}\nevent: {name}\ndata: {{}}\n\n" for n, name in (event.split() for event in events))
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nretry: 100\n\n" + text.encode()


def test_a_stream_that_breaks_goes_on_behind_its_last_event(scripted: Callable[..., Scripted]) -> None:
    server = scripted(stream("1 job-created", "2 job-queued"), None, stream("3 job-failed"), linger=False)
    with Client(server.url) as client:
        events = [(event.id, event.name) for event in client.job("7").events()]
    assert events == [("1", "job-created"), ("2", "job-queued"), ("3", "job-failed")]
    assert [b"last-event-id: 2" in request for request in server.requests] == [False, True, True]


def test_a_stream_that_stays_silent_is_given_up(scripted: Callable[..., Scripted]) -> None:
    server = scripted(*[stream()] * 6, linger=False)
    with Client(server.url) as client, pytest.raises(Unreachable):
        list(client.job("7").events())
    assert len(server.requests) == 6


def part(at: int, data: bytes, length: int) -> bytes:
    status = b"200 OK" if at == 0 else b"206 Partial Content\r\ncontent-range: bytes %d-9/10" % at
    return b'HTTP/1.1 %b\r\netag: "e"\r\ncontent-length: %d\r\n\r\n%b' % (status, length, data)


ENDED = b'{"job_id":"7","state":"SUCCEEDED","attempt":1}'
STATUS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ENDED), ENDED)


def test_a_download_that_breaks_goes_on_where_it_ended(scripted: Callable[..., Scripted]) -> None:
    server = scripted(STATUS, part(0, b"0123", 10), part(4, b"456", 6), part(7, b"789", 3), linger=False)
    with Client(server.url) as client:
        assert b"".join(client.job("7").stream()) == b"0123456789"
    assert b'range: bytes=4-\r\nif-range: "e"' in server.requests[2]
    assert b"range: bytes=7-" in server.requests[3]


def test_a_result_that_changed_meanwhile_is_not_put_together(scripted: Callable[..., Scripted]) -> None:
    server = scripted(STATUS, part(0, b"0123", 10), part(0, b"abcdefghij", 10), linger=False)
    with Client(server.url) as client, pytest.raises(ProtocolError, match="another one than before"):
        list(client.job("7").stream())


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key and a self-signed certificate of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, no_password) + made.public_bytes(pem))
    return str(path)


def test_tls_is_spoken_and_checked(scripted: Callable[..., Scripted], drive: Drive, certificate: str) -> None:
    server = scripted(OK, OK)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate)
    server.tls = ours
    url = server.url.replace("http:", "https:")

    async def ask(io: Any) -> list[tuple[int, bytes]]:
        http = Http(io, url, {}, ssl.create_default_context(cafile=certificate))
        return [await get(http), await get(http)]

    assert drive(ask) == [(200, b"ok")] * 2
    assert server.n_connections == 1
    untrusting = scripted(OK)
    untrusting.tls = ours
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED") as unreachable:
        drive(lambda io: get_once(Http(io, untrusting.url.replace("http:", "https:"), {})))
    assert not unreachable.value.maybe_sent


def test_a_forked_process_does_not_use_the_connections_of_its_parent(
    scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = scripted(OK, linger=True)
    http = Http(BlockingIo(), server.url, {})
    run(get(http))
    assert len(http._idle) == 1
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert http._take() is None
