"""Priorities that age: high ones first, and nobody waits for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.executor.intake.priority import effective_priority, in_pull_order


class Waiting(Struct, frozen=True):
    name: str
    priority: int
    oldest_due: int | None = None
    tiers_below: int = 0
    last_served: float = 0.0


def order(*bands: Waiting, now: int = 0) -> list[str]:
    return [band.name for band in in_pull_order(bands, now)]


def test_the_higher_priority_goes_first() -> None:
    assert order(Waiting("low", 0), Waiting("high", 90), Waiting("middle", 50)) == ["high", "middle", "low"]


def test_equals_take_turns() -> None:
    assert order(
        Waiting("just served", 10, last_served=5.0), Waiting("not for long", 10, last_served=1.0)
    ) == [
        "not for long",
        "just served",
    ]


def test_ten_points_for_five_minutes() -> None:
    band = Waiting("overdue", 20, oldest_due=0)
    assert effective_priority(band, 0) == 20
    assert effective_priority(band, 5 * MINUTE) == pytest.approx(30)
    assert effective_priority(band, 50 * MINUTE) == pytest.approx(120)


def test_work_that_is_not_yet_due_gains_nothing() -> None:
    assert effective_priority(Waiting("early", 20, oldest_due=MINUTE), 0) == 20


def test_the_own_tier_goes_first_unless_the_lower_one_has_waited_long() -> None:
    own = Waiting("own", 0, oldest_due=60 * MINUTE)
    lower = Waiting("lower", 90, oldest_due=0, tiers_below=1)
    assert order(own, Waiting("lower", 90, tiers_below=1)) == ["own", "lower"]
    assert order(own, lower, now=60 * MINUTE) == ["lower", "own"]


def test_a_low_run_starts_under_a_constant_stream_of_high_ones() -> None:
    """A virtual clock: every second one run may start and another of priority 100 becomes due."""
    low_due, now = 0, 0
    high: list[int] = []
    while True:
        now += 1_000_000
        high.append(now)
        first = in_pull_order(
            [Waiting("high", 100, oldest_due=high[0]), Waiting("low", 0, oldest_due=low_due)], now
        )[0]
        if first.name == "low":
            break
        high.pop(0)
    assert 49 * MINUTE < now < 51 * MINUTE, "the bound that the documentation publishes"


@given(
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 600),
    st.integers(0, 600),
)
def test_among_equally_old_ones_priority_decides(low: int, extra: int, age: int, older: int) -> None:
    now = 1_000 * MINUTE
    due = now - age * MINUTE
    first = in_pull_order([Waiting("a", low, due), Waiting("b", low + extra + 1, due - older * MINUTE)], now)[
        0
    ]
    assert first.name == "b"
