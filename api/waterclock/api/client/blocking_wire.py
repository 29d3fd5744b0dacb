"""The same calls without an event loop, over a plain socket.

Importing asyncio and nats-py takes longer than a command may take to answer, so the command line speaks as much of
the NATS client protocol as it needs by itself: one connection, one inbox, requests and streams.
"""

import json
import random
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from waterclock.api.client.messages import (
    HEADER_ROOM,
    NOT_LET_IN,
    SILENCE_SECONDS,
    answer_of,
    check_size,
    encode,
)
from waterclock.api.client.pace import SATURATED_PATIENCE, Pace
from waterclock.api.errors import Saturated, Unauthenticated, Unavailable, Unreachable
from waterclock.proto.methods import Method

if TYPE_CHECKING:
    from ssl import SSLContext

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

_CONNECT_SECONDS = 2.0
_LOGIN_SECONDS = 5.0
_REFUSED_AT_ONCE = 1.0
"""A refusal that comes so soon is an api's word. One that comes later is the server's, when no api was there to ask."""
_MAX_PAYLOAD = 1 << 20
_NOBODY = "NATS is there, but no waterclock api listens: is `waterclock up` still starting?"


class _Message(Struct, frozen=True):
    subject: str
    headers: dict[str, str]
    data: bytes


class BlockingWire:
    """Repeats a call that got no answer, unchanged, until `patience` seconds have passed; and one that was refused
    because the system is behind, until `saturated_patience` seconds have. `announce` is told when that begins."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        inbox: str = "_INBOX",
        tls: "SSLContext | None" = None,
        timeout: float = 10.0,
        patience: float = 5.0,
        saturated_patience: float = SATURATED_PATIENCE,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._url = url
        self._inbox = inbox
        self._tls = tls
        self._authorization = f"Bearer {token}" if token else ""
        self._timeout = timeout
        self._patience = patience
        self._pace = Pace(announce, saturated_patience)
        self._connection: _Connection | None = None

    def call(self, method: Method[Q, A], request: Q) -> A:
        data = encode(request)
        began = time.monotonic()
        while True:
            try:
                return self._answered(method, data)
            except Saturated as refused:
                time.sleep(self._pace.wait_seconds(refused, time.monotonic() - began))

    def _answered(self, method: Method[Q, A], data: bytes) -> A:
        """The answer, or a refusal that was said by somebody who is there."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return _answer(self._request(method.subject, data), method.answer)
            except Saturated:
                raise
            except (Unreachable, Unavailable) as error:
                self._pause(error, deadline)

    def follow(self, method: Method[Q, A], request: Callable[[], Q]) -> Iterator[A]:
        """A streaming call, to its end; when it breaks it is asked again, with the request as it is by then."""
        last_answer = time.monotonic()
        while True:
            try:
                for answer in self._stream(method, request()):
                    last_answer = time.monotonic()
                    yield answer
                return
            except (Unreachable, Unavailable) as error:
                self._pause(error, last_answer + self._patience)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, subject: str, data: bytes) -> _Message:
        with self._connected() as connection:
            check_size(data, connection.max_payload)
            inbox = connection.send(subject, data, self._authorization)
            return connection.next(inbox, self._timeout)

    def _stream(self, method: Method[Q, A], request: Q) -> Iterator[A]:
        with self._connected() as connection:
            inbox = connection.send(method.subject, encode(request), self._authorization)
        while True:
            with self._connected() as connection:
                message = connection.next(inbox, SILENCE_SECONDS)
            if not message.data and not message.headers:
                return
            yield _answer(message, method.answer)

    @contextmanager
    def _connected(self) -> "Iterator[_Connection]":
        try:
            if self._connection is None:
                self._connection = _Connection(self._url, self._inbox, self._tls)
            yield self._connection
        except OSError as error:
            self.close()
            raise Unreachable(f"no NATS at {_without_secrets(self._url)}: {error}") from error

    def _pause(self, error: Unreachable | Unavailable, deadline: float) -> None:
        pause = random.uniform(0.1, 0.2)
        if isinstance(error, Unavailable):
            pause = max(pause, error.retry_after or 0)
        if time.monotonic() + pause > deadline:
            raise error
        time.sleep(pause)


class _Connection:
    """One connection and its inbox."""

    def __init__(self, url: str, inbox: str, tls: "SSLContext | None") -> None:
        self._socket, self._server = _dial(url)
        self._tls = tls
        self._buffer = b""
        self._inbox = f"{inbox}.{secrets.token_hex(11)}"
        self._sent = 0
        try:
            self._greet()
        except BaseException:
            self._socket.close()
            raise

    def send(self, subject: str, data: bytes, authorization: str) -> str:
        """Returns the subject the answers come on."""
        self._sent += 1
        reply = f"{self._inbox}.{self._sent}"
        lines = f"Authorization: {authorization}\r\n" if authorization else ""
        head = f"NATS/1.0\r\n{lines}\r\n".encode()
        size = len(head) + len(data)
        self._socket.sendall(
            b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject.encode(), reply.encode(), len(head), size, head, data)
        )
        return reply

    def next(self, inbox: str, timeout: float) -> _Message:
        """The next answer on that subject; answers to earlier requests are dropped."""
        self._socket.settimeout(timeout)
        while True:
            message = self._read()
            if message is not None and message.subject == inbox:
                return message

    def close(self) -> None:
        self._socket.close()

    def _greet(self) -> None:
        info = json.loads(self._line().removeprefix(b"INFO "))
        self.max_payload = int(info.get("max_payload", _MAX_PAYLOAD)) - HEADER_ROOM
        if info.get("tls_required") or self._tls is not None:
            self._encrypt(offered=bool(info.get("tls_required") or info.get("tls_available")))
        options = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "lang": "python-waterclock",
            "version": "1",
            "name": "waterclock-cli",
        }
        if self._server.password is not None:
            options["user"] = unquote(self._server.username or "")
            options["pass"] = unquote(self._server.password)
        elif self._server.username:
            options["auth_token"] = unquote(self._server.username)
        greeting = f"CONNECT {json.dumps(options)}\r\nSUB {self._inbox}.* 1\r\nPING\r\n"
        self._socket.sendall(greeting.encode())
        introduced = time.monotonic()
        self._socket.settimeout(_LOGIN_SECONDS)
        while (line := self._line()) != b"PONG":
            if line.startswith(b"-ERR"):
                if b"authorization" in line.lower() and time.monotonic() - introduced < _REFUSED_AT_ONCE:
                    raise Unauthenticated.because(NOT_LET_IN)
                raise OSError(line.decode(errors="replace"))

    def _encrypt(self, *, offered: bool) -> None:
        """Called before anything secret is sent."""
        if not offered:
            raise OSError("the server does not speak TLS")
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        self._socket = self._tls.wrap_socket(self._socket, server_hostname=self._server.hostname)

    def _read(self) -> _Message | None:
        kind, _, rest = self._line().partition(b" ")
        match kind:
            case b"MSG" | b"HMSG":
                subject, *_, size = rest.decode().split()
                head = int(rest.split()[-2]) if kind == b"HMSG" else 0
                body = self._exactly(int(size) + 2)[:-2]
                return _Message(subject, _headers(body[:head]), body[head:])
            case b"PING":
                self._socket.sendall(b"PONG\r\n")
            case b"-ERR":
                raise OSError(rest.decode(errors="replace"))
        return None

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._receive()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _receive(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise OSError("the connection was closed")
        self._buffer += data


def _dial(urls: str) -> tuple[socket.socket, SplitResult]:
    failure: OSError = OSError("no URL")
    for url in urls.split(","):
        server = urlsplit(url.strip() if "://" in url else f"nats://{url.strip()}")
        try:
            return socket.create_connection(
                (server.hostname or "127.0.0.1", server.port or 4222), _CONNECT_SECONDS
            ), server
        except OSError as error:
            failure = error
    raise failure


def _headers(block: bytes) -> dict[str, str]:
    """The status of the first line under `Status`, then the headers."""
    if not block:
        return {}
    first, *lines = block.decode(errors="replace").split("\r\n")
    status = first.removeprefix("NATS/1.0").split()
    found = {"Status": status[0]} if status else {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found


def _answer(message: _Message, kind: type[A]) -> A:
    return answer_of(message.data, message.headers, kind, nobody=_NOBODY)


def _without_secrets(urls: str) -> str:
    return ", ".join(url.rpartition("@")[2].rpartition("/")[2] for url in urls.split(","))
