"""Whether two doors say the same of a thing. Pure: what they say is given."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.explain.why_run import explain_run
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.readmodel.rows import RunRow
from waterclock.core.domain.readmodel.run_fold import new_run_row, update_run_row
from waterclock.proto.answers import Disagreement, Fire, Job, Run
from waterclock.proto.events import Instant

Row = Mapping[str, Any]

_OF_RUN = (
    "job_id", "workflow_run_id", "epoch", "status", "reason", "trigger", "version", "fires", "attempt_number",
    "crash_count", "scheduled_time", "due_time", "queued_time", "start_time", "end_time", "executor_id", "exit_code",
    "error_message", "log_url", "fencing_token", "queue", "tier", "priority", "created_at",
)  # fmt: skip
_SHOWN_OF_RUN = tuple(name for name in _OF_RUN if name in Run.__struct_fields__)
_TIMES = frozenset(("scheduled_time", "due_time", "queued_time", "start_time", "end_time", "created_at"))


class LoggedRun(Struct):
    """A run as its events in the log make it, by the projector's own rules."""

    row: RunRow | None = None
    records: list[Recorded] = field(default_factory=list)

    def add(self, record: Recorded, namespace: str) -> None:
        self.records.append(record)
        if self.row is not None:
            update_run_row(self.row, record.event, record.sequence)
        elif (begun := new_run_row(record.event, record.sequence, namespace)) is not None:
            self.row = begun[0]


def disagreements(
    about: str, doors: tuple[str, str], first: Row, second: Row, names: Iterable[str]
) -> list[Disagreement]:
    return [
        Disagreement(
            about=about,
            field=name,
            doors=doors,
            says=(_shown(first.get(name)), _shown(second.get(name))),
        )
        for name in names
        if first.get(name) != second.get(name)
    ]


def run_in_sql(logged: LoggedRun, row: Row) -> list[Disagreement]:
    """What SQL says of a run, beside what the log does."""
    assert logged.row is not None
    expected = {name: _value(name, getattr(logged.row, name)) for name in _OF_RUN}
    return disagreements(logged.row.run_id, ("log", "SQL"), expected, row, _OF_RUN)


def run_in_rest(run: Run, row: Row) -> list[Disagreement]:
    shown = {name: getattr(run, name) for name in _SHOWN_OF_RUN}
    return disagreements(run.run_id, ("SQL", "REST"), row, shown, _SHOWN_OF_RUN)


def run_in_why(logged: LoggedRun, row: Row, now: Instant) -> list[Disagreement]:
    """`why` begins with the status that the run has."""
    said = explain_run(row["run_id"], logged.records, (), now).answer
    if said.startswith(f"it is {row['status']}:"):
        return []
    return [
        Disagreement(
            about=row["run_id"], field="status", doors=("SQL", "why"), says=(row["status"], said[:200])
        )
    ]


def job_in_log(job_id: str, version: int, standing: str, row: Row) -> list[Disagreement]:
    """What SQL says of a job, beside the definition in the log. Only the read models know that one has completed."""
    found = disagreements(
        job_id, ("log", "SQL"), {"version": version, "status": standing}, row, ("version", "status")
    )
    completed = row["status"] == "COMPLETED" and standing != "CANCELLED"
    return [each for each in found if not (each.field == "status" and completed)]


def job_in_rest(job: Job, row: Row, now: datetime, door: str = "REST") -> list[Disagreement]:
    last = job.last_run
    shown = {
        "status": job.status,
        "version": job.version,
        "name": job.name,
        "schedule_type": job.schedule_type,
        "next_run_at": job.next_run_at,
        "last_run_id": None if last is None else last.run_id,
        "last_status": None if last is None else last.status,
    }
    found = disagreements(job.job_id, ("SQL", door), row, shown, shown)
    return [each for each in found if not (each.field == "next_run_at" and _is_due(row, shown, now))]


def next_fire(job: Job, fires: Sequence[Fire]) -> list[Disagreement]:
    """The first fire that `next` does not mark as skipped is `next_run_at`."""
    coming = next((fire.time for fire in fires if fire.note != "skipped"), None)
    shown = None if job.next_run_at is None else job.next_run_at
    if (None if coming is None else datetime.fromisoformat(coming)) == shown:
        return []
    return [
        Disagreement(
            about=job.job_id,
            field="next_run_at",
            doors=("REST", "next"),
            says=(_shown(shown), _shown(coming)),
        )
    ]


def _is_due(row: Row, shown: Row, now: datetime) -> bool:
    """A fire that has come, and is not decided yet: SQL waits for that, and REST looks beyond it."""
    times = [time for time in (row["next_run_at"], shown["next_run_at"]) if time is not None]
    return bool(times) and min(times) <= now


def _value(name: str, value: Any) -> Any:
    return datetime_of(value) if name in _TIMES and value is not None else value


def _shown(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
