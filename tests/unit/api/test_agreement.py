"""Two doors that say the same are not complained of, and those that do not are named, with what each says."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import asdict

from projector_rig.builders import T0, queued, started, succeeded
from waterclock.api.queries.doctor import agreement
from waterclock.api.queries.doctor.agreement import LoggedRun
from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.instants import datetime_of
from waterclock.proto.answers import Run
from waterclock.proto.events import RunEvent

_TIMES = (
    "scheduled_time",
    "due_time",
    "queued_time",
    "start_time",
    "end_time",
    "modified_time",
    "created_at",
)


def logged() -> LoggedRun:
    run, q = LoggedRun(), queued()
    events: list[RunEvent] = [q, started(q), succeeded(q)]
    for number, event in enumerate(events, 1):
        run.add(Recorded(sequence=number, writer="w", event=event), "default")
    return run


def in_sql(run: LoggedRun) -> dict[str, Any]:
    assert run.row is not None
    row = asdict(run.row)
    return row | {name: None if row[name] is None else datetime_of(row[name]) for name in _TIMES}


def test_a_run_of_which_all_say_the_same() -> None:
    run = logged()
    row = in_sql(run)
    shown = Run(**{name: row[name] for name in Run.__struct_fields__})
    assert agreement.run_in_sql(run, row) == []
    assert agreement.run_in_rest(shown, row) == []
    assert agreement.run_in_why(run, row, T0) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "RUNNING"),
        ("attempt_number", 2),
        ("reason", "vandalism"),
        ("end_time", datetime_of(T0) + timedelta(seconds=9)),
    ],
)
def test_a_run_that_sql_has_otherwise(field: str, value: Any) -> None:
    run = logged()
    [found] = agreement.run_in_sql(run, in_sql(run) | {field: value})
    assert (found.about, found.field, found.doors) == (queued().run_id, field, ("log", "SQL"))
    assert found.says[1] in (str(value), getattr(value, "isoformat", lambda: "")().replace("+00:00", "Z"))
    assert str(found).startswith(f"{queued().run_id}: {field} is ")


def test_why_must_say_the_status() -> None:
    run = logged()
    [found] = agreement.run_in_why(run, in_sql(run) | {"status": "FAILED"}, T0)
    assert (found.doors, found.says[0]) == (("SQL", "why"), "FAILED")


def test_what_has_completed_only_the_read_models_know() -> None:
    row = {"version": 3, "status": "COMPLETED"}
    assert agreement.job_in_log("j", 3, "SCHEDULED", row) == []
    assert [each.field for each in agreement.job_in_log("j", 3, "CANCELLED", row)] == ["status"]
    assert [each.field for each in agreement.job_in_log("j", 4, "SCHEDULED", row)] == ["version"]
