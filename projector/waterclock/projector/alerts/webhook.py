"""Delivers one alert to its receiver, in the format the receiver wants. A call ends by its timeout, whatever the
receiver does."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import rfc3339
from waterclock.projector.alerts.alert import Alert, Severity
from waterclock.projector.alerts.signing import signed

if TYPE_CHECKING:
    import aiohttp

Format = Literal["generic", "slack", "pagerduty"]

_ICONS: dict[Severity, str] = {
    "critical": ":rotating_light:",
    "error": ":red_circle:",
    "warning": ":large_yellow_circle:",
    "info": ":large_green_circle:",
}


class DeliveryFailed(Exception):
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
    private: bool = False
    """It may be on a private net, as HTTP jobs may with `http_private`."""
    loopback: bool = False


class Webhook:
    def __init__(self, receiver: Receiver, session: "aiohttp.ClientSession", source: str) -> None:
        self._receiver = receiver
        self._session = session
        self._source = source

    @classmethod
    @asynccontextmanager
    async def open(cls, receiver: Receiver, source: str) -> AsyncIterator["Webhook"]:
        import aiohttp  # late: a process without alerts does without it

        from waterclock.core.runtime.public_addresses import PublicResolver

        timeout = aiohttp.ClientTimeout(total=receiver.timeout_seconds)
        connector = aiohttp.TCPConnector(
            use_dns_cache=False, resolver=None if receiver.private else PublicResolver(receiver.loopback)
        )
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as session:
            yield cls(receiver, session, source)

    async def send(self, alert: Alert) -> None:
        import aiohttp

        to = self._receiver
        body = body_of(alert, to.format, source=self._source, routing_key=to.routing_key)
        headers = {"Content-Type": "application/json", "Waterclock-Alert-Id": _header(alert.alert_id)}
        if to.secret is not None:
            headers |= signed(body, secret=to.secret, key_id=to.key_id, now=int(time.time()))
        try:
            self._check_address()
            async with self._session.post(
                to.url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise DeliveryFailed(f"HTTP {answer.status}", _seconds(answer.headers.get("Retry-After")))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def _check_address(self) -> None:
        """An address needs no resolver, and so would not be checked."""
        from waterclock.core.runtime.public_addresses import is_address, require_public

        host = urlsplit(self._receiver.url).hostname or ""
        if not self._receiver.private and is_address(host):
            require_public(host, self._receiver.loopback)


def _header(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")


def _seconds(text: str | None) -> float | None:
    return min(float(text), 3600.0) if text is not None and text.isdecimal() else None


def body_of(alert: Alert, format: Format, *, source: str, routing_key: str = "") -> bytes:
    match format:
        case "generic":
            shape = _generic(alert, source)
        case "slack":
            shape = _slack(alert)
        case "pagerduty":
            shape = _pagerduty(alert, source, routing_key)
    return msgspec.json.encode(shape)


def summary_of(alert: Alert) -> str:
    return f"{alert.summary} (and {alert.more} more like it)" if alert.more else alert.summary


def _generic(alert: Alert, source: str) -> dict[str, Any]:
    return {
        "alert_id": alert.alert_id,
        "key": alert.key,
        "rule": alert.rule,
        "severity": alert.severity,
        "status": "resolved" if alert.resolves else "firing",
        "summary": summary_of(alert),
        "time": rfc3339(alert.at),
        "job_id": alert.job_id,
        "run_id": alert.run_id,
        "labels": alert.labels,
        "more": alert.more,
        "source": source,
    }


def _slack(alert: Alert) -> dict[str, Any]:
    text = summary_of(alert).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    parts = [alert.rule.replace("_", " "), rfc3339(alert.at)]
    parts += [f"{name}={value}" for name, value in sorted(alert.labels.items())]
    return {
        "text": f"{_ICONS[alert.severity]} {text}",
        "blocks": [
            {
                "type": "section",
                "text": {"type": "mrkdwn", "text": f"{_ICONS[alert.severity]} *{text}*"[:3000]},
            },
            {"type": "context", "elements": [{"type": "mrkdwn", "text": " · ".join(parts)[:3000]}]},
        ],
    }


def _pagerduty(alert: Alert, source: str, routing_key: str) -> dict[str, Any]:
    """Events API v2. A recovery resolves what the failure of its job has triggered."""
    key = alert.key
    if alert.rule in ("critical_failure", "dead_letter", "recovered"):
        key = f"failure:{alert.job_id}"
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if alert.resolves else "trigger",
        "dedup_key": f"waterclock/{key}"[:255],
    }
    if not alert.resolves:
        event["client"] = "waterclock"
        event["payload"] = {
            "summary": summary_of(alert)[:1024],
            "source": source,
            "severity": alert.severity,
            "timestamp": rfc3339(alert.at),
            "component": alert.job_id,
            "class": alert.rule,
            "custom_details": {"run_id": alert.run_id, "labels": alert.labels, "alert_id": alert.alert_id},
        }
    return event
