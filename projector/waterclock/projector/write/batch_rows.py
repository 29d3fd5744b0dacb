"""What a batch writes, as plain rows: the fold may go on with the next batch while these are on their way."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.readmodel.rows import JobHead, RunRow, dead_letter
from waterclock.projector.fold.fold import Changes
from waterclock.proto.events import Instant

Row = tuple[Any, ...]


class Writes(Struct, frozen=True, kw_only=True):
    """Rows by table."""

    new: dict[str, list[Row]] = field(default_factory=dict)
    """That are certainly not there yet."""
    merged: dict[str, list[Row]] = field(default_factory=dict)
    """That may be."""
    revived: list[str] = field(default_factory=list)
    """Runs that are no longer dead letters."""
    born: frozenset[Instant] = frozenset()
    """The seconds in which the new runs were created."""

    @property
    def rows(self) -> int:
        return sum(len(rows) for kind in (self.new, self.merged) for rows in kind.values())


def writes_of(changes: Changes) -> Writes:
    new_jobs = changes.new_jobs.values()
    return Writes(
        new=_filled(
            job_definitions=[definition.row() for definition in new_jobs],
            job_state=[definition.head.state() for definition in new_jobs],
            job_runs=[astuple(row) for row in changes.new_runs.values()],
        ),
        merged=_filled(
            job_definitions=[definition.row() for definition in changes.changed_jobs.values()],
            job_state=[head.state() for head in changes.states.values()],
            job_runs=[astuple(row) for row in changes.changed_runs.values()],
            earlier_attempts=[astuple(attempt) for attempt in changes.attempts],
            dead_letters=[dead_letter(row) for row in changes.dead.values()],
        ),
        revived=list(changes.revived),
        born=frozenset({row.created_at // SECOND * SECOND for row in changes.new_runs.values()}),
    )


def states_of(heads: Iterable[JobHead]) -> Writes:
    return Writes(merged=_filled(job_state=[head.state() for head in heads]))


def bare_row(table: str, row: Row, error: BaseException) -> Row:
    """A row that was refused, without what may have been the reason: that the run happened is worth more."""
    if table != "job_runs":
        return row
    run = RunRow(**dict(zip(RunRow.__struct_fields__, row, strict=True)))
    run.exit_code = run.error_message = run.output = run.log_url = run.parameters = None
    run.cpu_seconds = run.memory_bytes = run.fencing_token = run.epoch = None
    run.reason = f"not all of it could be stored: {type(error).__name__}"
    return astuple(run)


def _filled(**tables: list[Row]) -> dict[str, list[Row]]:
    return {table: rows for table, rows in tables.items() if rows}
