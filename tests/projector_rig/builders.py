"""Builders of events, with defaults: a test says only what it is about."""

from typing import Any

from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import (
    JobCreated,
    RunFailed,
    RunQueued,
    RunRequested,
    RunRetryRequested,
    RunStarted,
    RunSucceeded,
)
from waterclock.proto.spec import Handler, JobSpec, Schedule, Shell

T0 = 1_794_816_000 * SECOND
"""2026-11-16T08:00:00Z"""

EVERY_MINUTE = Schedule(schedule_type="INTERVAL", interval_seconds=60)
EXECUTOR = "executor-test-000001"


def spec(**fields: Any) -> JobSpec:
    return JobSpec(**{"name": "a job", "task": Shell(command="true"), **fields})


def created(job_id: str = "job", at: int = T0, **fields: Any) -> JobCreated:
    return JobCreated(job_id=job_id, spec=spec(**fields), at=at, created_at=at)


def handler_job(job_id: str = "job", handler: str = "noop", **fields: Any) -> JobCreated:
    return created(job_id, task=Handler(handler=handler), **fields)


def queued(job_id: str = "job", scheduled: int = T0, **fields: Any) -> RunQueued:
    defaults = {
        "run_id": run_id(job_id, scheduled),
        "at": scheduled + 1000,
        "version": 1,
        "scheduled": scheduled,
        "due": scheduled,
    }
    return RunQueued(**{**defaults, **fields})


def started(of: RunQueued, **fields: Any) -> RunStarted:
    defaults = {"run_id": of.run_id, "at": of.at + 2000, "attempt": of.attempt, "executor_id": EXECUTOR}
    return RunStarted(**{**defaults, **fields})


def outcome(of: RunQueued, **fields: Any) -> dict[str, Any]:
    """What every outcome says."""
    defaults = {
        "run_id": of.run_id,
        "at": of.at + 5000,
        "attempt": of.attempt,
        "executor_id": EXECUTOR,
        "started": of.at + 2000,
    }
    return {**defaults, **fields}


def succeeded(of: RunQueued, **fields: Any) -> RunSucceeded:
    return RunSucceeded(**outcome(of, **fields))


def failed(of: RunQueued, **fields: Any) -> RunFailed:
    return RunFailed(**outcome(of, **{"reason": "exit code 1", "exit_code": 1, **fields}))


def requested(job_id: str = "job", command: str = "c1", at: int = T0, **fields: Any) -> RunRequested:
    return RunRequested(run_id=f"{job_id}@now-{command}", at=at, version=1, actor="alice", **fields)


def retry_requested(of: RunQueued, at: int, **fields: Any) -> RunRetryRequested:
    return RunRetryRequested(
        run_id=of.run_id, at=at, version=of.version, scheduled=of.scheduled, attempt=of.attempt, **fields
    )
