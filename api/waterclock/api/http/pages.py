"""What is served beside the methods: health and readiness, for probes and people."""

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CONTENT_TYPE_LATEST

from waterclock.api.application import Application
from waterclock.api.http import metrics_page, openapi, reference
from waterclock.api.nats import asyncapi
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.store.store import StoreError
from waterclock.proto import methods, names
from waterclock.proto.answers import Health

_PROBE_SECONDS = 2.0
_LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
_METRICS = CONTENT_TYPE_LATEST.partition("; charset")[0]
"""The framework says the character set of any text itself."""


def pages(app: Application) -> list[HTTPRouteHandler]:
    @get(["/healthz", "/v1/healthz"])
    async def healthz() -> Response[bytes]:
        return _health(Health(status="ok"))

    @get(["/readyz", "/v1/readyz"])
    async def readyz() -> Response[bytes]:
        """Whether work can be accepted and its output kept: the log and the store answer."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await stream_state(app.connection, names.JOBS)
        except (LogError, TimeoutError) as error:
            return _health(Health(status="unavailable", detail=f"the log cannot be reached: {error}"))
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await app.logs.check()
        except (StoreError, TimeoutError) as error:
            return _health(Health(status="unavailable", detail=f"the store cannot be used: {error}"))
        return _health(Health(status="ok"))

    @get(["/openapi.json", "/v1/openapi.json"])
    async def described() -> Response[bytes]:
        return Response(openapi.document(), media_type="application/json")

    @get(["/asyncapi.json", "/v1/asyncapi.json"])
    async def described_for_nats() -> Response[bytes]:
        return Response(asyncapi.document(), media_type="application/json")

    @get(["/metrics", "/v1/metrics"])
    async def measured(request: Request[Any, Any, Any]) -> Response[bytes]:
        """It asks every component and the log: not for whoever passes by."""
        address = request.client.host if request.client else ""
        access = app.settings.metrics_access
        if access != "open" and not (access == "loopback" and address in _LOOPBACK):
            app.gate.admit(methods.SYSTEM_STATUS, request.headers.get("authorization"))
        return Response(await metrics_page.collect(app), media_type=_METRICS)

    @get(["/docs", "/v1/docs"])
    async def explained() -> Response[str]:
        headers = {"Content-Security-Policy": reference.POLICY}
        return Response(reference.page(), media_type="text/html", headers=headers)

    return [healthz, readyz, described, described_for_nats, measured, explained]


def _health(health: Health) -> Response[Any]:
    ok = health.status == "ok"
    return Response(
        msgspec.json.encode(health),
        status_code=200 if ok else 503,
        media_type="application/json",
        headers={} if ok else {"Retry-After": "1"},
    )
