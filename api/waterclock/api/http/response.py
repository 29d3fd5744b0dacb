"""A method's answer as an HTTP response, and every error, the framework's own included, as a problem document."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import cache
from hashlib import blake2b
from http import HTTPStatus
from string import Formatter
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.response import Stream

from waterclock.api.errors import Refused
from waterclock.api.http.allowed_methods import allowed
from waterclock.api.http.log_range import SIZE_HEADER
from waterclock.proto.answers import LogChunk, Page
from waterclock.proto.methods import Rest
from waterclock.proto.problem import MEDIA_TYPE, Problem, retry_after

AnyRequest = Request[Any, Any, Any]

JSON = "application/json"
LINES = "application/x-ndjson"
_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 15.0
"""Proxies and browsers take a connection for dead that is silent for longer."""
_KEEP_ALIVE = b": there\n\n"
_END = object()


def write(http: AnyRequest, rest: Rest, answer: Any) -> Response[Any]:
    status, headers = head(rest, answer)
    if rest.answer == "array" and isinstance(answer, Page):
        if answer.next_cursor:
            headers["Link"] = f'<{_next_page(http, answer.next_cursor)}>; rel="next"'
        answer = answer.items
    if status == HTTPStatus.NO_CONTENT:
        return Response(b"", status_code=status, media_type=JSON, headers=headers)
    if rest.answer == "lines":
        return Response(_lines(answer), status_code=status, media_type=_lines_type(http), headers=headers)
    body = _encode(answer)
    if "ETag" in headers and any(getattr(answer, run, None) for run in ("last_run", "latest_run")):
        # The definition is of this version, and what the job did is of now.
        headers["ETag"] = f'"{answer.version}-{blake2b(body, digest_size=8).hexdigest()}"'
    return Response(body, status_code=status, media_type=JSON, headers=headers)


def head(rest: Rest, answer: Any) -> tuple[int, dict[str, str]]:
    """The status of an answer, and the headers that say where what was made is, and which version of it."""
    status = rest.status if getattr(answer, "created", True) else 200
    headers = {}
    named = {name: getattr(answer, name) for name in _named_in(rest.location)}
    if rest.location and None not in named.values():  # a dry run makes nothing that could be found
        quoted = {name: quote(str(value), safe="~@:") for name, value in named.items()}
        headers["Location"] = rest.location.format_map(quoted)
    if isinstance(version := getattr(answer, "version", None), int):
        headers["ETag"] = f'"{version}"'
    return status, headers


@cache
def _named_in(template: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(template) if name)


def _lines_type(http: AnyRequest) -> str:
    """NDJSON, and text for who asks for that."""
    return "text/plain" if http.headers.get("accept", "").startswith("text/plain") else LINES


async def stream(http: AnyRequest, rest: Rest, answers: AsyncIterator[Any]) -> Response[Any]:
    """Waits for the first answer, so that a refusal still has its own status."""
    render, media = _RENDERED[rest.answer]
    if rest.answer == "lines":
        media = _lines_type(http)
    first = await anext(answers, None)

    async def body() -> AsyncIterator[bytes]:
        if first is None:
            return
        yield render(first)
        if rest.answer != "events":
            async for answer in answers:
                yield render(answer)
            return
        async with aclosing(with_pauses(answers, KEEP_ALIVE_SECONDS)) as paced:
            async for answer in paced:
                yield _KEEP_ALIVE if answer is None else render(answer)

    headers = {"Cache-Control": "no-store"}
    if rest.answer == "text":
        headers["Accept-Ranges"] = "bytes"
        if first is not None and first.size is not None:
            headers[SIZE_HEADER] = str(first.size)
    return Stream(body(), status_code=rest.status, media_type=media, headers=headers)


async def with_pauses(answers: AsyncIterator[Any], seconds: float) -> AsyncGenerator[Any, None]:
    """The answers, and None whenever there was none for so long."""
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(answers, _END))
            done, _ = await asyncio.wait([waiting], timeout=seconds)
            if not done:
                yield None
                continue
            answer, waiting = waiting.result(), None
            if answer is _END:
                return
            yield answer
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        if isinstance(answers, AsyncGenerator):
            await answers.aclose()


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
    return _encoder.encode_lines(answers)


def _next_page(http: AnyRequest, cursor: str) -> str:
    kept = [(name, value) for name, value in http.query_params.multi_items() if name != "cursor"]
    return f"{http.url.path}?{urlencode([*kept, ('cursor', cursor)])}"


def problem_headers(problem: Problem) -> dict[str, str]:
    headers = retry_after(problem)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="waterclock"'
    return headers


def _problem(problem: Problem, headers: dict[str, str] | None = None) -> Response[bytes]:
    headers = {**(headers or {}), **problem_headers(problem)}
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers
    )


def on_refused(_: AnyRequest, error: Refused) -> Response[bytes]:
    return _problem(error.problem)


def on_framework_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    status = HTTPStatus(error.status_code)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return on_anything(request, error)
    detail = (
        f"there is nothing at {request.scope['path']}" if status == HTTPStatus.NOT_FOUND else error.detail
    )
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() != "allow"}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = allowed(request.scope["path"])
        detail = f"{request.scope['method']} is not for {request.scope['path']}, which has {headers['Allow']}"
    return _problem(Problem(status=status, title=status.phrase, detail=detail), headers)


def on_anything(request: AnyRequest, error: Exception) -> Response[bytes]:
    return _problem(bug(request.scope["method"], request.scope["path"], error))


def bug(verb: str, path: str, error: Exception) -> Problem:
    """What the caller hears of an error that nobody thought of; the log has the rest."""
    log.error("request failed", exc_info=error, extra={"verb": verb, "path": path})
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return Problem(status=status, title=status.phrase, detail="this is a bug; the log has its trace")
