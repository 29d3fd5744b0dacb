"""The environment a process sees: a few variables of ours, the job's own, and what is known about the attempt."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from waterclock.executor.attempt.record import Attempt

PASSED_ON = ("PATH", "HOME", "LANG", "TZ")

_LONGEST_VALUE = 96 * 1024
"""The kernel takes no longer string than 128 KiB; a larger payload is on stdin only."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encode = msgspec.json.Encoder().encode


def payload_of(attempt: Attempt) -> bytes:
    """The payload as the job reads it; empty if there is none."""
    payload = attempt.item.spec.payload
    return b"" if payload is None else _encode(payload)


def environment(
    attempt: Attempt, own: Mapping[str, str], payload: bytes, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    item = attempt.item
    env = {name: base[name] for name in PASSED_ON if name in base}
    env.setdefault("PATH", os.defpath)
    env.update(own)
    env["WATERCLOCK_RUN_ID"] = item.run_id
    env["WATERCLOCK_JOB_ID"] = item.job_id
    env["WATERCLOCK_ATTEMPT"] = str(item.attempt)
    env["WATERCLOCK_SCHEDULED_TIME"] = scheduled_text(item.scheduled)
    env["WATERCLOCK_IDEMPOTENCY_KEY"] = item.run_id
    # These two are there, empty, also where there is nothing to say: a script under `set -u` may name them.
    env["WATERCLOCK_FENCING_TOKEN"] = "" if attempt.fencing_token is None else str(attempt.fencing_token)
    env["WATERCLOCK_PAYLOAD"] = payload.decode() if len(payload) <= _LONGEST_VALUE else ""
    if item.index is not None:
        env["WATERCLOCK_INDEX"] = str(item.index)
    return env


def scheduled_text(instant: int) -> str:
    """RFC 3339, in UTC."""
    return (_EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z")
