"""One call to the receiver. It ends by its timeout, whatever the receiver does."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from waterclock.projector.alerts.alert import Alert
from waterclock.projector.alerts.formats import Format, body_of
from waterclock.projector.alerts.signing import signed

if TYPE_CHECKING:
    import aiohttp


class Refused(Exception):
    """The receiver did not take it."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Receiver(Struct, frozen=True, kw_only=True):
    url: str
    format: Format = "generic"
    secret: str | None = None
    key_id: str = "1"
    routing_key: str = ""
    timeout_seconds: float = 10.0


class Webhook:
    def __init__(self, receiver: Receiver, session: "aiohttp.ClientSession", source: str) -> None:
        self._receiver = receiver
        self._session = session
        self._source = source

    @classmethod
    @asynccontextmanager
    async def open(cls, receiver: Receiver, source: str) -> AsyncIterator["Webhook"]:
        import aiohttp  # late: a process without alerts does without it

        timeout = aiohttp.ClientTimeout(total=receiver.timeout_seconds)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            yield cls(receiver, session, source)

    async def call(self, alert: Alert) -> None:
        import aiohttp

        to = self._receiver
        body = body_of(alert, to.format, source=self._source, routing_key=to.routing_key)
        headers = {"Content-Type": "application/json", "Waterclock-Alert-Id": _header(alert.alert_id)}
        if to.secret is not None:
            headers |= signed(body, secret=to.secret, key_id=to.key_id, now=int(time.time()))
        try:
            async with self._session.post(
                to.url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise Refused(f"HTTP {answer.status}", _seconds(answer.headers.get("Retry-After")))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Refused(f"{type(error).__name__}: {error}".rstrip(": ")) from error


def _header(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")


def _seconds(text: str | None) -> float | None:
    return min(float(text), 3600.0) if text is not None and text.isdecimal() else None
