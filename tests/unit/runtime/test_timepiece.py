"""Time that goes on when a machine's clock is set, and that follows the log's when the two differ."""

import pytest

from waterclock.core.domain.instants import HOUR, SECOND
from waterclock.core.runtime import clock
from waterclock.core.runtime.clock import TOLERATED, Timepiece

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
    monkeypatch.setattr(clock, "_wall", lambda: machine.wall)
    monkeypatch.setattr(clock, "_monotonic", lambda: machine.monotonic)
    return machine


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_is_not_believed_until_the_log_was_asked(machine: Machine, step: int) -> None:
    timepiece = Timepiece()
    machine.wall += step
    machine.pass_time(SECOND)
    assert timepiece.now_us() == START + SECOND
    timepiece.agree(START + SECOND, 0)
    machine.pass_time(SECOND)
    assert timepiece.now_us() == START + 2 * SECOND


def test_a_step_that_the_log_confirms_is_taken(machine: Machine) -> None:
    """The machine slept, or its clock was wrong before."""
    timepiece = Timepiece()
    machine.wall += HOUR
    timepiece.agree(START + HOUR, 0)
    assert timepiece.now_us() == START + HOUR


def test_a_clock_that_was_wrong_from_the_beginning_is_corrected(machine: Machine) -> None:
    timepiece = Timepiece()
    timepiece.agree(START - HOUR, 0)
    assert timepiece.now_us() == START - HOUR
    machine.pass_time(SECOND)
    assert timepiece.now_us() == START - HOUR + SECOND


def test_a_clock_that_is_right_again_is_gone_by_again(machine: Machine) -> None:
    timepiece = Timepiece()
    machine.wall += HOUR
    timepiece.agree(START, 0)
    machine.wall -= HOUR
    timepiece.agree(START, 0)
    machine.wall += SECOND // 10  # small corrections are followed
    assert timepiece.now_us() == START + SECOND // 10


def test_what_the_way_to_the_log_may_explain_is_put_up_with(machine: Machine) -> None:
    timepiece = Timepiece()
    timepiece.agree(START + TOLERATED + 2 * SECOND, uncertain=2 * SECOND)
    assert timepiece.now_us() == START


def test_drift_is_followed(machine: Machine) -> None:
    timepiece = Timepiece()
    for _ in range(100):
        machine.pass_time(SECOND)
        machine.wall += 20_000
        timepiece.agree(machine.wall, 0)
    assert timepiece.now_us() == machine.wall
