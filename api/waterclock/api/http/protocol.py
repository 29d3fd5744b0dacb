"""uvicorn's HTTP, with what it lacks: bounds on what a stranger may send and on how long it may take, before any token
is asked for; and for HTTP/1.0 a body without a length that ends with the connection, not with a chunk.

(nginx talks 1.0 to what stands behind it unless told otherwise.)
"""

from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from waterclock.api.http.raw_response import header
from waterclock.api.metrics import CUT_OFF

MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
"""For a request's head, from the first byte of the connection or of the request on."""
BODY_SECONDS = 10.0
"""In each such span at least so many bytes of a body must come:"""
MIN_BODY_BYTES = 4 * 1024
_PIECE = 16 * 1024
_OVERHEAD = 8
"""Bytes of a chunked body that are none of its content, for each that is: the smallest chunks have about six."""


class _UntilClosed(RequestResponseCycle):
    """An answer to HTTP/1.0."""

    unbounded = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if not header(message["headers"], b"content-length"):
                self.unbounded, self.chunked_encoding, self.keep_alive = True, False, False
        elif self.unbounded:
            self.expected_content_length = len(message["body"])
        await super().send(message)


class Protocol(HttpToolsProtocol):
    def __init__(self, *args: Any, most: int, **named: Any) -> None:
        """`most`: connections at a time."""
        super().__init__(*args, **named)
        self._most = most
        self._deadline: TimerHandle | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_seen = 0
        self._in_body = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and not self._close_an_idle_one():
            self._cut_off(HTTPStatus.SERVICE_UNAVAILABLE, "connections")
            return
        self._expect_head()

    def _close_an_idle_one(self) -> bool:
        """One that is only kept for a request that may come gives way to one that is here."""
        for other in self.connections:
            if other is not self and isinstance(other, Protocol) and other._is_idle():
                other.transport.close()
                return True
        return False

    def _is_idle(self) -> bool:
        """Between two requests."""
        waits = self._deadline is None and not self._in_body and self._answered()
        return waits and not self.transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._in_body and self._answered():
            self._expect_head()
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            before = self._body_bytes
            self._head_bytes += len(piece)
            super().data_received(piece)
            if self.transport.is_closing():
                return
            if self._head_bytes:
                self._head_bytes -= max(0, self._body_bytes - before)
            if self._head_bytes > MAX_HEAD_BYTES + _OVERHEAD * self._body_bytes:
                self._cut_off(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head")
                return

    def on_headers_complete(self) -> None:
        self._relax()
        self._in_body = True
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and type(self.cycle) is RequestResponseCycle:
            self.cycle.__class__ = _UntilClosed
        self._expect_body()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._relax()
        self._in_body = False
        self._head_bytes = self._body_bytes = self._body_seen = 0
        super().on_message_complete()

    def _answered(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(
            HEAD_SECONDS, self._cut_off, HTTPStatus.REQUEST_TIMEOUT, "slow head"
        )

    def _expect_body(self) -> None:
        self._deadline = self.loop.call_later(BODY_SECONDS, self._check_body)

    def _check_body(self) -> None:
        """Whoever waits for us, because we do not read or have not said to go on, is not slow."""
        waits = self.flow.read_paused or self.cycle.waiting_for_100_continue
        if not waits and self._body_bytes - self._body_seen < MIN_BODY_BYTES:
            self._cut_off(HTTPStatus.REQUEST_TIMEOUT, "slow body")
            return
        self._body_seen = self._body_bytes
        self._expect_body()

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self, status: HTTPStatus, why: str) -> None:
        self._relax()
        CUT_OFF.labels(why).inc()
        if self._answered() or not self.cycle.response_started:
            line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            self.transport.write(f"{line}connection: close\r\ncontent-length: 0\r\n\r\n".encode())
        self.transport.close()
