"""The tables as Python values: to fold into without a database, and to compare."""

from typing import Any

import asyncpg
from msgspec.structs import astuple, replace

from waterclock.core.domain.readmodel.rows import AttemptRow, DefinitionRow, JobRow, RunRow, dead_letter_row
from waterclock.core.domain.readmodel.run_stats import RunCounts, StatsKey
from waterclock.projector.fold.batch_fold import BatchFold, Changes, KnownRows
from waterclock.proto.events import JobEvent, RunEvent

Message = tuple[int, tuple[JobEvent, ...] | tuple[RunEvent, ...]]
"""Sequence and events; which stream it is of, the events tell."""

REBUILT = ("job_definitions", "job_state", "run_state", "earlier_attempts", "dead_letters")


class Tables:
    """What the store would hold."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}
        self.attempts: dict[tuple[str, int, int], AttemptRow] = {}
        self.dead: dict[str, tuple[Any, ...]] = {}
        self.definitions: dict[str, tuple[Any, ...]] = {}
        self.jobs: dict[str, JobRow] = {}
        self.stats: dict[StatsKey, RunCounts] = {}

    def fold(self, jobs: list[tuple[int, Any]], runs: list[tuple[int, Any]]) -> Changes:
        """One batch, with nothing known before: all it knows comes from the tables."""
        known = KnownRows(
            runs={run_id: replace(row) for run_id, row in self.runs.items()},
            jobs={job_id: replace(job) for job_id, job in self.jobs.items()},
        )
        fold = BatchFold(known)
        for sequence, events in jobs:
            fold.fold_jobs(events, sequence)
        for sequence, events in runs:
            fold.fold_runs(events, sequence)
        changes = fold.finish()
        self.apply(changes)
        return changes

    def apply(self, changes: Changes) -> None:
        assert not changes.new_runs.keys() & self.runs.keys()
        assert not changes.new_jobs.keys() & self.jobs.keys()
        for rows in (changes.new_runs, changes.changed_runs):
            self.runs.update({run_id: replace(row) for run_id, row in rows.items()})
        for key, counts in changes.stats.minutes.items():
            self.stats.setdefault(key, RunCounts()).add(counts)
        for attempt in changes.attempts:
            self.attempts.setdefault((attempt.run_id, attempt.attempt_number, attempt.end_time), attempt)
        for run_id in changes.revived:
            self.dead.pop(run_id, None)
        self.dead.update({run_id: dead_letter_row(row) for run_id, row in changes.dead.items()})
        definitions: dict[str, DefinitionRow] = {**changes.new_jobs, **changes.changed_jobs}
        for job_id, definition in definitions.items():
            self.definitions[job_id] = definition.row()
            self.jobs[job_id] = replace(definition.job)
        self.jobs.update({job_id: replace(job) for job_id, job in changes.job_states.items()})

    def contents(self) -> dict[str, Any]:
        return {
            "runs": {run_id: astuple(row) for run_id, row in self.runs.items()},
            "attempts": self.attempts,
            "dead": self.dead,
            "definitions": self.definitions,
            "states": {job_id: job.state_row() for job_id, job in self.jobs.items()},
            "stats": counted(self.stats),
        }


def counted(stats: dict[StatsKey, RunCounts]) -> dict[StatsKey, RunCounts]:
    """Without what was added and taken back."""
    shown = {
        key: replace(
            counts,
            durations={index: count for index, count in counts.durations.items() if count},
            lags={index: count for index, count in counts.lags.items() if count},
        )
        for key, counts in stats.items()
    }
    return {key: counts for key, counts in shown.items() if counts != RunCounts()}


async def contents(url: str, schema: str = "waterclock") -> dict[str, list[dict[str, Any]]]:
    """Every row of the read models that a rebuild makes anew."""
    connection = await asyncpg.connect(url)
    try:
        found = {}
        for table in REBUILT:
            rows = await connection.fetch(f"SELECT t.* FROM {schema}.{table} t ORDER BY t::text")
            found[table] = [dict(row) for row in rows]
        return found
    finally:
        await connection.close()
