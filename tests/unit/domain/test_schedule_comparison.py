"""What an edit would do to when a job fires."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.instants import DAY, HOUR, MINUTE, instant_of
from waterclock.core.domain.schedule.comparison import MOST_FIRES, Comparison, Outlook, compare
from waterclock.proto.spec import Schedule

NOW = instant_of(datetime(2026, 11, 16, 8, tzinfo=UTC))


def at(text: str) -> int:
    return instant_of(datetime.fromisoformat(text))


def cron(text: str, timezone: str = "UTC", **more: Any) -> Schedule:
    return Schedule(schedule_type="CRON", cron_expression=(text,), timezone=timezone, **more)


def compared(before: Schedule, after: Schedule, start: int = NOW, end: int = NOW + 7 * DAY) -> Comparison:
    return compare(Outlook(schedule=before, name="a"), Outlook(schedule=after, name="a"), NOW, start, end)


def test_what_stays_is_neither_added_nor_removed() -> None:
    found = compared(cron("0 */6 * * *"), cron("0 */4 * * *"), end=NOW + DAY)
    assert [fire.time[11:16] for fire in found.before] == ["12:00", "18:00", "00:00", "06:00"]
    assert len(found.after) == 6
    assert (found.added, found.removed, found.more) == (4, 2, False)


def test_another_zone_moves_the_fires_of_half_a_year() -> None:
    """London and Paris are an hour apart all year, and both change their clocks in the same night."""
    found = compared(
        cron("30 1 * * *", "Europe/London"),
        cron("30 1 * * *", "Europe/Paris"),
        at("2027-03-27T00:00:00Z"),
        at("2027-03-30T00:00:00Z"),
    )
    assert [(fire.time, fire.local, fire.note) for fire in found.before] == [
        ("2027-03-27T01:30:00Z", "2027-03-27T01:30:00+00:00", None),
        ("2027-03-28T01:00:00Z", "2027-03-28T02:00:00+01:00", "dst_gap"),
        ("2027-03-29T00:30:00Z", "2027-03-29T01:30:00+01:00", None),
    ]
    assert [(fire.time, fire.note) for fire in found.after] == [
        ("2027-03-27T00:30:00Z", None),
        ("2027-03-28T00:30:00Z", None),
        ("2027-03-28T23:30:00Z", None),
        ("2027-03-29T23:30:00Z", None),
    ]
    assert (found.added, found.removed) == (4, 3)


def test_a_repeated_hour_is_counted_as_the_policy_has_it() -> None:
    once, twice = (cron("30 2 * * *", "Europe/Paris", dst_overlap=policy) for policy in ("first", "both"))
    found = compared(once, twice, at("2027-10-31T00:00:00+02:00"), at("2027-11-01T00:00:00+01:00"))
    assert (len(found.before), len(found.after), found.added, found.removed) == (1, 2, 1, 0)
    assert [fire.local for fire in found.after] == ["2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"]
    assert {fire.note for fire in found.after} == {"dst_overlap"}


def test_where_there_are_too_many_both_are_shown_up_to_the_same_instant() -> None:
    found = compared(cron("* * * * *"), cron("*/10 * * * *"), end=NOW + 7 * DAY)
    assert len(found.before) == MOST_FIRES
    assert found.more
    assert found.end == NOW + MOST_FIRES * MINUTE
    assert len(found.after) == MOST_FIRES // 10
    assert (found.added, found.removed) == (0, MOST_FIRES - MOST_FIRES // 10)


def test_a_job_fires_no_more_than_it_has_left() -> None:
    hourly = cron("0 * * * *", max_fires=5)
    two, five = (Outlook(schedule=hourly, name="a", left=left) for left in (2, 5))
    found = compare(two, five, NOW, NOW, NOW + DAY)
    assert (len(found.before), len(found.after), found.added) == (2, 5, 3)
    later = compare(two, five, NOW, NOW + 3 * HOUR, NOW + DAY)
    assert (len(later.before), len(later.after)) == (0, 2)
    none = compare(five, Outlook(schedule=hourly, name="a", left=0), NOW, NOW, NOW + DAY)
    assert (len(none.after), none.removed) == (0, 5)


def test_what_is_left_out_takes_nothing_of_what_is_left() -> None:
    hourly = cron("0 * * * *", max_fires=5)
    second = frozenset([NOW + HOUR])
    found = compare(
        Outlook(schedule=hourly, name="a", left=2, skipped=second),
        Outlook(schedule=cron("0 * * * *"), name="a", skipped=second),
        NOW,
        NOW,
        NOW + 4 * HOUR,
    )
    assert [fire.time[11:13] for fire in found.before] == ["08", "09", "10"]
    assert (len(found.after), found.added) == (4, 1)
    later = compare(
        Outlook(schedule=hourly, name="a", left=2, skipped=second),
        Outlook(schedule=hourly, name="a", left=2),
        NOW,
        NOW + 2 * HOUR,
        NOW + 5 * HOUR,
    )
    assert ([fire.time[11:13] for fire in later.before], later.after) == (["10"], [])


def test_what_is_due_at_once_is_due_then() -> None:
    once = Outlook(schedule=Schedule(schedule_type="IMMEDIATE"), name="a", at_once=NOW)
    over = Outlook(schedule=Schedule(schedule_type="IMMEDIATE"), name="a", is_over=True)
    assert compare(over, once, NOW, NOW, NOW + DAY).added == 1
    assert compare(over, once, NOW, NOW + 1, NOW + DAY).added == 0
    waits = Outlook(schedule=Schedule(schedule_type="DEPENDENT"), name="a")
    assert compare(waits, waits, NOW, NOW, NOW + DAY).before == []


crons = st.sampled_from(["0 * * * *", "*/20 * * * *", "30 2 * * *", "0 9 * * MON", "H H * * *", "0 0 1 * *"])


@given(crons, crons, st.sampled_from(["UTC", "Europe/Paris"]), st.integers(0, 400), st.integers(1, 300))
def test_the_counts_are_those_of_the_lists(one: str, other: str, zone: str, day: int, hours: int) -> None:
    start = NOW + day * DAY
    found = compared(cron(one), cron(other, zone), start, start + hours * HOUR)
    before, after = ({fire.time for fire in fires} for fires in (found.before, found.after))
    assert (found.added, found.removed) == (len(after - before), len(before - after))
    assert all(start <= at(time) < found.end for time in before | after)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_nothing_is_known_twice(kind: str) -> None:
    """An expression that matches an instant twice fires once."""
    both = Schedule(schedule_type="CRON", cron_expression=("0 * * * *", "*/30 * * * *"))
    times = [fire.time for fire in getattr(compared(both, both), kind)]
    assert len(times) == len(set(times))
