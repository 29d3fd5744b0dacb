"""What every GET has: a HEAD, a tag that changes when the answer does, and a 304 for who has that answer already.

The tag of a thing with a version is the version (`"3"`), or begins with it (`"3-9f86d081884c7d65"`) when the answer
holds more than the definition: `If-Match` goes by the version alone. All else has a weak tag made from the answer.
"""

import asyncio
from hashlib import blake2b
from typing import Any

from waterclock.api.http.raw_response import App, header, without

_TAGGED = (b"application/json", b"application/x-ndjson", b"application/octet-stream", b"text/html")
_UNTAGGED = ("/healthz", "/readyz", "/metrics")
"""What is asked for its state alone."""


class Conditional:
    def __init__(self, inner: App) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._inner(scope, receive, send)
            return
        answer = _Answer(scope, send)
        if scope["method"] == "HEAD":
            asked: Any = {**scope, "method": "GET", "only_head": True, "query_string": _unfollowed(scope)}
            await self._inner(asked, answer.receive, answer.send)
        else:
            await self._inner(scope, receive, answer.send)


def _unfollowed(scope: Any) -> bytes:
    """The head of what is followed is that of what is there: there may be nothing to wait for."""
    parts = scope["query_string"].split(b"&")
    return b"&".join(part for part in parts if part.partition(b"=")[0] != b"follow")


class _Answer:
    def __init__(self, scope: Any, send: Any) -> None:
        self._send = send
        self._only_head = scope["method"] == "HEAD"
        self._known = header(scope["headers"], b"if-none-match")
        self._tagged = not scope["path"].endswith(_UNTAGGED)
        self._start: Any = None
        self._asked = False
        self._sent = asyncio.Event()

    async def receive(self) -> Any:
        """A HEAD has no body, and whoever sent it is gone when it has its answer: nothing is produced in vain."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._sent.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            kind = header(message["headers"], b"content-type").partition(b";")[0]
            if message["status"] == 200 and self._tagged and kind in _TAGGED:
                self._start = message
            else:
                await self._begin(message)
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._start is not None:
            start, self._start = self._start, None
            whole = None if message["more_body"] else message["body"]
            await self._begin(_with_tag(start, whole))
            await self._body(message)
        else:
            await self._body(message)

    async def _begin(self, start: Any) -> None:
        tag = header(start["headers"], b"etag")
        if start["status"] == 200 and tag and _matches(self._known, tag):
            start = {
                **start,
                "status": 304,
                "headers": without(start["headers"], b"content-length", b"content-type"),
            }
        await self._send(start)
        if self._only_head or start["status"] == 304:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            self._sent.set()

    async def _body(self, message: Any) -> None:
        if not self._sent.is_set():
            await self._send(message)


def _with_tag(start: Any, body: bytes | None) -> Any:
    """`body` is None for what comes in pieces."""
    tag = header(start["headers"], b"etag")
    headers = list(start["headers"])
    if not tag and body is not None:
        headers.append((b"etag", b'W/"' + blake2b(body, digest_size=8).hexdigest().encode() + b'"'))
    if not header(headers, b"cache-control"):
        headers.append((b"cache-control", b"no-cache"))
    return {**start, "headers": headers}


def _matches(known: bytes, tag: bytes) -> bool:
    opaque = tag.removeprefix(b"W/")
    return any(one.strip().removeprefix(b"W/") in (opaque, b"*") for one in known.split(b",") if one.strip())
