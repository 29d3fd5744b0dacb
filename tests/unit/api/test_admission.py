"""What is accepted when more is offered than is done: by how much, from whom, and which jobs count."""

import json
from typing import Any

import pytest
from msgspec import Raw

from support.heartbeats import scheduler_heartbeat as heartbeat
from waterclock.api.admission.due_times import count_due_within, is_due_within
from waterclock.api.admission.shares import Shares
from waterclock.api.admission.throttle import RecentRate, Refusal, Throttle
from waterclock.api.errors import Saturated, Unavailable, refusal
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job.parse import define_body
from waterclock.core.domain.system_load import SystemLoad, system_load
from waterclock.proto.heartbeats import SchedulerLoad

NOON = 1_790_000_000_000_000
BEHIND = SystemLoad(to_drain=14_000, ended_per_second=1000.0)
"""14 s of work at 1,000 runs a second."""


def throttle(load: SystemLoad, apis: int = 1) -> Throttle:
    made = Throttle(spread=lambda: 1.0)
    made.heard(load, apis)
    return made


def accepted(
    by: Throttle, asked: dict[str, int], *, seconds: float, calls_per_second: int = 100
) -> dict[str, int]:
    """How many each namespace gets in, asking for so many jobs in each call."""
    found = dict.fromkeys(asked, 0)
    for step in range(int(seconds * calls_per_second)):
        for namespace, count in asked.items():
            if count and by.take(namespace, step / calls_per_second, soon=count) is None:
                found[namespace] += count
    return found


# -- how far behind -------------------------------------------------------------------------------------------


def test_the_schedulers_are_summed_up_and_not_averaged() -> None:
    load = system_load(
        [
            heartbeat(
                SchedulerLoad(to_drain=9_000, ended_per_second=500, behind_seconds=9, saturated_since=7),
                unread=4_000,
                backlog=5_000,
            ),
            heartbeat(
                SchedulerLoad(to_drain=1_000, ended_per_second=1_500, behind_seconds=2, saturated_since=5)
            ),
            heartbeat(None),
        ],
        now=0,
    )
    assert load == SystemLoad(
        to_drain=10_000,
        unread=4_000,
        backlog=5_000,
        ended_per_second=2_000,
        behind_seconds=9,
        saturated_since=5,
    )
    assert load.drain_seconds() == 5.0
    assert not load.saturated


def test_a_scheduler_that_died_does_not_count_with_what_it_said_last() -> None:
    load = SchedulerLoad(to_drain=60_000, ended_per_second=1_000)
    dead, alive = heartbeat(load), heartbeat(None, at=6 * SECOND)
    assert system_load([dead, alive], now=6 * SECOND) == SystemLoad()
    assert system_load([dead], now=6 * SECOND).to_drain == 60_000


def test_a_scheduler_whose_clock_is_ahead_does_not_make_the_others_old() -> None:
    load = SchedulerLoad(to_drain=60_000, ended_per_second=1_000)
    ahead = heartbeat(None, at=10**15)
    assert system_load([heartbeat(load), ahead], now=SECOND).to_drain == 60_000


def test_nobody_who_says_anything_means_on_time() -> None:
    assert not system_load([], now=0).saturated
    assert system_load([heartbeat(None)], now=0) == SystemLoad()


@pytest.mark.parametrize("ended", [0.0, 2.0])
def test_a_rate_that_was_measured_with_little_to_do_refuses_no_few_thousand(ended: float) -> None:
    assert not SystemLoad(to_drain=4_000, ended_per_second=ended).saturated
    assert SystemLoad(to_drain=60_000, ended_per_second=ended).saturated


# -- how much is accepted -------------------------------------------------------------------------------------


def test_on_time_everything_is_accepted() -> None:
    on_time = throttle(SystemLoad(to_drain=9_000, ended_per_second=1_000))
    assert on_time.take("a", 0.0, soon=900) is None


def test_what_was_accepted_here_counts_before_a_heartbeat_tells_of_it() -> None:
    filling = throttle(SystemLoad(to_drain=0, ended_per_second=6_000))
    assert accepted(filling, {"a": 100}, seconds=1, calls_per_second=1000)["a"] <= 60_100 + 12_000
    assert filling.slows("a")
    filling.heard(SystemLoad(ended_per_second=6_000))
    assert not filling.slows("a")
    filling.heard(SystemLoad(ended_per_second=6_000), since=60_001)
    assert filling.slows("a")


def test_a_system_that_was_never_tried_is_not_taken_for_slow_before_anybody_has_measured() -> None:
    untried = throttle(SystemLoad(ended_per_second=1_000))
    assert accepted(untried, {"a": 100}, seconds=1, calls_per_second=200)["a"] == 20_000


def test_above_the_limit_it_is_accepted_at_the_rate_of_what_is_done() -> None:
    got = accepted(throttle(BEHIND), {"a": 50}, seconds=10)["a"]
    assert 10_000 <= got <= 11_100  # and a second's worth at once


def test_several_apis_share_the_rate() -> None:
    got = accepted(throttle(BEHIND, apis=4), {"a": 10}, seconds=10)["a"]
    assert 2_500 <= got <= 2_800


def test_who_asks_for_little_is_never_refused_because_another_floods() -> None:
    by = throttle(BEHIND)
    flood, little, refused = 0, 0, 0
    for step in range(1_000):
        now = step / 100
        flood += 0 if by.take("flood", now, soon=500) else 500
        if step % 10 == 0:
            if by.take("little", now, soon=1):
                refused += 1
            little += 1
    assert (little, refused) == (100, 0)
    assert flood <= 500 * 10 + 1_000 + 500


def test_namespaces_that_all_flood_get_the_same() -> None:
    got = accepted(throttle(BEHIND), {"a": 10, "b": 10, "c": 10, "d": 10}, seconds=20)
    assert max(got.values()) - min(got.values()) <= 20
    assert sum(got.values()) <= 20_000 + 2_000


def test_a_namespace_that_has_stopped_asking_leaves_its_share_to_the_others() -> None:
    shares = Shares()
    shares.asks("gone", 0.0)
    shares.asks("here", 0.0)
    shares.take("here", 1_000, 1_000, 0.0)
    assert shares.wait("here", 1_000, 0.5) == pytest.approx((1 + 250) / 500)
    shares.asks("here", 11.0)
    shares.take("here", 1_000, 1_000, 11.0)
    assert shares.wait("here", 1_000, 11.0) == pytest.approx(1 / 1_000)


def test_many_jobs_in_one_call_are_taken_as_a_whole_and_paid_for_later() -> None:
    by = throttle(BEHIND)
    assert by.take("a", 0.0, soon=5_000) is None
    assert by.take("a", 1.0, soon=1) is not None
    assert by.take("a", 3.9, soon=1) is not None
    assert by.take("a", 4.1, soon=1) is None


def test_what_is_remembered_is_bounded() -> None:
    by = throttle(BEHIND)
    for number in range(12_000):
        by.take(f"n{number}", number / 10_000, soon=1)
    assert len(by._soon._asked) <= 10_000
    assert len(by._soon._buckets) <= 10_000


# -- jobs of the far future -----------------------------------------------------------------------------------


def test_jobs_of_the_far_future_are_refused_only_because_of_what_is_unread() -> None:
    by = throttle(SystemLoad(to_drain=20_000, backlog=20_000, ended_per_second=1_000))
    assert by.take("a", 0.0, soon=2_000) is None
    assert by.take("a", 0.0, soon=1) is not None
    assert by.take("a", 0.0, later=10_000) is None
    by.heard(SystemLoad(to_drain=80_000, unread=80_000, ended_per_second=1_000))
    assert by.take("a", 0.0, later=10_000) is None  # the first is for free
    refused = by.take("a", 0.0, later=1)
    assert refused is not None
    assert refused.reason == "unread"
    assert refused.jobs_per_second == 5_000


def test_of_a_call_with_both_kinds_nothing_is_taken_if_one_is_refused() -> None:
    by = throttle(SystemLoad(to_drain=80_000, unread=80_000, ended_per_second=1_000))
    by.take("a", 0.0, later=10_000)
    before = by.accepted_in_all
    assert by.take("a", 0.0, soon=1, later=1) is not None
    assert by.accepted_in_all == before
    assert by.take("a", 0.0, soon=1) is None


def test_before_the_body_only_what_no_body_could_change_is_refused() -> None:
    by = throttle(SystemLoad(to_drain=20_000, ended_per_second=1_000))
    by.take("a", 0.0, soon=2_000)
    assert by.asked("a", 0.0, only_soon=True) is not None
    assert by.asked("a", 0.0, only_soon=False) is None
    by.heard(SystemLoad(to_drain=80_000, unread=80_000, ended_per_second=1_000))
    by.take("a", 0.0, later=10_000)
    assert by.asked("a", 0.0, only_soon=False) is not None
    assert by.asked("b", 0.0, only_soon=False) is None


SAID: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"schedule": "now"}, True),
    ({"schedule_time": "2026-09-21T14:13:50Z"}, True),
    ({"schedule_time": "2020-01-01T00:00:00Z"}, True),
    ({"schedule_time": "2026-09-21T14:15:00Z"}, False),
    ({"schedule_time": "2026-09-21T16:15:00+02:00"}, False),
    ({"schedule": "2026-09-21T14:15:00Z"}, False),
    ({"delay": "5s"}, True),
    ({"delay": 3600}, False),
    ({"every": "1s"}, True),
    ({"every": "1h"}, False),
    ({"interval_seconds": 5}, True),
    ({"schedule": "every 2h"}, False),
    ({"cron": "* * * * * *"}, True),
    ({"cron": "0 3 * * *"}, False),
    ({"cron_expression": ["0 3 * * *", "* * * * * *"]}, True),
    ({"cron": "0 3 * * *", "timezone": "Europe/Paris"}, False),
    ({"schedule": "@yearly"}, False),
]


@pytest.mark.parametrize(("fields", "soon"), SAID)
def test_what_is_due_soon_is_seen_before_and_after_validation(fields: dict[str, Any], soon: bool) -> None:
    body = {"name": "x", "command": "true", "payload": {"deep": [1, 2]}, **fields}
    line = Raw(json.dumps(body).encode())
    assert count_due_within([line], NOON, 30.0) == int(soon)
    spec = define_body(json.dumps(body).encode(), NOON)
    assert is_due_within(spec, NOON, 30.0) is soon


def test_what_cannot_be_read_counts_as_due() -> None:
    lines = [
        b"{",
        b"[]",
        b'"x"',
        b'{"cron": "no"}',
        b'{"schedule_time": 1}',
        b'{"schedule_time": "x"}',
        b'{"every": []}',
        b'{"schedule_time": "2027-01-01T00:00:00"}',
    ]
    assert count_due_within([Raw(line) for line in lines], NOON, 30.0) == len(lines)


def test_a_job_that_waits_for_another_may_be_due_at_once_and_a_workflow_run_by_hand_is_not() -> None:
    waits = define_body(b'{"name": "x", "command": "true", "dependencies": ["y"]}', NOON)
    by_hand = define_body(b'{"name": "w", "nodes": [{"id": "a", "command": "true"}]}', NOON)
    assert is_due_within(waits, NOON, 30.0)
    assert not is_due_within(by_hand, NOON, 30.0)


# -- the refusal ----------------------------------------------------------------------------------------------


def refused_at(load: SystemLoad, spread: float = 1.0) -> Refusal:
    by = Throttle(spread=lambda: spread)
    by.heard(load)
    by.take("a", 0.0, soon=int(load.rate) + 1)
    found = by.take("a", 0.0, soon=1)
    assert found is not None
    return found


def test_the_time_to_try_again_grows_with_how_far_behind_the_system_is_and_is_spread() -> None:
    waits = [
        refused_at(SystemLoad(to_drain=seconds * 6_000, ended_per_second=6_000)).retry_after
        for seconds in (11, 14, 20, 40, 1_000)
    ]
    assert waits == sorted(waits)
    assert waits[0] >= 1
    assert waits[1:3] == [3, 4]
    assert waits[-1] == 10
    far = SystemLoad(to_drain=20 * 6_000, ended_per_second=6_000)
    assert refused_at(far, spread=1.5).retry_after > refused_at(far).retry_after


def test_a_namespace_with_too_much_waiting_for_executors_gets_no_more_in_and_holds_up_nobody_else() -> None:
    crowd = throttle(SystemLoad(crowded={"a": 250_000}))
    refused = crowd.take("a", 0.0, soon=1)
    assert refused is not None
    assert (refused.reason, refused.waiting) == ("crowded", 250_000)
    assert crowd.asked("a", 0.0, only_soon=True) is not None
    assert crowd.slows("a")
    assert crowd.take("a", 0.0, later=1) is None, "what is due much later does not wait with the others"
    assert crowd.take("b", 0.0, soon=1_000) is None
    assert not crowd.slows("b")
    again = refusal(Saturated.crowded(refused.waiting, refused.retry_after).problem)
    assert isinstance(again, Saturated)
    assert again.why == "250,000 runs of this namespace wait for executors: submitting as they are taken"


def test_nobody_is_told_to_wait_for_long_whatever_they_have_taken_in_advance() -> None:
    slow = throttle(SystemLoad(to_drain=100_000, ended_per_second=1.0))
    assert slow.take("a", 0.0, soon=10_000) is None
    refused = slow.asked("a", 0.1, only_soon=True)
    assert refused is not None
    assert 10 <= refused.retry_after <= 15


def test_a_refusal_says_how_much_there_is_to_do_and_how_fast_and_when_to_try_again() -> None:
    error = Saturated.behind(14.2, 6_200.0, 3)
    assert str(error) == "the system has 14 s of work to do and takes 6,200 jobs a second; try again in 3 s"
    assert (error.problem.status, error.problem.title) == (503, "Service Unavailable")
    again = refusal(error.problem)
    assert isinstance(again, Saturated)
    assert (again.problem.drain_seconds, again.problem.jobs_per_second, again.retry_after) == (
        14.2,
        6_200.0,
        3,
    )
    assert again.why == "waterclock has 14 s of work to do: submitting at its pace, 6,200/s"


def test_another_503_is_not_taken_for_saturation() -> None:
    away = refusal(Unavailable.because("the log cannot be reached", retry_after=1).problem)
    assert type(away) is Unavailable


def test_rates_are_of_the_last_seconds() -> None:
    rate = RecentRate()
    for second in range(20):
        rate.add(100, second + 0.1)
        rate.add(100, second + 0.9)
    assert rate.per_second(19.95) == 200
    assert rate.per_second(24.0) == 100
    assert rate.per_second(100.0) == 0


def held(by: Throttle, now: float = 0.0, *, soon: bool = True) -> float:
    """How long a call of a thousand would be held by itself."""
    seconds = by.hold(1_000, now, soon=soon)
    by.release(1_000)
    return seconds


def test_a_bulk_call_is_held_as_long_as_there_is_work_before_it() -> None:
    by = Throttle()
    assert held(by) == 0.0, "there is none"
    by.heard(SystemLoad(to_drain=5_000, unread=5_000, ended_per_second=1_000))
    assert 0.0 < held(by) < 0.6, "more is done than was shown yet"
    assert held(by, soon=False) == 0.0, "what is only put away takes less"
    by.heard(SystemLoad(to_drain=50_000, ended_per_second=20_000))
    assert 2.0 < held(by) < 2.5, "what is due and not decided is before it, too"
    assert held(by, soon=False) == 0.0, "but not before what is due later"
    by.heard(SystemLoad(to_drain=5_000, unread=5_000, ended_per_second=50_000))
    assert held(by) < 0.25
    by.heard(SystemLoad(to_drain=5_000_000))
    assert held(by) == 3.0, "whoever is held for longer believes that nobody is there"


def test_bulk_calls_are_let_in_as_fast_as_work_ends_on_a_slow_machine_too() -> None:
    by = Throttle()
    rate = []
    for beat in range(12):
        by.heard(SystemLoad(to_drain=6_000, unread=6_000, ended_per_second=4_000), now=beat / 2)
        rate.append(by.soon_rate)
    assert rate == sorted(rate, reverse=True)
    assert 8_000 < rate[0] < 12_000, "what ends in the first moments of a flood is not what can be done"
    assert rate[-1] == 4_000


def test_while_callers_are_held_and_nothing_waits_more_of_them_are_let_in() -> None:
    by = Throttle()
    for beat in range(12):
        by.heard(SystemLoad(to_drain=6_000, ended_per_second=4_000), now=beat / 2)
    by.heard(SystemLoad(to_drain=100, ended_per_second=9_000), now=6.0)
    assert by.soon_rate == 4_000, "nobody is held: nothing is known"
    by.hold(50_000, 6.0, soon=True)
    for beat in range(20):
        by.heard(SystemLoad(to_drain=100, ended_per_second=9_000), now=6.5 + beat / 2)
    assert by.soon_rate == 13_500, "not more than one and a half times what was seen"
    by.release(50_000)
    by.heard(SystemLoad(), now=700.0)
    assert by.soon_rate == 12_000, "forgotten"


def test_what_was_done_since_the_load_was_heard_of_is_not_waited_for() -> None:
    by = Throttle()
    by.heard(SystemLoad(to_drain=20_000, ended_per_second=20_000), now=10.0)
    assert held(by, 10.0) == pytest.approx(0.85)
    assert held(by, 10.5) == pytest.approx(0.35)
    assert by.take("default", 10.5, soon=10_000) is None
    assert held(by, 10.5) == pytest.approx(0.85), "what was accepted since is waited for"
    assert held(by, 12.0) == 0.0


def test_bulk_calls_are_taken_in_turn_at_the_rate_at_which_work_is_done() -> None:
    by = Throttle()
    by.heard(SystemLoad(ended_per_second=20_000))
    turns = [by.hold(1_000, 0.0, soon=True) for _ in range(20)]
    assert turns[:4] == [0.0] * 4, "a moment's worth of work is taken at once"
    assert turns[4:] == pytest.approx([number * 0.05 - 0.15 for number in range(4, 20)])
    for _ in turns:
        by.release(1_000)
    assert held(by) == 0.0
