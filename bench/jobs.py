"""The jobs that are submitted: no-ops with 200 bytes of payload."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from waterclock.api import Client

PAYLOAD = {"text": "x" * 189}
"""200 bytes as JSON."""

_IN_FLIGHT = 4


def immediate() -> dict[str, Any]:
    return {"name": "noop", "job_type": "noop", "schedule": "now", "payload": PAYLOAD}


def at(seconds: float) -> dict[str, Any]:
    """Due once, at a time since the epoch."""
    due = datetime.fromtimestamp(seconds, UTC).isoformat()
    return {"name": "noop", "job_type": "noop", "schedule_time": due, "payload": PAYLOAD}


def daily_from(seconds: float) -> dict[str, Any]:
    """Recurring, due at a time since the epoch and then a day later."""
    due = datetime.fromtimestamp(seconds, UTC).isoformat()
    return {"name": "noop", "job_type": "noop", "every": "1d", "start_at": due, "payload": PAYLOAD}


def spread(count: int, first: float, seconds: float) -> list[dict[str, Any]]:
    """Due evenly over a span."""
    return [at(first + seconds * number / count) for number in range(count)]


def yearly(number: int, now: float) -> dict[str, Any]:
    """A recurring schedule that does not fire soon: stored, and no more than that."""
    day = time.gmtime(now + 86_400 * (30 + number % 300))
    cron = f"{number % 60} {number // 60 % 24} {min(day.tm_mday, 28)} {day.tm_mon} *"
    return {"name": "noop", "job_type": "noop", "cron_expression": cron, "payload": PAYLOAD}


async def submit(clock: Client, jobs: Sequence[dict[str, Any]]) -> float:
    """In bulk over NATS; returns how long it took until all were accepted."""
    began = time.perf_counter()
    answers = await asyncio.gather(
        *(
            clock.jobs.create_many(jobs[each::_IN_FLIGHT])
            for each in range(_IN_FLIGHT)
            if jobs[each::_IN_FLIGHT]
        )
    )
    for answer in answers:
        for result in answer:
            if not isinstance(result.job_id, str):
                raise RuntimeError(f"a job was refused: {result}")
    return time.perf_counter() - began
