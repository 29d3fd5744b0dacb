"""Creating one job over REST, past the framework: that costs more than all that is done for the job.

Answers are the same as through it, byte for byte. What is unusual (a body without a length, or a large one) goes there.
"""

from typing import Any

import msgspec
from litestar import Litestar
from litestar.types import Receive, Scope, Send

from waterclock.api import request_bodies
from waterclock.api.application import Application
from waterclock.api.dispatch import answer
from waterclock.api.errors import Refused
from waterclock.api.http.request import with_headers
from waterclock.api.http.response import JSON, bug, head, problem_headers
from waterclock.api.metrics import REQUESTS
from waterclock.proto.methods import Method
from waterclock.proto.problem import MEDIA_TYPE, Problem

_MOST_BYTES = 1 << 20
_encode = msgspec.json.Encoder().encode


class DirectMethod:
    """A method whose request is a JSON body, in front of all the others."""

    def __init__(self, app: Application, method: Method[Any, Any], others: Litestar) -> None:
        assert method.rest is not None
        assert method.rest.body == "json"
        assert "{" not in method.rest.path
        self._app = app
        self._method = method
        self._rest = method.rest
        self._paths = {method.rest.path, method.rest.path.removeprefix("/v1")}
        self._others = others
        self._counts = {
            status: REQUESTS.labels(method.name, "rest", status) for status in (200, method.rest.status)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self._paths and scope.get("method") == self._rest.verb:
            # Of one that is given twice the first counts, as in the framework.
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in reversed([*scope["headers"]])
            }
            length = headers.get("content-length", "")
            if length.isascii() and length.isdigit() and int(length) <= _MOST_BYTES:
                client = scope["client"]
                address = client[0] if client else ""
                await self._serve(headers, address, receive, send)
                return
        await self._others(scope, receive, send)

    async def _serve(self, headers: dict[str, str], address: str, receive: Receive, send: Send) -> None:
        try:
            status, fields, data = await self._answer(headers, receive)
            media = JSON
        except _Left:
            return
        except Refused as refused:
            self._app.access_log.denied(self._method, refused, address)
            status, fields, data, media = *_rendered(refused.problem), MEDIA_TYPE
        except Exception as error:
            problem = bug(self._rest.verb, self._rest.path, error)
            status, fields, data, media = *_rendered(problem), MEDIA_TYPE
        count = self._counts.get(status) or REQUESTS.labels(self._method.name, "rest", status)
        count.inc()
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        raw.append((b"content-type", media.encode()))
        raw.append((b"content-length", str(len(data)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": data, "more_body": False})

    async def _answer(self, headers: dict[str, str], receive: Receive) -> tuple[int, dict[str, str], bytes]:
        app, method = self._app, self._method
        caller = app.gate.admit(method, headers.get("authorization"))
        body = await _body(receive)
        await app.admission.before_body(method, caller.namespace)
        asked = with_headers(request_bodies.read(body, method.request), headers)
        answered = await answer(app, method, asked, caller)
        status, fields = head(self._rest, answered)
        return status, fields, _encode(answered)


class _Left(Exception):
    """The caller has gone before the whole body was here."""


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise _Left
        parts.append(event["body"])
        if not event.get("more_body", False):
            return b"".join(parts)


def _rendered(problem: Problem) -> tuple[int, dict[str, str], bytes]:
    return problem.status, problem_headers(problem), msgspec.json.encode(problem)
