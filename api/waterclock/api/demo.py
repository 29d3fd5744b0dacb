"""The jobs that `waterclock up --demo` defines: one of each kind, over REST like anybody's."""

import asyncio
import http.client
import json
import logging
from typing import Any
from urllib.parse import urlsplit

from waterclock.core.runtime.data_directory import ConnectionInfo

JOBS: tuple[dict[str, Any], ...] = (
    {
        "job_id": "demo-hello",
        "name": "greeting",
        "schedule": "now",
        "command": ["echo", "hello from waterclock"],
    },
    {"job_id": "demo-clock", "name": "clock", "schedule": "every 10s", "command": "date -u +%H:%M:%S"},
    {"job_id": "demo-minute", "name": "minute", "schedule": "* * * * *", "command": ["uptime"]},
    {
        "job_id": "demo-flaky",
        "name": "flaky, succeeds on its third attempt",
        "schedule": "now",
        "command": 'test "$WATERCLOCK_ATTEMPT" -ge 3',
        "max_retries": 3,
        "retry": {"initial_seconds": 1, "jitter": False},
    },
)

_TIMEOUT = 10.0
_log = logging.getLogger(__name__)


async def submit_demo(connection: ConnectionInfo) -> None:
    """Define the demo's jobs. On the second start they are there already, and that is fine."""
    for job in JOBS:
        status, body = await asyncio.to_thread(_post, connection, job)
        if status in (200, 201, 409):
            _log.info("demo job", extra={"job_id": job["job_id"], "job": job["name"]})
        else:
            _log.error("demo job refused", extra={"job_id": job["job_id"], "status": status, "answer": body})


def _post(connection: ConnectionInfo, job: dict[str, Any]) -> tuple[int, str]:
    client = _client(connection.http)
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {connection.token}",
    }
    try:
        client.request("POST", "/v1/jobs", json.dumps(job), headers)
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
