"""Schedules against an oracle that walks the clock, around real transitions."""

import itertools
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unit.domain.wall_oracle import Fields, expected, seconds, wall
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule.fires import Fires, InvalidSchedule, compile
from waterclock.proto.policies import DstGap, DstOverlap
from waterclock.proto.spec import Schedule

TRANSITIONS = [
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
    ("Africa/Casablanca", "2026-03-22T02:00:00Z"),
    ("America/Sao_Paulo", "2017-10-15T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("America/St_Johns", "2010-11-07T02:31:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Europe/Dublin", "2026-10-25T01:00:00Z"),
    ("Asia/Kolkata", "2026-12-31T18:30:00Z"),
    ("UTC", "2028-02-29T00:00:00Z"),
]
WHOLE_DAYS = [("Pacific/Apia", "2011-12-30T10:00:00Z"), ("Pacific/Kwajalein", "1993-08-21T12:00:00Z")]


def numbers(low: int, high: int, size: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(low, high), min_size=1, max_size=size)


def sometimes(values: st.SearchStrategy[frozenset[int]]) -> st.SearchStrategy[frozenset[int] | None]:
    """Mostly a star, so that most schedules fire on the day of the transition."""
    return st.one_of(st.none(), st.none(), st.none(), values)


def spell(values: frozenset[int] | None) -> str:
    return "*" if values is None else ",".join(map(str, sorted(values)))


@st.composite
def crons(draw: st.DrawFn, day: int, with_seconds: bool) -> tuple[str, Fields]:
    hour_text, hours = draw(
        st.one_of(
            numbers(0, 23, 5).map(lambda hours: (spell(hours), hours)),
            numbers(0, 3, 3).map(lambda hours: (spell(hours), hours)),
            st.sampled_from(
                [("*", None), ("*/2", frozenset(range(0, 24, 2))), ("0-23", frozenset(range(24)))]
            ),
        )
    )
    fields = Fields(
        seconds=draw(numbers(0, 59, 3)) if with_seconds else frozenset({0}),
        minutes=draw(st.none() | numbers(0, 59, 4)),
        hours=hours,
        wildcard_hour=hour_text.startswith("*"),
        days=draw(sometimes(st.just(frozenset({day})) | numbers(1, 31, 20))),
        months=draw(sometimes(numbers(1, 12, 11))),
        weekdays=draw(sometimes(numbers(0, 6, 5))),
    )
    text = " ".join(
        (spell(fields.minutes), hour_text, spell(fields.days), spell(fields.months), spell(fields.weekdays))
    )
    return (f"{spell(fields.seconds)} {text}" if with_seconds else text), fields


@st.composite
def cases(
    draw: st.DrawFn, places: Sequence[tuple[str, str]], *, reach: int, with_seconds: bool = False
) -> tuple[Schedule, list[Fields], int, int]:
    key, moment = draw(st.sampled_from(places))
    day = wall(seconds(moment) - 1, ZoneInfo(key)).day
    drawn = draw(st.lists(crons(day, with_seconds), min_size=1, max_size=2))
    start = seconds(moment) + draw(st.integers(-reach, reach))
    end = start + draw(st.integers(0, 2 * reach))
    schedule = Schedule(
        schedule_type="CRON",
        cron_expression=tuple(text for text, _ in drawn),
        timezone=key,
        dst_gap=draw(st.sampled_from(list[DstGap](["next_valid", "skip"]))),
        dst_overlap=draw(st.sampled_from(list[DstOverlap](["first", "both"]))),
    )
    return schedule, [fields for _, fields in drawn], start, end


def walk(
    schedule: Schedule, crons: list[Fields], start: int, end: int, *, step: int, around: int
) -> list[int]:
    fires = {
        second * SECOND
        for fields in crons
        for second in expected(
            fields,
            schedule.timezone,
            schedule.dst_gap,
            schedule.dst_overlap,
            start,
            end,
            step=step,
            around=around,
        )
    }
    return sorted(fires)


def compiled(schedule: Schedule) -> Fires | None:
    try:
        return compile(schedule, "job")
    except InvalidSchedule as refused:
        if "can never fire" not in refused.reason:
            raise
        return None


def check(schedule: Schedule, start: int, end: int, truth: list[int]) -> None:
    fires = compiled(schedule)
    if fires is None:
        alone = [compiled(replace(schedule, cron_expression=(cron,))) for cron in schedule.cron_expression]
        assert None in alone, "one that can never fire is refused with the others"
        assert any(alone) or truth == []
        return
    low, high = start * SECOND, end * SECOND
    assert [fire.scheduled for fire in fires.between(low, high)] == truth
    assert fires.count_between(low, high) == len(truth)
    for earlier, later in itertools.pairwise(truth):
        for instant in (earlier, earlier + 1, later - 1):
            following = fires.after(instant)
            assert following is not None
            assert following.scheduled == later
        before = fires.previous(later - 1)
        assert before is not None
        assert before.scheduled == earlier
        assert fires.previous(earlier) == before
    if not truth:
        before, following = fires.previous(high - 1), fires.at_or_after(low)
        assert before is None or before.scheduled < low
        assert following is None or following.scheduled >= high


@settings(max_examples=100)
@given(cases(TRANSITIONS, reach=86_400))
def test_minutes_around_a_transition(case: tuple[Schedule, list[Fields], int, int]) -> None:
    schedule, crons, start, end = case
    check(schedule, start, end, walk(schedule, crons, start, end, step=60, around=3 * 3600))


@settings(max_examples=25)
@given(cases(TRANSITIONS, reach=3600, with_seconds=True))
def test_seconds_around_a_transition(case: tuple[Schedule, list[Fields], int, int]) -> None:
    schedule, crons, start, end = case
    check(schedule, start, end, walk(schedule, crons, start, end, step=1, around=7_500))


@settings(max_examples=25)
@given(cases(WHOLE_DAYS, reach=2 * 86_400))
def test_a_day_that_never_was(case: tuple[Schedule, list[Fields], int, int]) -> None:
    schedule, crons, start, end = case
    check(schedule, start, end, walk(schedule, crons, start, end, step=60, around=26 * 3600))


HISTORY = [("Africa/Monrovia", "1972-01-07T00:44:30Z"), ("Europe/Amsterdam", "1937-06-30T23:40:28Z")]


@settings(max_examples=20)
@given(cases(HISTORY, reach=1800, with_seconds=True))
def test_offsets_with_seconds(case: tuple[Schedule, list[Fields], int, int]) -> None:
    schedule, crons, start, end = case
    check(schedule, start, end, walk(schedule, crons, start, end, step=1, around=3600))


@settings(max_examples=100)
@given(
    cases(TRANSITIONS, reach=86_400),
    st.lists(st.integers(-400 * 86_400 * SECOND, 400 * 86_400 * SECOND), min_size=1, max_size=20),
)
def test_the_answer_does_not_depend_on_what_was_asked_before(
    case: tuple[Schedule, list[Fields], int, int], jumps: list[int]
) -> None:
    schedule, _, start, _ = case
    fires = compiled(schedule)
    if fires is None:
        return
    instants = [start * SECOND + jump for jump in jumps]
    forward = {instant: (fires.after(instant), fires.previous(instant)) for instant in instants}
    assert {
        instant: (fires.after(instant), fires.previous(instant)) for instant in reversed(instants)
    } == forward
    for instant, (following, before) in forward.items():
        assert before is None or before.scheduled <= instant
        assert following is None or instant < following.scheduled
        if before is not None and following is not None:
            assert fires.after(before.scheduled) == following
            assert fires.previous(following.scheduled - 1) == before
