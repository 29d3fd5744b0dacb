"""A definition like one before is the same as if it had been worked out by itself."""

from typing import Any

import msgspec
import pytest

from waterclock.api.auth.gate import Caller
from waterclock.api.commands import job_specs, similar_definitions
from waterclock.api.errors import Refused
from waterclock.core.domain.job.validate import Defaults
from waterclock.core.runtime.settings import Settings
from waterclock.proto.spec import JobRequest

NOW = 1_790_000_000_000_000
SETTINGS = Settings()
BASE: dict[str, Any] = {"name": "report", "command": "true", "labels": {"team": "a"}, "max_retries": 2}
OWN: list[dict[str, Any]] = [
    {},
    {"payload": {"n": 1}},
    {"payload": None},
    {"job_id": "mine", "idempotency_key": "k"},
    {"schedule": "now"},
    {"delay": "5m"},
    {"schedule_time": "2027-01-01T00:00:00+02:00"},
    {"schedule_time": "1969-01-01T00:00:00Z"},
    {"cron": "*/5 * * * *", "timezone": "Europe/Paris", "jitter_seconds": 3},
    {"cron": "H H * * *"},
    {"cron": "61 * * * *"},
    {"every": "30s", "max_fires": 3, "start_at": "2026-01-01T00:00:00Z"},
    {"every": "30s", "end_at": "2020-01-01T00:00:00Z"},
    {"cron": "@daily", "every": "1h"},
    {"max_fires": 3},
    {"schedule_time": "2027-01-01T00:00:00", "timezone": "Europe/Paris"},
    {"schedule_type": "CRON"},
    {"dependencies": ["other"]},
    {"dependencies": ["other"], "cron": "@daily"},
    {"payload": "x" * 2_000_000},
    {"name": "other", "namespace": "elsewhere"},
    {"idempotency_key": "a\nb"},
    {"max_retries": -1},
    {"unknown": 1},
]


def defaults(namespace: str) -> Defaults:
    """Each namespace has its own."""
    return Defaults(max_retries=len(namespace), timeout_seconds=60)


def outcome(define: Any, body: Any, caller: Caller) -> Any:
    try:
        return define(body, NOW, SETTINGS, caller, defaults)
    except Refused as refused:
        return refused.problem


@pytest.mark.parametrize("caller", [Caller(actor="a"), Caller(actor="b", namespace="acme")])
@pytest.mark.parametrize("own", OWN, ids=str)
def test_as_if_it_were_the_first(own: dict[str, Any], caller: Caller) -> None:
    line = msgspec.json.encode({**BASE, **own})
    wanted = outcome(job_specs.define, line, caller)
    for _ in range(2):
        found = outcome(similar_definitions.define_line, line, caller)
        assert (found[0] if isinstance(found, tuple) else found) == wanted
    try:
        request = msgspec.json.decode(line, type=JobRequest)
    except msgspec.ValidationError:
        return
    before = msgspec.json.encode(request)
    for _ in range(2):
        assert outcome(similar_definitions.define, request, caller) == wanted
    assert msgspec.json.encode(request) == before
