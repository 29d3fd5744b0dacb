"""What an expression means, and which ones are refused."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import process_time

import pytest
from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from waterclock.core.domain.schedule.cron_expression import NICKNAMES, check, parse, unwrap
from waterclock.core.domain.schedule.fire import InvalidSchedule

EPOCH = datetime(1970, 1, 1)


def wall(text: str) -> int:
    return round((datetime.fromisoformat(text) - EPOCH).total_seconds())


def matches(expression: str, start: str, n: int, name: str = "job") -> list[str]:
    cron, at, found = parse(expression, name), wall(start), list[str]()
    while len(found) < n:
        match = cron.next(at)
        assert match is not None
        found.append(f"{EPOCH + timedelta(seconds=match):%Y-%m-%d %H:%M:%S %a}")
        at = match + 1
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 * * * *", ["2026-01-01 00:00:00 Thu", "2026-01-01 00:20:00 Thu"]),
        ("5/25 1 * * *", ["2026-01-01 01:05:00 Thu", "2026-01-01 01:30:00 Thu", "2026-01-01 01:55:00 Thu"]),
        ("30 */10 * * * *", ["2026-01-01 00:00:30 Thu", "2026-01-01 00:10:30 Thu"]),
        ("*/30 0 0 * * *", ["2026-01-01 00:00:00 Thu", "2026-01-01 00:00:30 Thu", "2026-01-02 00:00:00 Fri"]),
        (
            "0 9 * * MON-FRI",
            ["2026-01-01 09:00:00 Thu", "2026-01-02 09:00:00 Fri", "2026-01-05 09:00:00 Mon"],
        ),
        ("0 9 * JAN,mar 1", ["2026-01-05 09:00:00 Mon"]),
        ("0 0 * * 0", ["2026-01-04 00:00:00 Sun"]),
        ("0 0 * * 7", ["2026-01-04 00:00:00 Sun"]),
        ("0 0 0 * * 7", ["2026-01-04 00:00:00 Sun"]),
        ("0 0 * * 5-7", ["2026-01-02 00:00:00 Fri", "2026-01-03 00:00:00 Sat", "2026-01-04 00:00:00 Sun"]),
        (
            "0 0 0 * * FRI-SUN",
            ["2026-01-02 00:00:00 Fri", "2026-01-03 00:00:00 Sat", "2026-01-04 00:00:00 Sun"],
        ),
        (
            "0 0 * * SAT-MON",
            ["2026-01-03 00:00:00 Sat", "2026-01-04 00:00:00 Sun", "2026-01-05 00:00:00 Mon"],
        ),
        ("0 0 * * 0-7", ["2026-01-01 00:00:00 Thu", "2026-01-02 00:00:00 Fri"]),
        ("0 22-2 * * *", ["2026-01-01 00:00:00 Thu", "2026-01-01 01:00:00 Thu", "2026-01-01 02:00:00 Thu"]),
        ("0 0 L * *", ["2026-01-31 00:00:00 Sat", "2026-02-28 00:00:00 Sat", "2026-03-31 00:00:00 Tue"]),
        ("0 0 l 2 *", ["2026-02-28 00:00:00 Sat", "2027-02-28 00:00:00 Sun", "2028-02-29 00:00:00 Tue"]),
        ("0 0 15,L * *", ["2026-01-15 00:00:00 Thu", "2026-01-31 00:00:00 Sat", "2026-02-15 00:00:00 Sun"]),
        ("0 0 30-L * *", ["2026-01-30 00:00:00 Fri", "2026-01-31 00:00:00 Sat", "2026-03-30 00:00:00 Mon"]),
        ("0 0 * * MON#2", ["2026-01-12 00:00:00 Mon", "2026-02-09 00:00:00 Mon"]),
        ("0 0 * * 7#1", ["2026-01-04 00:00:00 Sun", "2026-02-01 00:00:00 Sun"]),
        ("0 0 * * 4#5", ["2026-01-29 00:00:00 Thu", "2026-04-30 00:00:00 Thu"]),
        (
            "0 0 * * MON#1,MON#3",
            ["2026-01-05 00:00:00 Mon", "2026-01-19 00:00:00 Mon", "2026-02-02 00:00:00 Mon"],
        ),
        (
            "0 0 * * MON#2,FRI",
            ["2026-01-02 00:00:00 Fri", "2026-01-09 00:00:00 Fri", "2026-01-12 00:00:00 Mon"],
        ),
        ("0 0 * * L5", ["2026-01-30 00:00:00 Fri", "2026-02-27 00:00:00 Fri"]),
        ("0 0 * * 5L", ["2026-01-30 00:00:00 Fri", "2026-02-27 00:00:00 Fri"]),
        ("0 0 * * friL", ["2026-01-30 00:00:00 Fri", "2026-02-27 00:00:00 Fri"]),
        ("0 0 13 * 5", ["2026-01-02 00:00:00 Fri", "2026-01-09 00:00:00 Fri", "2026-01-13 00:00:00 Tue"]),
        ("0 0 13 * +FRI", ["2026-02-13 00:00:00 Fri", "2026-03-13 00:00:00 Fri", "2026-11-13 00:00:00 Fri"]),
        ("0 0 */2 * +MON", ["2026-01-05 00:00:00 Mon", "2026-01-19 00:00:00 Mon", "2026-02-09 00:00:00 Mon"]),
        ("0 0 * * +MON", ["2026-01-05 00:00:00 Mon", "2026-01-12 00:00:00 Mon"]),
        ("0 0 15W * *", ["2026-01-15 00:00:00 Thu", "2026-02-16 00:00:00 Mon", "2026-03-16 00:00:00 Mon"]),
        ("0 0 1W * *", ["2026-01-01 00:00:00 Thu", "2026-02-02 00:00:00 Mon", "2026-03-02 00:00:00 Mon"]),
        ("0 0 1W 8 *", ["2026-08-03 00:00:00 Mon", "2027-08-02 00:00:00 Mon"]),
        ("0 0 31W * *", ["2026-01-30 00:00:00 Fri", "2026-03-31 00:00:00 Tue", "2026-05-29 00:00:00 Fri"]),
        ("0 0 LW * *", ["2026-01-30 00:00:00 Fri", "2026-02-27 00:00:00 Fri", "2026-03-31 00:00:00 Tue"]),
        ("0 0 1W,LW 2 *", ["2026-02-02 00:00:00 Mon", "2026-02-27 00:00:00 Fri"]),
        ("0 0 13 * MON#1", ["2026-01-05 00:00:00 Mon", "2026-01-13 00:00:00 Tue", "2026-02-02 00:00:00 Mon"]),
        ("0 0 */10 * MON", ["2026-01-01 00:00:00 Thu", "2026-01-05 00:00:00 Mon", "2026-01-11 00:00:00 Sun"]),
        ("0 0 */1 * MON", ["2026-01-05 00:00:00 Mon", "2026-01-12 00:00:00 Mon"]),
        ("0 0 ? * MON", ["2026-01-05 00:00:00 Mon", "2026-01-12 00:00:00 Mon"]),
        ("0 0 10 * ?", ["2026-01-10 00:00:00 Sat", "2026-02-10 00:00:00 Tue"]),
        ("0 9-9 * * *", ["2026-01-01 09:00:00 Thu", "2026-01-02 09:00:00 Fri"]),
        ("0 23/2 * * *", ["2026-01-01 23:00:00 Thu", "2026-01-02 23:00:00 Fri"]),
        ("0 0 1 DEC/2 *", ["2026-12-01 00:00:00 Tue", "2027-12-01 00:00:00 Wed"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00 Tue", "2032-02-29 00:00:00 Sun"]),
        ("0 0 * 2 MON#5", ["2044-02-29 00:00:00 Mon", "2072-02-29 00:00:00 Mon", "2112-02-29 00:00:00 Mon"]),
        ("0 0 31 * *", ["2026-01-31 00:00:00 Sat", "2026-03-31 00:00:00 Tue"]),
        ("  0   0\t1 1 *  ", ["2026-01-01 00:00:00 Thu"]),
        ("@hourly", ["2026-01-01 00:00:00 Thu", "2026-01-01 01:00:00 Thu"]),
        ("@Daily", ["2026-01-01 00:00:00 Thu", "2026-01-02 00:00:00 Fri"]),
        ("@midnight", ["2026-01-01 00:00:00 Thu", "2026-01-02 00:00:00 Fri"]),
        ("@weekly", ["2026-01-04 00:00:00 Sun"]),
        ("@monthly", ["2026-01-01 00:00:00 Thu", "2026-02-01 00:00:00 Sun"]),
        ("@yearly", ["2026-01-01 00:00:00 Thu", "2027-01-01 00:00:00 Fri"]),
        ("@annually", ["2026-01-01 00:00:00 Thu", "2027-01-01 00:00:00 Fri"]),
    ],
)
def test_meaning(expression: str, expected: list[str]) -> None:
    assert matches(expression, "2026-01-01 00:00:00", len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "has 0 fields; expected 5"),
        ("* * * *", "has 4 fields; expected 5"),
        ("0 0 0 1 1 * 2026", "has 7 fields"),
        ("60 * * * *", "'60' is not a valid minute (0-59"),
        ("* 24 * * *", "'24' is not a valid hour"),
        ("* * 0 * *", "'0' is not a valid day (1-31"),
        ("* * 32 * *", "'32' is not a valid day"),
        ("* * * 13 *", "'13' is not a valid month"),
        ("* * * 0 *", "'0' is not a valid month"),
        ("* * * * 8", "'8' is not a valid weekday"),
        ("60 * * * * *", "'60' is not a valid second"),
        ("*/0 * * * *", "'*/0' is not a valid minute"),
        ("1-70 * * * *", "'1-70' is not a valid minute"),
        ("1-99999999999 * * * *", "is not a valid minute"),
        ("-1 * * * *", "'-1' is not a valid minute"),
        ("1- * * * *", "'1-' is not a valid minute"),
        ("1,,2 * * * *", "'' is not a valid minute"),
        ("a * * * *", "'a' is not a valid minute"),
        ("mon * * * *", "'mon' is not a valid minute"),
        ("* * * * jan", "'jan' is not a valid weekday"),
        ("* * * * MON#6", "'mon#6' is not a valid weekday"),
        ("* * * * xyz#1", "'xyz#1' is not a valid weekday"),
        ("* * * * L", "'l' is not a valid weekday"),
        ("l * * * *", "'l' is not a valid minute"),
        ("* * 0W * *", "'0w' is not a valid day"),
        ("* * 32W * *", "'32w' is not a valid day"),
        ("* * 1-5W * *", "'1-5w' is not a valid day"),
        ("* * * * 5W", "'5w' is not a valid weekday"),
        ("0 0 31W 2 *", "can never fire"),
        ("* * +1 * *", "'+1' is not a valid day"),
        ("* * * * +", "'' is not a valid weekday"),
        ("? * * * *", "'?' is not a valid minute"),
        ("r * * * *", "'r' is not a valid minute"),
        ("r/15 * * * *", "'r/15' is not a valid minute"),
        ("h(0-99) * * * *", "'h(0-99)' is not a valid minute"),
        ("h(9-5) * * * *", "'h(9-5)' is not a valid minute"),
        ("h/0 * * * *", "'h/0' is not a valid minute"),
        ("٣ * * * *", "is not a valid minute"),
        ("* * * * *; rm -rf /", "fields"),
        ("@fortnightly", "is not one of @hourly"),
        ("@reboot", "is not one of @hourly"),
        ("0 0 31 2 *", "can never fire"),
        ("0 0 30 2 *", "can never fire"),
        ("0 0 31 4,6,9,11 *", "can never fire"),
        ("0 0 0 30 FEB *", "can never fire"),
        (",".join(["1"] * 200) + " * * * *", "longer than 256"),
        ("9" * 200 + " * * * *", "is not a valid minute"),
        ("1-" + "9" * 200 + " * * * *", "is not a valid minute"),
    ],
)
def test_refusals_are_quick_and_say_what_is_wrong(expression: str, reason: str) -> None:
    took = []
    for _ in range(3):
        started = process_time()
        with pytest.raises(InvalidSchedule) as refused:
            parse(expression, "job")
        took.append(process_time() - started)
    assert reason in refused.value.reason
    assert refused.value.field == "cron_expression"
    assert min(took) < 0.01


@settings(max_examples=300)
@given(
    st.text(max_size=40)
    | st.lists(st.text("0123456789*/,lLhH#?-()monfriw", min_size=1, max_size=5), min_size=5, max_size=6).map(
        " ".join
    )
)
def test_any_text_is_a_cron_or_refused(text: str) -> None:
    try:
        cron = parse(text, "job")
    except InvalidSchedule:
        return
    match = cron.next(wall("2026-01-01 00:00:00"))
    assert match is not None
    assert cron.previous(match) == match


@st.composite
def plain_expressions(draw: st.DrawFn) -> str:
    def field(low: int, high: int) -> st.SearchStrategy[str]:
        number = st.integers(low, high)
        spread = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1])
        element = st.one_of(
            number.map(str),
            spread.map(lambda pair: f"{pair[0]}-{pair[1]}"),
            st.tuples(spread, st.integers(1, 20)).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
            st.integers(2, 20).map(lambda step: f"*/{step}"),
        )
        return st.one_of(st.just("*"), st.lists(element, min_size=1, max_size=3).map(",".join))

    return " ".join(draw(field(*bounds)) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6)))


@settings(max_examples=100)
@given(plain_expressions(), st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)))
def test_it_means_what_croniter_says_on_a_clock_without_changes(expression: str, start: datetime) -> None:
    cron, at = parse(expression, "job"), wall(start.replace(microsecond=0).isoformat())
    # croniter takes a list of all weekdays now for a restriction, now for a star; cron goes by what is written.
    assume(cron.days.weekdays.bit_count() < 7 or expression.endswith(" *"))
    theirs = croniter(expression, start.replace(tzinfo=UTC))
    for _ in range(3):
        match = cron.next(at + 1)
        assert match is not None
        assert EPOCH + timedelta(seconds=match) == theirs.get_next(datetime).replace(tzinfo=None)
        at = match


def test_nicknames_mean_the_plain_time_whatever_the_name() -> None:
    for nickname, expression in NICKNAMES.items():
        assert parse(nickname, "one") == parse(expression, "another")


def test_a_hash_spreads_jobs_and_stays_with_the_name() -> None:
    expression = "H H(0-7) H * *"
    assert parse(expression, "backup") == parse(expression.lower(), "backup")
    minutes = {parse("H * * * *", f"job-{n}").minutes for n in range(2_000)}
    assert len(minutes) == 60
    for n in range(200):
        cron = parse(expression, f"job-{n}")
        assert cron.hours < 1 << 8
        assert cron.days.month_days < 1 << 29
        assert (cron.minutes.bit_count(), cron.hours.bit_count(), cron.days.month_days.bit_count()) == (
            1,
            1,
            1,
        )


@pytest.mark.parametrize(
    ("expression", "count"), [("H/15 * * * *", 4), ("H(0-29)/10 * * * *", 3), ("H/7 * * * *", 9)]
)
def test_a_hashed_step_keeps_its_rhythm(expression: str, count: int) -> None:
    for n in range(50):
        minutes = parse(expression, f"job-{n}").minutes
        values = [value for value in range(60) if minutes >> value & 1]
        assert abs(len(values) - count) <= (60 % len(values) != 0)
        assert len({later - earlier for earlier, later in pairwise(values)}) == 1


def test_a_name_only_matters_where_there_is_a_hash() -> None:
    assert parse("0 0 * * THU", "one") == parse("0 0 * * THU", "another")
    assert parse("H H * * *", "one") != parse("H H * * *", "another")


def test_a_question_mark_stands_alone_in_what_is_new_and_is_read_where_it_is_stored() -> None:
    for expression in ("0 0 ?,* * 1", "0 0 1,? * *"):
        parse(expression, "job")
        with pytest.raises(InvalidSchedule, match="stands alone"):
            check(expression, "job")
    check("0 0 ? * 1", "job")


@pytest.mark.parametrize(
    ("text", "cron", "zone", "every"),
    [
        ("CRON_TZ=Europe/Paris 0 3 * * *", "0 3 * * *", "Europe/Paris", None),
        (" TZ=Asia/Tokyo\t@daily", "@daily", "Asia/Tokyo", None),
        ("@Every 1h30m", "@Every 1h30m", None, "1h30m"),
        ("CRON_TZ=UTC @every 5m", "@every 5m", "UTC", "5m"),
        ("0 3 * * *", "0 3 * * *", None, None),
        ("@everyday", "@everyday", None, None),
    ],
)
def test_what_surrounds_a_cron(text: str, cron: str, zone: str | None, every: str | None) -> None:
    found = unwrap(text)
    assert (found.cron, found.zone, found.every) == (cron, zone, every)
