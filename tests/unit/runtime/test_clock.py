"""Time that goes on when a machine's clock is set, and that follows the log's when the two differ."""

import pytest

from waterclock.core.domain.instants import HOUR, SECOND
from waterclock.core.runtime import clock
from waterclock.core.runtime.clock import TOLERATED, AdjustedClock

START = 1_800_000_000 * SECOND


class Machine:
    """A machine's two clocks."""

    def __init__(self) -> None:
        self.wall = START
        self.monotonic = 5 * SECOND

    def pass_time(self, microseconds: int) -> None:
        self.wall += microseconds
        self.monotonic += microseconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(clock, "_wall_ns", lambda: machine.wall * 1000)
    monkeypatch.setattr(clock, "_monotonic_ns", lambda: machine.monotonic * 1000)
    return machine


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_is_not_believed_until_the_log_was_asked(machine: Machine, step: int) -> None:
    clock = AdjustedClock()
    machine.wall += step
    machine.pass_time(SECOND)
    assert clock.now_us() == START + SECOND
    clock.adjust(START + SECOND, 0)
    machine.pass_time(SECOND)
    assert clock.now_us() == START + 2 * SECOND


def test_a_step_that_the_log_confirms_is_taken(machine: Machine) -> None:
    """The machine slept, or its clock was wrong before."""
    clock = AdjustedClock()
    machine.wall += HOUR
    clock.adjust(START + HOUR, 0)
    assert clock.now_us() == START + HOUR


def test_a_clock_that_was_wrong_from_the_beginning_is_corrected(machine: Machine) -> None:
    clock = AdjustedClock()
    clock.adjust(START - HOUR, 0)
    assert clock.now_us() == START - HOUR
    machine.pass_time(SECOND)
    assert clock.now_us() == START - HOUR + SECOND


def test_a_clock_that_is_right_again_is_gone_by_again(machine: Machine) -> None:
    clock = AdjustedClock()
    machine.wall += HOUR
    clock.adjust(START, 0)
    machine.wall -= HOUR
    clock.adjust(START, 0)
    machine.wall += SECOND // 10  # small corrections are followed
    assert clock.now_us() == START + SECOND // 10


def test_what_the_way_to_the_log_may_explain_is_put_up_with(machine: Machine) -> None:
    clock = AdjustedClock()
    clock.adjust(START + TOLERATED + 2 * SECOND, uncertainty=2 * SECOND)
    assert clock.now_us() == START


def test_drift_is_followed(machine: Machine) -> None:
    clock = AdjustedClock()
    for _ in range(100):
        machine.pass_time(SECOND)
        machine.wall += 20_000
        clock.adjust(machine.wall, 0)
    assert clock.now_us() == machine.wall
