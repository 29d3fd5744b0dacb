"""What `waterclock up --demo` defines, over REST like anybody's: enough that every page of the console has something to
show. A job of each kind, one that succeeds on its third attempt, one that fails for good, one that is paused, one that
nobody serves, a workflow with a map, a backfill and a secret."""

import asyncio
import http.client
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from waterclock.core.runtime.data_directory import ConnectionInfo

_RETRIES = {"max_retries": 3, "retry": {"initial_seconds": 1, "jitter": False}}

JOBS: tuple[dict[str, Any], ...] = (
    {
        "job_id": "demo-hello",
        "name": "greeting",
        "schedule": "now",
        "command": ["echo", "hello from waterclock"],
    },
    {"job_id": "demo-clock", "name": "clock", "schedule": "every 10s", "command": "date -u +%H:%M:%S"},
    {
        "job_id": "demo-minute",
        "name": "minute",
        "schedule": "* * * * *",
        "command": ["uptime"],
        "labels": {"team": "platform"},
    },
    {
        "job_id": "demo-flaky",
        "name": "flaky, succeeds on its third attempt",
        "schedule": "*/2 * * * *",
        "command": 'test "$WATERCLOCK_ATTEMPT" -ge 3',
        "labels": {"team": "data"},
        **_RETRIES,
    },
    {
        "job_id": "demo-failing",
        "name": "failing, and then a dead letter",
        "schedule": "*/5 * * * *",
        "command": "echo 'connection refused: db.internal:5432' >&2; exit 1",
        "labels": {"team": "data"},
        "max_retries": 1,
        "retry": {"initial_seconds": 1, "jitter": False},
    },
    {
        "job_id": "demo-backup",
        "name": "nightly backup",
        "schedule": "0 2 * * *",
        "timezone": "Europe/Paris",
        "command": 'echo "a password of ${#PGPASSWORD} characters, masked in what is said: $PGPASSWORD"',
        "env": {"PGPASSWORD": {"secret": "demo-password"}},
        "labels": {"team": "platform"},
    },
    {
        "job_id": "demo-paused",
        "name": "paused report",
        "schedule": "0 6 * * MON-FRI",
        "timezone": "America/New_York",
        "command": ["date"],
    },
    {
        "job_id": "demo-late",
        "name": "waits for a handler that nobody serves",
        "schedule": "now",
        "handler": "send_invoice",
        "payload": {"invoice": 4711},
        "start_deadline_seconds": 300,
    },
)
WORKFLOW: dict[str, Any] = {
    "workflow_id": "demo-etl",
    "name": "etl with a map",
    "schedule": "*/10 * * * *",
    "nodes": [
        {"id": "extract", "command": """echo '{"rows": 12}'"""},
        {"id": "check", "command": "sleep 1", "depends_on": ["extract"]},
        {
            "id": "transform",
            "command": 'sleep "0.$WATERCLOCK_PAYLOAD"',
            "depends_on": ["extract"],
            "map": {"over": [1, 2, 3, 4, 5, 6], "max_concurrency": 3},
        },
        {
            "id": "load",
            "command": 'test "$WATERCLOCK_ATTEMPT" -ge 2',
            "depends_on": ["check", "transform"],
            **_RETRIES,
        },
        {"id": "report", "command": "echo loaded", "depends_on": ["load"]},
    ],
}
_SECRET = "not-a-real-password"

_TIMEOUT = 10.0
_DONE = (200, 201, 202, 204, 409)
_log = logging.getLogger(__name__)


async def submit_demo(connection: ConnectionInfo) -> None:
    """Define the demo. On the second start all of it is there already, and is left as it is."""
    created = {job["job_id"]: await _call(connection, "POST", "/v1/jobs", job) == 201 for job in JOBS}
    if await _call(connection, "POST", "/v1/workflows", WORKFLOW) == 201:
        await _call(connection, "POST", "/v1/workflows/demo-etl/runNow", {})
    if created["demo-paused"]:
        await _call(
            connection, "POST", "/v1/jobs/demo-paused/pause", {"note": "until the new numbers are in"}
        )
    if created["demo-backup"]:
        await _call(connection, "PUT", "/v1/secrets/demo-password", {"value": _SECRET})
    if created["demo-failing"]:
        for job in ("demo-failing", "demo-flaky", "demo-backup"):
            await _call(connection, "POST", f"/v1/jobs/{job}/runNow", {})
    if created["demo-minute"]:
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        past = {"from": (now - timedelta(minutes=30)).isoformat(), "to": now.isoformat(), "max_active": 2}
        await _call(connection, "POST", "/v1/jobs/demo-minute/backfill", past)


async def _call(connection: ConnectionInfo, verb: str, path: str, body: dict[str, Any]) -> int:
    status, answer = await asyncio.to_thread(_request, connection, verb, path, body)
    if status in _DONE:
        _log.info("demo", extra={"call": f"{verb} {path}", "status": status})
    else:
        _log.error("demo refused", extra={"call": f"{verb} {path}", "status": status, "answer": answer})
    return status


def _request(connection: ConnectionInfo, verb: str, path: str, body: dict[str, Any]) -> tuple[int, str]:
    client = _client(connection.http)
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {connection.token}",
    }
    try:
        client.request(verb, path, json.dumps(body), headers)
        response = client.getresponse()
        return response.status, response.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)
    finally:
        client.close()


def _client(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT)
    return http.client.HTTPSConnection(parts.netloc, timeout=_TIMEOUT)
