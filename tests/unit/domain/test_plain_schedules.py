"""A schedule of which only an instant is said, or a cron and its zone, is worked out by a shorter way: to the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job import schedule as reading
from waterclock.core.domain.job.validate import Problems
from waterclock.core.domain.schedule.fires import compile, next_fire
from waterclock.proto.codec import encode
from waterclock.proto.spec import JobRequest, Schedule

NOW = 1_790_000_000 * SECOND
SAID: list[dict[str, Any]] = [
    *({field: text} for field in ("cron", "cron_expression") for text in ("0 3 * * *", " 5 4 1-7 * +MON ")),
    *(
        {"cron": text}
        for text in (
            "61 * * * *",
            "H H * * *",
            "@daily",
            "@every 5m",
            "0 3 31 2 *",
            "*",
            "5,? * ? * *",
            "? * * * *",
        )
    ),
    {"cron": "TZ=Europe/Paris 0 3 * * *"},
    {"cron": ["0 3 * * *"]},
    {"cron": "0 3 * * *", "cron_expression": "0 3 * * *"},
    *({"cron": "30 2 * * *", "timezone": place} for place in ("Europe/Paris", "UTC", "Nowhere", None)),
    {"cron": None},
    {"schedule_time": None},
    {"cron": "0 3 * * *", "max_fires": 2},
]
TIMES = (
    "2031-05-05T05:05:05.000001+05:30",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "9000-01-01T00:00:00Z",
)


def worked_out(said: dict[str, Any]) -> tuple[bytes, list[Any]]:
    problems = Problems()
    schedule = reading.schedule_of(JobRequest(**said), "a job", NOW, "IMMEDIATE", problems)
    return encode(schedule), problems._errors


def check(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    short = worked_out(said)
    with monkeypatch.context() as patch:
        patch.setattr(reading, "plain_schedule", lambda *_: None)
        assert short == worked_out(said)


@pytest.mark.parametrize("said", SAID, ids=str)
def test_the_short_way_leads_to_the_same(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    check(said, monkeypatch)


@pytest.mark.parametrize("time", [*TIMES, "2031-05-05T05:05:05"])
def test_of_an_instant_too(time: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check({"schedule_time": convert({"schedule_time": time}, JobRequest).schedule_time}, monkeypatch)


@given(st.datetimes(timezones=st.timezones()), st.integers(-SECOND, SECOND))
def test_the_next_fire_of_a_one_shot_is_that_of_its_schedule(time: Any, distance: int) -> None:
    problems = Problems()
    asked = JobRequest(schedule_time=time)
    schedule = reading.schedule_of(asked, "", NOW, "IMMEDIATE", problems)
    if problems:
        return
    assert schedule.schedule_time is not None
    after = round(schedule.schedule_time.timestamp()) * SECOND + distance
    fire = compile(schedule, "").after(after)
    assert next_fire(schedule, "", after) == (None if fire is None else fire.scheduled)


def test_what_was_compiled_last_is_not_taken_for_another() -> None:
    hashed, plain = (
        Schedule(schedule_type="CRON", cron_expression=(text,)) for text in ("H H * * *", "0 3 * * *")
    )
    for schedule, name in ((hashed, "a"), (hashed, "b"), (plain, "b"), (hashed, "b"), (hashed, "a")):
        fresh = Schedule(schedule_type="CRON", cron_expression=schedule.cron_expression)
        assert compile(schedule, name).after(NOW) == compile(fresh, name).after(NOW)
