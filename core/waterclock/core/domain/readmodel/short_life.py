"""The rows of a job that was created, queued once and succeeded, made at once from these three events.

That is what nearly every one-shot comes to. `job_fold` and `run_fold` make the same rows event by event, for whatever
else may happen to it, and a test tells both the same lives. What is here is only for lives whose rows it gets right:
`may_begin`, `is_its_run` and `is_its_end` say which.
"""

from typing import Any, TypeGuard

from waterclock.core.domain.readmodel.rows import clean, definition_row, json_value
from waterclock.core.domain.readmodel.run_steps import lost_log
from waterclock.core.domain.schedule.fires import counts_from
from waterclock.proto.events import JobCreated, JobEvent, RunEvent, RunQueued, RunSucceeded

ShortLife = tuple[JobCreated, int, RunQueued, int, RunSucceeded, int]
"""Each event with its sequence in the log. A plain tuple, because there is one for each of very many jobs."""


def may_begin(event: JobEvent) -> TypeGuard[JobCreated]:
    """A job that was to run at once: its schedule has no fire that would have to be worked out."""
    return type(event) is JobCreated and event.spec.schedule.schedule_type == "IMMEDIATE"


def is_its_run(event: RunEvent, created: JobCreated) -> TypeGuard[RunQueued]:
    """Whether this is the first event of the run that the job was created for. A part of a run is none: it has a `~`
    behind its job's id, in which there may be one too."""
    return (
        type(event) is RunQueued
        and event.trigger == "schedule"
        and event.attempt == 1
        and not event.again
        and event.scheduled >= counts_from(created.spec.schedule, created.at)
        and event.run_id.find("~", len(created.job_id)) < 0
    )


def is_its_end(event: RunEvent, queued: RunQueued) -> TypeGuard[RunSucceeded]:
    """Whether that run has succeeded."""
    return type(event) is RunSucceeded and event.attempt == queued.attempt and event.run_id == queued.run_id


def definition_of(life: ShortLife) -> tuple[Any, ...]:
    """`job_definitions`."""
    created, version = life[0], life[1]
    effective_from = counts_from(created.spec.schedule, created.at)
    return definition_row(created, "SCHEDULED", version, version, effective_from, created.created_at)


def state_of(life: ShortLife) -> tuple[Any, ...]:
    """`job_state` but for its last column, `skipped`: to encode an empty list takes as long as all the others do."""
    created, _, queued, _, _, last_sequence = life
    return (
        created.job_id,
        created.spec.namespace,
        "COMPLETED",
        None,
        None,
        None,
        None,
        queued.scheduled,
        last_sequence,
        created.created_at,
    )


def run_of(life: ShortLife) -> tuple[Any, ...]:
    """`run_state`."""
    created, _, queued, first_sequence, ended, last_sequence = life
    at, ended_at = queued.at, ended.at
    return (
        queued.run_id,
        created.job_id,
        created.spec.namespace,
        queued.parent,
        queued.epoch,
        "SUCCESS",
        lost_log(ended) or None,
        "schedule",
        queued.version,
        1,
        1,
        queued.crash_count,
        queued.scheduled,
        queued.due,
        at,
        ended.started,
        ended_at,
        ended_at,
        ended.executor_id,
        ended.exit_code,
        None,
        None if ended.output is None else json_value(ended.output),
        clean(ended.log_url),
        ended.cpu_seconds,
        ended.memory_bytes,
        ended.fencing_token,
        queued.queue,
        queued.tier,
        queued.priority,
        first_sequence,
        last_sequence,
        at,
        None,
    )
