"""gzip, both ways: answers for those who take it, and bodies of requests that are sent so."""

import zlib
from typing import Any

from waterclock.api.errors import Malformed
from waterclock.api.http.raw_response import App, header, send_problem, without
from waterclock.proto.problem import Problem

_WORTH_IT = 1024
_TYPES = (
    b"application/json",
    b"application/problem+json",
    b"application/x-ndjson",
    b"text/plain",
    b"text/html",
)
_LEVEL = 5
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024


class Compression:
    def __init__(self, inner: App) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        encoding = header(scope["headers"], b"content-encoding").strip().lower()
        if encoding == b"gzip":
            plain: Any = {
                **scope,
                "headers": without(scope["headers"], b"content-encoding", b"content-length"),
            }
            scope, receive = plain, _Unzipped(receive).receive
        elif encoding not in (b"", b"identity"):
            detail = f"Content-Encoding: {encoding.decode('latin-1')[:40]} is not understood; gzip is"
            problem = Problem(status=415, title="Unsupported Media Type", detail=detail)
            await send_problem(send, problem, [(b"accept-encoding", b"gzip")])
            return
        if _takes_gzip(header(scope["headers"], b"accept-encoding")):
            send = _Zipped(send).send
        await self._inner(scope, receive, send)


class _Unzipped:
    """A request's body, unpacked piece by piece, so that a small one cannot fill the memory."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._packed = zlib.decompressobj(_GZIP)
        self._more = True

    async def receive(self) -> Any:
        if not self._packed.unconsumed_tail:
            event = await self._receive()
            if event["type"] != "http.request":
                return event
            self._more = event.get("more_body", False)
            piece = self._unpack(event["body"])
        else:
            piece = self._unpack(self._packed.unconsumed_tail)
        waits = bool(self._packed.unconsumed_tail)
        if not self._more and not waits and not self._packed.eof:
            raise Malformed.because("the body ends before its gzip does")
        return {"type": "http.request", "body": piece, "more_body": self._more or waits}

    def _unpack(self, data: bytes) -> bytes:
        try:
            return self._packed.decompress(data, _PIECE)
        except zlib.error:
            raise Malformed.because("Content-Encoding says gzip, and the body is not") from None


class _Zipped:
    """An answer, packed if it is text, long or without a known length, and has not its own encoding."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._start: Any = None
        self._packer: Any = None

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            kind = header(message["headers"], b"content-type").partition(b";")[0]
            if kind in _TYPES and message["status"] not in (204, 206, 304):
                self._start = message
            else:
                await self._send(message)
        elif message["type"] != "http.response.body" or (self._start is None and self._packer is None):
            await self._send(message)
        else:
            await self._body(message["body"], message["more_body"])

    async def _body(self, body: bytes, more: bool) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            if not more and len(body) < _WORTH_IT:
                start["headers"] = [*start["headers"], (b"vary", b"Accept-Encoding")]
                await self._send(start)
                await self._send({"type": "http.response.body", "body": body, "more_body": False})
                return
            self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
            packed = self._pack(body, more)
            await self._send({**start, "headers": _packed_headers(start["headers"], packed, more)})
        else:
            packed = self._pack(body, more)
        await self._send({"type": "http.response.body", "body": packed, "more_body": more})

    def _pack(self, body: bytes, more: bool) -> bytes:
        """All that is known so far is handed on: who follows a log waits for it."""
        packed: bytes = self._packer.compress(body)
        packed += self._packer.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)
        return packed


def _packed_headers(headers: Any, packed: bytes, more: bool) -> list[tuple[bytes, bytes]]:
    kept = without(headers, b"content-length")
    if not more:
        kept.append((b"content-length", str(len(packed)).encode()))
    return [*kept, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]


def _takes_gzip(accepted: bytes) -> bool:
    for part in accepted.lower().split(b","):
        name, _, quality = part.strip().partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
