"""Which late fires are taken: one table, every policy."""

import pytest

from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.partition.due.catch_up import COUNT_LIMIT, LIMIT, SINGLY, decide_catch_up
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.policies import CatchUp, CatchUpPolicy
from waterclock.proto.spec import Schedule

START = 1_800_000_000 * SECOND
EVERY_MINUTE = compile_schedule(Schedule(schedule_type="INTERVAL", interval_seconds=60), "x")
EVERY_SECOND = compile_schedule(Schedule(schedule_type="INTERVAL", interval_seconds=1), "x")


def singly(first: int, last: int) -> list[tuple[int, int, int]]:
    return [(number, number, 1) for number in range(first, last + 1)]


def decide(
    policy: CatchUpPolicy, window: float, down: int, late: int = 0
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """The owner was away for `down` minutes and decides `late` seconds after the last fire."""
    now = START + down * MINUTE + late * SECOND
    decision = decide_catch_up(EVERY_MINUTE, START, now, CatchUp(policy=policy, window_seconds=window), now)
    minutes = [(at - START) // MINUTE for at in decision.taken]
    missed = [((m.first - START) // MINUTE, (m.last - START) // MINUTE, m.count) for m in decision.missed]
    return minutes, missed


@pytest.mark.parametrize(
    ("policy", "window", "down", "late", "taken", "missed"),
    [
        ("none", 3600, 1, 9, [1], []),
        ("none", 3600, 1, 11, [], singly(1, 1)),
        ("none", 3600, 5, 0, [5], singly(1, 4)),
        ("none", 3600, 5, 5, [], singly(1, 5)),
        ("latest", 3600, 5, 0, [5], singly(1, 4)),
        ("latest", 3600, 5, 30, [5], singly(1, 4)),
        ("latest", 20, 5, 30, [], singly(1, 5)),
        ("latest", 3600, 1, 30, [1], []),
        ("all", 3600, 5, 30, [1, 2, 3, 4, 5], []),
        ("all", 150, 5, 30, [3, 4, 5], singly(1, 2)),
        ("all", 10, 5, 30, [], singly(1, 5)),
    ],
)
def test_policies(
    policy: CatchUpPolicy,
    window: float,
    down: int,
    late: int,
    taken: list[int],
    missed: list[tuple[int, int, int]],
) -> None:
    assert decide(policy, window, down, late) == (taken, missed)


def test_few_missed_fires_have_an_entry_each_and_many_share_one() -> None:
    assert decide("latest", 3600, SINGLY + 1) == ([SINGLY + 1], singly(1, SINGLY))
    assert decide("latest", 3600, SINGLY + 2) == ([SINGLY + 2], [(1, SINGLY + 1, SINGLY + 1)])


def test_a_short_stall_drops_nothing_whatever_the_policy() -> None:
    now = START + 9 * SECOND
    for policy in ("none", "latest", "all"):
        decision = decide_catch_up(EVERY_SECOND, START, now, CatchUp(policy=policy), now)
        assert len(decision.taken) == 9
        assert decision.missed == ()


@pytest.mark.parametrize("policy", ["none", "latest", "all"])
def test_a_week_away_costs_a_bounded_number_of_events(policy: CatchUpPolicy) -> None:
    now = START + 7 * 86_400 * SECOND
    decision = decide_catch_up(EVERY_SECOND, START, now, CatchUp(policy=policy, window_seconds=1e9), now)
    assert len(decision.taken) <= LIMIT
    assert len(decision.missed) == 1
    (missed,) = decision.missed
    assert missed.first == START + SECOND
    assert missed.last < decision.taken[0]
    assert missed.count >= COUNT_LIMIT


def test_nothing_due_decides_nothing() -> None:
    decision = decide_catch_up(EVERY_MINUTE, START, START + 5 * SECOND, CatchUp(), START + 5 * SECOND)
    assert (decision.taken, decision.missed) == ((), ())
