"""An alert as its receiver wants it."""

from typing import Any, Literal

import msgspec

from waterclock.core.domain.instants import rfc3339
from waterclock.projector.alerts.alert import Alert, Severity

Format = Literal["generic", "slack", "pagerduty"]

_ICONS: dict[Severity, str] = {
    "critical": ":rotating_light:",
    "error": ":red_circle:",
    "warning": ":large_yellow_circle:",
    "info": ":large_green_circle:",
}


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
    key = alert.key if not alert.resolves else f"failure:{alert.job_id}"
    if alert.rule in ("critical_failure", "dead_letter"):
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
