"""What a schedule does on real nights on which the clocks changed. Each row was worked out by hand."""

from datetime import datetime

import pytest

from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.schedule.fires import Fires, compile, preview
from waterclock.proto.policies import DstGap, DstOverlap
from waterclock.proto.spec import Schedule


def at(text: str) -> int:
    return instant_of(datetime.fromisoformat(text))


def cron(
    zone: str, *expressions: str, gap: DstGap = "next_valid", overlap: DstOverlap = "first", **more: int
) -> Schedule:
    return Schedule(
        schedule_type="CRON",
        cron_expression=expressions,
        timezone=zone,
        dst_gap=gap,
        dst_overlap=overlap,
        max_fires=more.get("max_fires"),
    )


def fires_of(schedule: Schedule) -> Fires:
    return compile(schedule, "job")


def shown(schedule: Schedule, start: str, n: int) -> list[str]:
    """`2026-03-29T03:00:00+02:00 dst_gap`: local time, offset, and the note if there is one."""
    views = preview(schedule, "job", at(start), n)
    for view in views:
        assert at(view.time) == at(view.local)
        assert view.time.endswith("Z")
    return [f"{view.local} {view.note}" if view.note else view.local for view in views]


BERLIN_SPRING, BERLIN_AUTUMN = "2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"

ROWS = [
    pytest.param(
        cron("Europe/Berlin", "30 2 * * *"),
        BERLIN_SPRING,
        ["2026-03-29T03:00:00+02:00 dst_gap", "2026-03-30T02:30:00+02:00"],
        id="a time in the gap fires when the gap ends",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 * * *", gap="skip"),
        BERLIN_SPRING,
        ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"],
        id="or not at all",
    ),
    pytest.param(
        cron("Europe/Berlin", "*/15 2 * * *"),
        BERLIN_SPRING,
        ["2026-03-29T03:00:00+02:00 dst_gap", "2026-03-30T02:00:00+02:00"],
        id="several in the gap become one",
    ),
    pytest.param(
        cron("Europe/Berlin", "0,30 2-3 * * *"),
        BERLIN_SPRING,
        [
            "2026-03-29T03:00:00+02:00 dst_gap",
            "2026-03-29T03:30:00+02:00",
            "2026-03-30T02:00:00+02:00",
        ],
        id="also with one that is due then anyway",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 * * *", "0 3 * * *", "0 3,4 * * *"),
        BERLIN_SPRING,
        [
            "2026-03-29T03:00:00+02:00 dst_gap",
            "2026-03-29T04:00:00+02:00",
            "2026-03-30T02:30:00+02:00",
            "2026-03-30T03:00:00+02:00",
        ],
        id="also across expressions",
    ),
    pytest.param(
        cron("Europe/Berlin", "0 2,3 * * *", gap="skip"),
        BERLIN_SPRING,
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"],
        id="what is due when the gap ends stays when the rest is skipped",
    ),
    pytest.param(
        cron("Europe/Berlin", "0 3 * * *"),
        BERLIN_SPRING,
        ["2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"],
        id="the first time after the gap is not in it",
    ),
    pytest.param(
        cron("Europe/Berlin", "0 2 * * *"),
        BERLIN_SPRING,
        ["2026-03-29T03:00:00+02:00 dst_gap", "2026-03-30T02:00:00+02:00"],
        id="the first time of the gap is in it",
    ),
    pytest.param(
        cron("Europe/Berlin", "59 59 1 * * *"),
        BERLIN_SPRING,
        ["2026-03-29T01:59:59+01:00", "2026-03-30T01:59:59+02:00"],
        id="the last second before the gap is not in it",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 * * * *"),
        "2026-03-29T00:00:00Z",
        ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"],
        id="a wildcard hour follows elapsed time across a gap",
    ),
    pytest.param(
        cron("Europe/Berlin", "0 */2 * * *"),
        "2026-03-28T23:00:00Z",
        ["2026-03-29T00:00:00+01:00", "2026-03-29T04:00:00+02:00", "2026-03-29T06:00:00+02:00"],
        id="nothing is moved for a stepped wildcard",
    ),
    pytest.param(
        cron("Europe/Berlin", "0 0-22/2 * * *"),
        "2026-03-28T23:00:00Z",
        [
            "2026-03-29T00:00:00+01:00",
            "2026-03-29T03:00:00+02:00 dst_gap",
            "2026-03-29T04:00:00+02:00",
        ],
        id="the same hours written as a range are fixed",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 * * *"),
        BERLIN_AUTUMN,
        ["2026-10-25T02:30:00+02:00 dst_overlap", "2026-10-26T02:30:00+01:00"],
        id="a repeated time fires the first time",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 * * *", overlap="both"),
        BERLIN_AUTUMN,
        [
            "2026-10-25T02:30:00+02:00 dst_overlap",
            "2026-10-25T02:30:00+01:00 dst_overlap",
            "2026-10-26T02:30:00+01:00",
        ],
        id="or both times",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 25 10 *", overlap="both"),
        BERLIN_AUTUMN,
        [
            "2026-10-25T02:30:00+02:00 dst_overlap",
            "2026-10-25T02:30:00+01:00 dst_overlap",
            "2027-10-25T02:30:00+02:00",
        ],
        id="both times also if the next is a year away",
    ),
    pytest.param(
        cron("Europe/Berlin", "0 2,3 * * *"),
        BERLIN_AUTUMN,
        [
            "2026-10-25T02:00:00+02:00 dst_overlap",
            "2026-10-25T03:00:00+01:00",
            "2026-10-26T02:00:00+01:00",
        ],
        id="the end of the overlap is not in it",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 * * * *"),
        "2026-10-24T23:00:00Z",
        [
            "2026-10-25T01:30:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:30:00+01:00",
        ],
        id="a wildcard hour fires in both passes",
    ),
    pytest.param(
        cron("America/New_York", "30 2 * * *"),
        "2026-03-08T00:00:00Z",
        ["2026-03-08T03:00:00-04:00 dst_gap", "2026-03-09T02:30:00-04:00"],
        id="New York, spring",
    ),
    pytest.param(
        cron("America/New_York", "30 1 * * *", overlap="both"),
        "2026-11-01T00:00:00Z",
        [
            "2026-11-01T01:30:00-04:00 dst_overlap",
            "2026-11-01T01:30:00-05:00 dst_overlap",
            "2026-11-02T01:30:00-05:00",
        ],
        id="New York, autumn",
    ),
    pytest.param(
        cron("Australia/Lord_Howe", "15 2 * * *"),
        "2026-10-03T00:00:00Z",
        ["2026-10-04T02:30:00+11:00 dst_gap", "2026-10-05T02:15:00+11:00"],
        id="Lord Howe: a gap of half an hour",
    ),
    pytest.param(
        cron("Australia/Lord_Howe", "*/15 1 * * *"),
        "2026-04-04T13:00:00Z",
        [
            "2026-04-05T01:00:00+11:00",
            "2026-04-05T01:15:00+11:00",
            "2026-04-05T01:30:00+11:00 dst_overlap",
            "2026-04-05T01:45:00+11:00 dst_overlap",
            "2026-04-06T01:00:00+10:30",
        ],
        id="Lord Howe: half an hour twice",
    ),
    pytest.param(
        cron("Africa/Casablanca", "30 2 * * *"),
        "2026-02-14T12:00:00Z",
        ["2026-02-15T02:30:00+01:00 dst_overlap", "2026-02-16T02:30:00+00:00"],
        id="Casablanca: Ramadan begins",
    ),
    pytest.param(
        cron("Africa/Casablanca", "30 2 * * *"),
        "2026-03-21T12:00:00Z",
        ["2026-03-22T03:00:00+01:00 dst_gap", "2026-03-23T02:30:00+01:00"],
        id="Casablanca: Ramadan is over",
    ),
    pytest.param(
        cron("America/Sao_Paulo", "0 0 * * *"),
        "2018-11-03T12:00:00Z",
        ["2018-11-04T01:00:00-02:00 dst_gap", "2018-11-05T00:00:00-02:00"],
        id="Sao Paulo: a day without midnight",
    ),
    pytest.param(
        cron("America/Sao_Paulo", "30 * 17 2 *"),
        "2018-02-18T00:30:00Z",
        [
            "2018-02-17T22:30:00-02:00",
            "2018-02-17T23:30:00-02:00",
            "2018-02-17T23:30:00-03:00",
            "2019-02-17T00:30:00-03:00",
        ],
        id="Sao Paulo: the last hour of a day twice",
    ),
    pytest.param(
        cron("America/Sao_Paulo", "0 0 * * *"),
        "2018-02-17T12:00:00Z",
        ["2018-02-18T00:00:00-03:00", "2018-02-19T00:00:00-03:00"],
        id="Sao Paulo: midnight comes once all the same",
    ),
    pytest.param(
        cron("Asia/Kolkata", "30 2 * * *"),
        "2026-12-30T22:00:00Z",
        ["2027-01-01T02:30:00+05:30", "2027-01-02T02:30:00+05:30"],
        id="Kolkata: no daylight saving, across the year's end",
    ),
    pytest.param(
        cron("Pacific/Apia", "0 9 * * *"),
        "2011-12-29T12:00:00Z",
        [
            "2011-12-29T09:00:00-10:00",
            "2011-12-31T00:00:00+14:00 dst_gap",
            "2011-12-31T09:00:00+14:00",
        ],
        id="Apia: a day that never was",
    ),
    pytest.param(
        cron("Pacific/Apia", "0 9 30 12 *", gap="skip"),
        "2011-01-01T12:00:00Z",
        ["2012-12-30T09:00:00+14:00"],
        id="Apia: a birthday that never was",
    ),
    pytest.param(
        cron("UTC", "30 2 * * *"),
        "2026-03-29T00:00:00Z",
        ["2026-03-29T02:30:00+00:00", "2026-03-30T02:30:00+00:00"],
        id="UTC has no such nights",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 29 2 *"),
        "2026-01-01T00:00:00Z",
        ["2028-02-29T02:30:00+01:00", "2032-02-29T02:30:00+01:00"],
        id="leap days",
    ),
    pytest.param(
        cron("Europe/Berlin", "59 59 23 31 12 *", "0 0 0 1 1 *"),
        "2026-06-01T00:00:00Z",
        ["2026-12-31T23:59:59+01:00", "2027-01-01T00:00:00+01:00", "2027-12-31T23:59:59+01:00"],
        id="year ends",
    ),
    pytest.param(
        cron("Europe/Berlin", "30 2 * * *", max_fires=1),
        BERLIN_SPRING,
        ["2026-03-29T03:00:00+02:00 dst_gap"],
        id="max_fires limits a preview",
    ),
]


@pytest.mark.parametrize(("schedule", "start", "expected"), ROWS)
def test_fires(schedule: Schedule, start: str, expected: list[str]) -> None:
    assert shown(schedule, start, len(expected)) == expected
    if schedule.max_fires is not None:
        assert shown(schedule, start, 10) == expected


@pytest.mark.parametrize(("schedule", "start", "expected"), ROWS)
def test_backwards_it_is_the_same(schedule: Schedule, start: str, expected: list[str]) -> None:
    fires = fires_of(schedule)
    forward = fires.between(at(start), at(expected[-1].split()[0]) + 1)
    assert len(forward) == len(expected)
    assert fires.count_between(at(start), forward[-1].scheduled + 1) == len(forward)
    backward = []
    instant = forward[-1].scheduled
    for _ in forward:
        fire = fires.previous(instant)
        assert fire is not None
        backward.append(fire)
        instant = fire.scheduled - 1
    assert backward[::-1] == forward


def test_a_schedule_that_only_ever_falls_into_the_gap_has_no_next_fire() -> None:
    last_sunday_of_march = cron("Europe/Berlin", "30 2 * 3 L0", gap="skip")
    assert fires_of(last_sunday_of_march).after(at("2026-01-01T00:00:00Z")) is None
    before_summer_time = fires_of(last_sunday_of_march).previous(at("1979-01-01T00:00:00Z"))
    assert before_summer_time is not None
    assert before_summer_time.scheduled == at("1978-03-26T01:30:00Z")
