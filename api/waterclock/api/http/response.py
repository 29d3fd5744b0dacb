"""A method's answer as an HTTP response."""

from collections.abc import AsyncIterator, Callable
from functools import cache
from string import Formatter
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from litestar import Request, Response
from litestar.response import Stream

from waterclock.proto.answers import LogChunk, Page
from waterclock.proto.methods import Method, Rest

AnyRequest = Request[Any, Any, Any]

JSON = "application/json"
LINES = "application/x-ndjson"
_encode = msgspec.json.Encoder().encode


def write(http: AnyRequest, rest: Rest, answer: Any) -> Response[Any]:
    status = rest.status if getattr(answer, "created", True) else 200
    headers = {}
    named = {name: getattr(answer, name) for name in _named_in(rest.location)}
    if rest.location and None not in named.values():  # a dry run makes nothing that could be found
        quoted = {name: quote(str(value), safe="~@:") for name, value in named.items()}
        headers["Location"] = rest.location.format_map(quoted)
    if isinstance(version := getattr(answer, "version", None), int):
        headers["ETag"] = f'"{version}"'
    if rest.answer == "array" and isinstance(answer, Page):
        if answer.next_cursor:
            headers["Link"] = f'<{_next_page(http, answer.next_cursor)}>; rel="next"'
        answer = answer.items
    if rest.answer == "lines":
        return Response(_lines(answer), status_code=status, media_type=LINES, headers=headers)
    return Response(_encode(answer), status_code=status, media_type=JSON, headers=headers)


@cache
def _named_in(template: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(template) if name)


async def stream(method: Method[Any, Any], rest: Rest, answers: AsyncIterator[Any]) -> Response[Any]:
    """Waits for the first answer, so that a refusal still has its own status."""
    render, media = _RENDERED[rest.answer]
    first = await anext(answers, None)

    async def body() -> AsyncIterator[bytes]:
        if first is None:
            return
        yield render(first)
        async for answer in answers:
            yield render(answer)

    return Stream(body(), status_code=rest.status, media_type=media, headers={"Cache-Control": "no-store"})


def _text(chunk: LogChunk) -> bytes:
    return chunk.text.encode() if chunk.data is None else chunk.data


def _event(answer: Any) -> bytes:
    kind = getattr(answer, "type", "message")
    position = getattr(answer, "position", None)
    head = f"id: {position}\n" if position else ""
    if kind == "position":
        # Where the stream begins. A browser keeps an id alone for a reconnect and hands no event on: nothing happened.
        return f"{head}\n".encode()
    return f"{head}event: {kind}\ndata: ".encode() + _encode(answer) + b"\n\n"


_RENDERED: dict[str, tuple[Callable[[Any], bytes], str]] = {
    "text": (_text, "text/plain"),
    "events": (_event, "text/event-stream"),
    "lines": (lambda answer: _encode(answer) + b"\n", LINES),
}


def _lines(answers: list[Any]) -> bytes:
    return b"".join(_encode(answer) + b"\n" for answer in answers)


def _next_page(http: AnyRequest, cursor: str) -> str:
    kept = [(name, value) for name, value in http.query_params.multi_items() if name != "cursor"]
    return f"{http.url.path}?{urlencode([*kept, ('cursor', cursor)])}"
