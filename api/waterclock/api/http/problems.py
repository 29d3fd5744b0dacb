"""Every error as a problem document, the framework's own included."""

import logging
from http import HTTPStatus
from math import ceil
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from waterclock.api.errors import Refused
from waterclock.proto.problem import MEDIA_TYPE, Problem

log = logging.getLogger(__name__)

AnyRequest = Request[Any, Any, Any]


def respond(problem: Problem, headers: dict[str, str] | None = None) -> Response[bytes]:
    headers = dict(headers or {})
    if problem.retry_after is not msgspec.UNSET:
        headers["Retry-After"] = str(max(1, ceil(problem.retry_after)))
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="waterclock"'
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers
    )


def on_refused(_: AnyRequest, error: Refused) -> Response[bytes]:
    return respond(error.problem)


def on_framework_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    status = HTTPStatus(error.status_code)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return on_anything(request, error)
    detail = (
        f"there is nothing at {request.scope['path']}" if status == HTTPStatus.NOT_FOUND else error.detail
    )
    return respond(Problem(status=status, title=status.phrase, detail=detail), error.headers)


def on_anything(request: AnyRequest, error: Exception) -> Response[bytes]:
    log.error(
        "request failed",
        exc_info=error,
        extra={"verb": request.scope["method"], "path": request.scope["path"]},
    )
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return respond(Problem(status=status, title=status.phrase, detail="this is a bug; the log has its trace"))
