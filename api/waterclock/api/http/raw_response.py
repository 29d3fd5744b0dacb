"""Headers and answers as ASGI has them, for what stands in front of the routes."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from waterclock.proto.problem import MEDIA_TYPE, Problem

App = Callable[[Any, Any, Any], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]


def header(headers: Headers, name: bytes) -> bytes:
    """The first of that name (in lower case), or nothing."""
    return next((value for found, value in headers if found.lower() == name), b"")


def without(headers: Headers, *names: bytes) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in names]


async def send_problem(send: Any, problem: Problem, headers: Headers = ()) -> None:
    body = msgspec.json.encode(problem)
    head = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_empty(send: Any, status: int, headers: Headers = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
