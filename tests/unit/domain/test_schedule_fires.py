"""Intervals, one-shots, bounds, exclusions, jitter and preview."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.instants import SECOND, datetime_of, instant_of, rfc3339
from waterclock.core.domain.schedule.fires import Fires, InvalidSchedule, compile, jittered, preview
from waterclock.proto.spec import Schedule


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def at(text: str) -> int:
    return instant_of(moment(text))


def every(
    seconds: float, *, start: str | None = None, end: str | None = None, exclude: tuple[str, ...] = ()
) -> Schedule:
    return Schedule(
        schedule_type="INTERVAL",
        interval_seconds=seconds,
        start_at=moment(start) if start else None,
        end_at=moment(end) if end else None,
        exclude=exclude,
    )


def cron(
    *expressions: str,
    zone: str = "UTC",
    start: str | None = None,
    end: str | None = None,
    exclude: tuple[str, ...] = (),
) -> Schedule:
    return Schedule(
        schedule_type="CRON",
        cron_expression=expressions,
        timezone=zone,
        start_at=moment(start) if start else None,
        end_at=moment(end) if end else None,
        exclude=exclude,
    )


def times(schedule: Schedule, start: str, n: int) -> list[str]:
    return [view.time for view in preview(schedule, "job", at(start), n)]


# --- intervals -----------------------------------------------------------------------------------------


def test_an_interval_is_anchored_to_the_epoch() -> None:
    assert times(every(90), "2026-11-16T08:00:01Z", 2) == ["2026-11-16T08:01:30Z", "2026-11-16T08:03:00Z"]


def test_an_interval_is_anchored_to_its_start() -> None:
    schedule = every(90, start="2026-11-16T08:00:07Z")
    assert times(schedule, "2026-11-16T07:00:00Z", 2) == ["2026-11-16T08:00:07Z", "2026-11-16T08:01:37Z"]
    assert times(schedule, "2026-11-16T08:00:08Z", 1) == ["2026-11-16T08:01:37Z"]


def test_an_interval_may_have_a_fraction() -> None:
    schedule = every(1.5, start="2026-11-16T08:00:00.25Z")
    assert times(schedule, "2026-11-16T08:00:00Z", 3) == [
        "2026-11-16T08:00:00.250000Z",
        "2026-11-16T08:00:01.750000Z",
        "2026-11-16T08:00:03.250000Z",
    ]


@given(
    st.integers(1_000_000, 10**12),
    st.none() | st.integers(-(10**15), 10**16),
    st.integers(-(10**15), 10**16),
    st.integers(0, 10**13),
)
def test_an_interval_fires_when_the_contract_says(
    every_us: int, anchor: int | None, start: int, length: int
) -> None:
    schedule = Schedule(
        schedule_type="INTERVAL",
        interval_seconds=every_us / SECOND,
        start_at=None if anchor is None else datetime_of(anchor),
    )
    fires = compile(schedule, "job")
    step = round(every_us / SECOND * SECOND)
    first = fires.at_or_after(start)
    assert first is not None
    assert (first.scheduled - (anchor or 0)) % step == 0
    assert first.scheduled >= start
    assert anchor is None or first.scheduled >= anchor
    assert first.scheduled - step < start or first.scheduled - step < (anchor or 0)
    end = start + min(length, 100 * step)
    assert fires.count_between(start, end) == len(fires.between(start, end))


# --- one-shots -----------------------------------------------------------------------------------------


def test_a_one_shot_fires_once() -> None:
    fires = compile(
        Schedule(schedule_type="FUTURE", schedule_time=moment("2026-12-31T23:59:59.5+01:00")), "job"
    )
    fire = fires.after(at("2026-01-01T00:00:00Z"))
    assert fire is not None
    assert rfc3339(fire.scheduled) == "2026-12-31T22:59:59.500000Z"
    assert fires.after(fire.scheduled) is None
    assert fires.at_or_after(fire.scheduled) == fire
    assert fires.previous(fire.scheduled) == fire
    assert fires.previous(fire.scheduled - 1) is None
    assert fires.count_between(0, fire.scheduled) == 0
    assert fires.count_between(0, fire.scheduled + 1) == 1


@pytest.mark.parametrize("kind", ["IMMEDIATE", "DEPENDENT"])
def test_what_does_not_depend_on_time_has_no_fires(kind: str) -> None:
    fires = compile(Schedule(schedule_type="IMMEDIATE" if kind == "IMMEDIATE" else "DEPENDENT"), "job")
    assert fires.after(0) is None
    assert fires.previous(10**17) is None
    assert fires.between(0, 10**17) == []


# --- bounds --------------------------------------------------------------------------------------------


def test_start_is_inclusive_and_end_is_exclusive() -> None:
    schedule = cron("0 * * * *", start="2026-11-16T08:00:00Z", end="2026-11-16T10:00:00Z")
    assert times(schedule, "2020-01-01T00:00:00Z", 10) == ["2026-11-16T08:00:00Z", "2026-11-16T09:00:00Z"]
    assert times(schedule, "2026-11-16T09:00:00Z", 10) == ["2026-11-16T09:00:00Z"]
    fires = compile(schedule, "job")
    assert fires.after(at("2026-11-16T09:00:00Z")) is None
    last = fires.previous(at("2030-01-01T00:00:00Z"))
    assert last is not None
    assert last.scheduled == at("2026-11-16T09:00:00Z")
    assert fires.previous(at("2026-11-16T07:59:59Z")) is None
    assert fires.count_between(0, 10**17) == 2


def test_several_expressions_are_one_schedule_without_doubles() -> None:
    schedule = cron("0 */6 * * *", "0 0,1 * * *", "0 0 * * *")
    assert times(schedule, "2026-11-16T00:00:00Z", 5) == [
        "2026-11-16T00:00:00Z",
        "2026-11-16T01:00:00Z",
        "2026-11-16T06:00:00Z",
        "2026-11-16T12:00:00Z",
        "2026-11-16T18:00:00Z",
    ]
    assert compile(schedule, "job").count_between(at("2026-11-16T00:00:00Z"), at("2026-11-17T00:00:00Z")) == 5


def test_a_limit_bounds_what_is_listed_and_counted() -> None:
    day = at("2026-11-16T00:00:00Z"), at("2026-11-17T00:00:00Z")
    for schedule in (cron("* * * * * *"), cron("* * * * * *", "0 0 * * *"), every(1)):
        fires = compile(schedule, "job")
        assert len(fires.between(*day, 10)) == 10
        assert fires.count_between(*day, 10) == 10
    assert compile(cron("* * * * * *"), "job").count_between(*day) == 86_400


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        (cron("0 0 1 1 *", start="2026-02-01T00:00:00Z", end="2026-12-01T00:00:00Z"), "end_at"),
        (every(3600, start="2026-02-01T00:00:00Z", end="2026-02-01T00:00:00Z"), "end_at"),
        (
            cron(
                "0 0 * * *", start="2026-12-25T00:00:00Z", end="2026-12-26T00:00:00Z", exclude=("2026-12-25",)
            ),
            "end_at",
        ),
        (cron("0 0 31 2 *"), "cron_expression"),
        (cron(), "cron_expression"),
        (cron("0 0 * * *", zone="Mars/Olympus"), "timezone"),
        (cron("0 0 * * *", exclude=("25 December",)), "exclude"),
        (cron("0 0 * * *", exclude=("2026-12-25T00:00:00Z/2026-12-24T00:00:00Z",)), "exclude"),
        (cron("0 0 * * *", exclude=("2026-12-25T00:00:00/2026-12-26T00:00:00",)), "exclude"),
        (cron("0 0 * * *", exclude=("2026-13-01",)), "exclude"),
        (cron("0 0 * * *", exclude=("2026-13-01T00:00:00Z/2026-13-02T00:00:00Z",)), "exclude"),
        (cron("0 0 * * *", exclude=("20261225",)), "exclude"),
        (cron("0 0 * * *", exclude=("2026-12-25/2026-12-26",)), "exclude"),
        (every(0.5), "interval_seconds"),
        (every(float("nan")), "interval_seconds"),
        (every(float("inf")), "interval_seconds"),
        (Schedule(schedule_type="INTERVAL"), "interval_seconds"),
        (Schedule(schedule_type="FUTURE"), "schedule_time"),
    ],
)
def test_refused(schedule: Schedule, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        compile(schedule, "job")
    assert refused.value.field == field


# --- exclusions ----------------------------------------------------------------------------------------


def test_excluded_dates_are_local() -> None:
    schedule = cron("0 12 * * *", zone="Pacific/Auckland", exclude=("2026-12-25", "2026-12-26"))
    assert times(schedule, "2026-12-23T12:00:00Z", 2) == ["2026-12-23T23:00:00Z", "2026-12-26T23:00:00Z"]


def test_excluded_windows_are_instants() -> None:
    schedule = every(3600, exclude=("2026-11-16T09:00:00Z/2026-11-16T12:00:00+01:00",))
    assert times(schedule, "2026-11-16T08:00:00Z", 3) == [
        "2026-11-16T08:00:00Z",
        "2026-11-16T11:00:00Z",
        "2026-11-16T12:00:00Z",
    ]
    fires = compile(schedule, "job")
    before = fires.previous(at("2026-11-16T10:30:00Z"))
    assert before is not None
    assert before.scheduled == at("2026-11-16T08:00:00Z")
    assert fires.count_between(at("2026-11-16T08:00:00Z"), at("2026-11-16T13:00:00Z")) == 3


def test_a_date_may_be_in_two_pieces() -> None:
    """In St John's the clocks of 2010-11-07 went from 00:01 back to 23:01 of the day before."""
    schedule = cron("*/30 * * * *", zone="America/St_Johns", exclude=("2010-11-06",))
    fires = compile(schedule, "job").between(at("2010-11-06T02:00:00Z"), at("2010-11-07T04:00:00Z"))
    assert [rfc3339(fire.scheduled) for fire in fires] == [
        "2010-11-06T02:00:00Z",
        "2010-11-07T02:30:00Z",
        "2010-11-07T03:30:00Z",
    ]


def test_a_long_exclusion_costs_one_step() -> None:
    schedule = cron("* * * * * *", exclude=("2026-01-01T00:00:00Z/2036-01-01T00:00:00Z",))
    fire = compile(schedule, "job").after(at("2026-06-01T00:00:00Z"))
    assert fire is not None
    assert fire.scheduled == at("2036-01-01T00:00:00Z")


# --- jitter --------------------------------------------------------------------------------------------


def test_jitter_is_the_same_for_the_same_run_and_spreads_runs() -> None:
    schedule = Schedule(schedule_type="CRON", cron_expression=("0 * * * *",), jitter_seconds=60)
    due = [jittered(schedule, f"job-{n}@x", 0, 3_600 * SECOND) for n in range(500)]
    assert due == [jittered(schedule, f"job-{n}@x", 0, 3_600 * SECOND) for n in range(500)]
    assert all(0 <= instant <= 60 * SECOND for instant in due)
    assert len(set(due)) > 490
    assert max(due) > 55 * SECOND
    assert min(due) < 5 * SECOND


def test_jitter_ends_before_the_next_fire() -> None:
    schedule = Schedule(schedule_type="CRON", cron_expression=("* * * * *",), jitter_seconds=3600)
    assert all(
        1_000 <= jittered(schedule, f"j{n}", 1_000, 1_000 + 60 * SECOND) < 1_000 + 60 * SECOND
        for n in range(200)
    )
    assert max(jittered(schedule, f"j{n}", 0, None) for n in range(200)) > 60 * SECOND


def test_without_jitter_due_is_scheduled() -> None:
    assert jittered(Schedule(), "job@x", 12_345, None) == 12_345


# --- preview -------------------------------------------------------------------------------------------


def test_a_preview_includes_its_start_and_shows_local_time() -> None:
    views = preview(cron("0 9 * * *", zone="Asia/Kolkata"), "job", at("2026-11-16T03:30:00Z"), 1)
    assert [(view.time, view.local, view.note) for view in views] == [
        ("2026-11-16T03:30:00Z", "2026-11-16T09:00:00+05:30", None)
    ]


def test_a_preview_of_an_immediate_job_is_now() -> None:
    assert times(Schedule(), "2026-11-16T08:00:00Z", 5) == ["2026-11-16T08:00:00Z"]


def test_a_preview_stops_with_the_schedule() -> None:
    assert times(every(3600, end="2026-11-16T10:00:00Z"), "2026-11-16T08:30:00Z", 5) == [
        "2026-11-16T09:00:00Z"
    ]
    assert times(every(3600, end="2026-11-16T10:00:00Z"), "2026-11-16T10:00:00Z", 5) == []


def test_the_ends_of_time_are_quiet() -> None:
    leap_days: Fires = compile(cron("0 0 29 2 *", zone="Europe/Berlin"), "job")
    assert leap_days.after(at("9997-01-01T00:00:00Z")) is None
    assert leap_days.previous(at("0003-01-01T00:00:00Z")) is None
    fires: Fires = compile(cron("0 0 * * *", zone="Europe/Berlin"), "job")
    for far in (10**18, 10**21):
        assert fires.after(far) is None
        assert fires.previous(-far) is None
        assert fires.previous(far) is not None
        assert fires.after(-far) is not None
