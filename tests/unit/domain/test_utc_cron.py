"""The next fire of a cron in UTC is the same whether it is compiled or not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.schedule import utc_cron
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.core.domain.schedule.fires import compile, next_fire
from waterclock.proto.spec import Schedule

NOW = 1_790_000_000 * SECOND
YEAR_9000 = 221_845_392_000 * SECOND


def field(low: int, high: int, *others: str) -> st.SearchStrategy[str]:
    """Values of a field, and now and then what is none."""
    value = st.integers(low, high)
    element = st.one_of(
        value.map(str),
        value.map(str),
        st.tuples(value, value).map(lambda ends: f"{min(ends)}-{max(ends)}"),
        st.integers(1, 30).map(lambda step: f"*/{step}"),
        st.sampled_from(["*", "*", "*", *others]),
    )
    return st.one_of(element, element, element, st.lists(element, min_size=2, max_size=3).map(",".join))


MINUTE, HOUR = field(0, 59, "60", "H", "h/5", "?", ""), field(0, 23, "24", "H(0-7)", "x")
DAY = field(1, 31, "L", "l", "15W", "LW", "?", "32")
MONTH = field(1, 12, "jan", "DEC", "jan-mar", "13")
WEEKDAY = field(0, 7, "MON", "thu", "fri#2", "L5", "+MON", "?", "8")
PLAIN = st.tuples(MINUTE, HOUR, DAY, MONTH, WEEKDAY).map(" ".join)
ODD = st.one_of(
    st.tuples(field(0, 59), PLAIN).map(" ".join),
    PLAIN.map(lambda text: text.replace(" ", "  ", 1)),
    PLAIN.map(lambda text: text.replace(" ", "\t", 1)),
    PLAIN.map(lambda text: f" {text} "),
    st.sampled_from(["", "*", "* *", "@daily", "@every 5m", "TZ=UTC 0 3 * * *", "0 3 * *", "{} 3 * * *"]),
    st.tuples(st.sampled_from(["1," * 60 + "1", "1," * 130 + "1"]), HOUR).map(
        lambda parts: f"{' '.join(parts)} * * *"
    ),
)
INSTANTS = st.one_of(
    st.integers(NOW, NOW + 500 * 86_400 * SECOND),
    st.integers(0, 30_000).map(lambda day: day * 86_400 * SECOND - 1),
    st.integers(0, 30_000).map(lambda day: day * 86_400 * SECOND),
    st.integers(-(10**17), YEAR_9000),
)


def compiled(text: str, after: int) -> int | str | None:
    try:
        fire = compile(Schedule(schedule_type="CRON", cron_expression=(text,)), "a name").after(after)
    except InvalidSchedule as error:
        return str(error)
    return None if fire is None else fire.scheduled


def by_schedule(text: str, after: int) -> int | str | None:
    try:
        return next_fire(Schedule(schedule_type="CRON", cron_expression=(text,)), "a name", after)
    except InvalidSchedule as error:
        return str(error)


@given(PLAIN | ODD, INSTANTS)
@example("0 0 29 2 *", NOW)
@example("0 0 30 2 *", NOW)
@example("59 23 31 12 *", 253_370_764_799 * SECOND)
def test_what_is_known_is_what_compiling_gives(text: str, after: int) -> None:
    wanted = compiled(text, after)
    assert by_schedule(text, after) == wanted
    assert utc_cron.next_fire(text, after) in (None, wanted)


@pytest.mark.parametrize(
    "text", ["7 3 12 5 *", "*/5 * * * *", "0 9-17 * * MON-FRI", "0 0 L * *", "30 6 1-7 * +sat"]
)
def test_plain_crons_are_known(text: str) -> None:
    assert utc_cron.next_fire(text, NOW) == compiled(text, NOW) is not None


def test_a_fire_at_the_instant_itself_is_over() -> None:
    noon = 1_790_000_000 // 86_400 * 86_400 * SECOND + 43_200 * SECOND
    assert utc_cron.next_fire("0 12 * * *", noon - 1) == noon
    assert utc_cron.next_fire("0 12 * * *", noon) == noon + 86_400 * SECOND


@pytest.mark.parametrize(
    "text", ["0 3 * * ?", "H 3 * * *", "0 3 * * thu", "0 0 3 * * *", "@daily", "0 3 30 2 *", "61 3 * * *"]
)
def test_what_is_not_plain_is_left_to_whoever_compiles_it(text: str) -> None:
    assert utc_cron.next_fire(text, NOW) is None
