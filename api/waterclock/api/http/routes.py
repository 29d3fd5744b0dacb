"""The method table over REST, and the few pages beside it. Artifacts are streamed both ways, as they are."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands.artifacts import store
from waterclock.api.console.cookie import CookieSession
from waterclock.api.console.routes import console
from waterclock.api.dispatch import answer, answers, outages_as_refusals
from waterclock.api.errors import Refused, Saturated
from waterclock.api.http import declarations, response
from waterclock.api.http.allowed_methods import AllowedMethods
from waterclock.api.http.body_budget import BodyBudget
from waterclock.api.http.browser_guard import BrowserGuard
from waterclock.api.http.compression import Compression
from waterclock.api.http.conditional import Conditional
from waterclock.api.http.direct import DirectMethod
from waterclock.api.http.log_range import part_of, query_of, wanted_range
from waterclock.api.http.pages import pages
from waterclock.api.http.raw_response import App
from waterclock.api.http.request import read_request
from waterclock.api.metrics import REQUESTS
from waterclock.api.queries.artifacts import content
from waterclock.proto import methods
from waterclock.proto.answers import Artifact
from waterclock.proto.methods import METHODS, Method, Rest
from waterclock.proto.queries import ArtifactRef

AnyRequest = Request[Any, Any, Any]

_BODY_LIMITS = {"json": 16 << 20, "lines": 64 << 20, "bytes": 4 << 30}


def build(app: Application) -> App:
    """The routes, behind what all of them have in common."""
    routed = BodyBudget(DirectMethod(app, methods.JOBS_CREATE, _routed(app)))
    inner: App = AllowedMethods(Compression(Conditional(routed)), app.settings.cors_origins)
    if not app.gate.is_open:
        inner = CookieSession(inner, app.sessions)
    return BrowserGuard(inner, app.settings)


def _routed(app: Application) -> Litestar:
    return Litestar(
        route_handlers=[
            *(_route(app, method, method.rest) for method in METHODS if method.rest),
            *pages(app),
            *console(app),
        ],
        exception_handlers={
            Refused: response.on_refused,
            HTTPException: response.on_framework_error,
            Exception: response.on_anything,
        },
        openapi_config=None,
        logging_config=None,
    )


def _route(app: Application, method: Method[Any, Any], rest: Rest) -> HTTPRouteHandler:
    async def endpoint(request: AnyRequest) -> Response[Any]:
        try:
            answered = await respond(request)
        except Refused as refused:
            REQUESTS.labels(method.name, "rest", refused.problem.status).inc()
            app.access_log.denied(method, refused, address_of(request))
            raise
        REQUESTS.labels(method.name, "rest", answered.status_code).inc()
        return answered

    async def respond(request: AnyRequest) -> Response[Any]:
        caller = app.gate.admit(method, request.headers.get("authorization"))
        caller = msgspec.structs.replace(caller, address=address_of(request))
        if rest.body == "bytes":
            return response.write(request, rest, await _upload(app, request, caller))
        await _not_saturated(app, request, method, caller)
        asked = await read_request(request, method, rest)
        if rest.answer == "bytes":
            return await _download(app, request, asked, caller)
        if rest.answer == "text" and (wanted := wanted_range(request, asked)):
            return await part_of(wanted, answers(app, method, query_of(wanted, asked), caller))
        if rest.answer == "declarations":
            return await declarations.write(request, answers(app, method, asked, caller))
        if method.streaming:
            return await response.stream(request, rest, answers(app, method, asked, caller))
        return response.write(request, rest, await answer(app, method, asked, caller))

    return HTTPRouteHandler(
        path=_paths(rest.path),
        http_method=[rest.verb, *rest.also],
        status_code=200
        if rest.status == 204
        else rest.status,  # the response says it: the framework balks at this
        request_max_body_size=_BODY_LIMITS[rest.body],
        name=method.name,
    )(endpoint)


def address_of(request: AnyRequest) -> str:
    """Of whoever is connected to us: behind a proxy, the proxy."""
    return request.client.host if request.client else ""


async def _not_saturated(
    app: Application, http: AnyRequest, method: Method[Any, Any], caller: Caller
) -> None:
    """What would be refused anyhow is not read, but taken from the connection: who still sends would not hear us."""
    try:
        await app.admission.before_body(method, caller.namespace)
    except Saturated:
        async for _ in http.stream():
            pass
        raise


def _paths(path: str) -> list[str]:
    """With and without the version, in the framework's notation."""
    typed = path.replace("}", ":str}")
    return [typed, typed.removeprefix("/v1")]


async def _upload(app: Application, http: AnyRequest, caller: Caller) -> Artifact:
    caller.must(methods.ARTIFACTS_CREATE)
    name = http.query_params.get("name", "")[:256]
    with outages_as_refusals():
        return await store(app, http.stream(), name, caller)


async def _download(app: Application, http: AnyRequest, asked: ArtifactRef, caller: Caller) -> Response[Any]:
    artifact = await answer(app, methods.ARTIFACTS_GET, asked, caller)
    if "application/json" in http.headers.get("accept", ""):
        return Response(msgspec.json.encode(artifact), media_type="application/json")
    body = _nothing() if "only_head" in http.scope else content(app, artifact)
    headers = {"Content-Length": str(artifact.size), "ETag": f'"{artifact.artifact}"'}
    return Stream(body, media_type="application/octet-stream", headers=headers)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
