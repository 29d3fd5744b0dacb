"""Who is dead: by the server's timestamps alone, and never because the server was away."""

import pytest

from waterclock.core.domain.instants import SECOND
from waterclock.scheduler.membership import Liveness

BEGIN = 1_000_000 * SECOND
BEAT = SECOND * 2 // 5


def at(seconds: float) -> int:
    return BEGIN + int(seconds * SECOND)


def together(
    liveness: Liveness, *, until: float, since: float = 0.0, others: tuple[str, ...] = ("b",)
) -> None:
    """Everybody beats, we the last."""
    moment = at(since)
    while moment <= at(until):
        for other in others:
            liveness.beat(other, moment - BEAT // 2, "running")
        liveness.beat("a", moment, "running")
        moment += BEAT


def alone(liveness: Liveness, *, since: float, until: float) -> None:
    together(liveness, since=since, until=until, others=())


def new_liveness() -> Liveness:
    return Liveness("a", dead_after=1.5)


@pytest.fixture
def a() -> Liveness:
    """Of a, who has lived beside b for four seconds."""
    liveness = new_liveness()
    together(liveness, until=4)
    return liveness


def test_who_beats_lives() -> None:
    a = new_liveness()
    together(a, until=10)
    assert not a.is_dead("b", at(0))
    assert a.running() == {"a", "b"}


def test_who_falls_silent_is_dead_after_a_while_of_ours(a: Liveness) -> None:
    alone(a, since=4.4, until=5.2)
    assert not a.is_dead("b", at(0))
    alone(a, since=5.6, until=5.6)
    assert a.is_dead("b", at(0))
    assert a.running() == {"a"}


def test_without_heartbeats_of_our_own_nobody_grows_older(a: Liveness) -> None:
    a.beat("c", at(60), "running")
    assert not a.is_dead("b", at(0)), "our own clock stands still"


def test_who_was_never_there_is_dead_from_the_first_moment() -> None:
    a = new_liveness()
    assert not a.has_begun
    assert not a.is_dead("b", at(-60)), "nothing is known before our first heartbeat is read"
    a.beat("a", at(0), "running")
    assert a.has_begun
    assert a.is_dead("b", at(-60))


def test_who_has_just_taken_a_lease_may_have_a_heartbeat_that_is_not_read_yet() -> None:
    a = new_liveness()
    a.beat("a", at(0), "running")
    assert not a.is_dead("b", at(0.1))
    a.beat("a", at(0.4), "running")
    assert a.is_dead("b", at(0.1))


def test_after_a_reconnect_nobody_is_judged_for_a_while(a: Liveness) -> None:
    a.reconnected()
    assert not a.is_dead("b", at(0))
    alone(a, since=4.4, until=6.0)
    assert not a.is_dead("b", at(0))
    alone(a, since=6.4, until=6.4)
    assert a.is_dead("b", at(0))


def test_a_gap_between_our_own_heartbeats_says_nothing_about_others(a: Liveness) -> None:
    """The server stood still for three seconds, and serves us before the others."""
    a.beat("a", at(7), "running")
    assert not a.is_dead("b", at(0))
    assert "b" in a.running()
    a.beat("b", at(7.01), "running")
    together(a, since=7.4, until=12)
    assert not a.is_dead("b", at(0))


def test_who_was_silent_before_and_through_a_gap_is_found_dead_after_it(a: Liveness) -> None:
    alone(a, since=7, until=7.8)
    assert not a.is_dead("b", at(0))
    alone(a, since=8.2, until=8.2)
    assert a.is_dead("b", at(0))


def test_who_leaves_takes_no_partitions_but_still_holds_its_leases(a: Liveness) -> None:
    a.beat("b", at(4.1), "leaving")
    a.beat("a", at(4.2), "running")
    assert a.running() == {"a"}
    assert not a.is_dead("b", at(0))
    a.left("b")
    assert a.is_dead("b", at(0))


def test_a_clock_set_back_makes_nobody_immortal(a: Liveness) -> None:
    alone(a, since=-3600, until=-3590)
    assert a.is_dead("b", at(0))


def test_the_dead_are_forgotten(a: Liveness) -> None:
    alone(a, since=4.4, until=120)
    assert a._members.keys() == {"a"}
    assert a.is_dead("b", at(0))
