"""How far behind: what counts as to be drained, and since when it is too much."""

from typing import Any

import pytest

from unit.domain.test_backlog import armed, backlog_of
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.room import route_of
from waterclock.core.domain.partition.state import Run
from waterclock.core.jetstream.work_queue import runs_in
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.scheduler.credit import Credit, Route
from waterclock.scheduler.load import (
    LoadMeter,
    PartitionLoad,
    due_by_queue,
    packed_by_queue,
    unserved_by_queue,
)

NOW = 1_790_000_000 * SECOND
FAST = Route(seconds=0.001, slots=16, rate=1_000.0, best=2_000.0)
SLOW = Route(seconds=60.0, slots=16, rate=1.0, best=2.0)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def now_us(self) -> int:
        return self.now


def waiting(count: int, route: str, *, due: int = NOW - SECOND) -> Backlog:
    return backlog_of(*(armed(f"{route}{number}", due, route=route) for number in range(count)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def credit() -> Credit:
    credit = Credit(1, clock=lambda: 0.0)
    credit.routes |= {"fast": FAST, "slow": SLOW}
    return credit


@pytest.fixture
def meter(credit: Credit, clock: Clock) -> LoadMeter:
    return LoadMeter(credit, clock)


def test_what_waits_for_the_system_and_what_is_unread_is_to_be_drained(meter: LoadMeter) -> None:
    load = meter.measure([PartitionLoad(waiting(5, "fast"), unread=7), PartitionLoad(waiting(2, "fast"), 0)])
    assert (load.to_drain, load.behind_seconds) == (14, 1.0)
    assert load.ended_per_second == 1_001.0, "what ends while it is behind"


def test_what_waits_for_the_slots_of_slow_work_is_a_queue_and_no_lack(meter: LoadMeter) -> None:
    load = meter.measure([PartitionLoad(waiting(50, "slow", due=NOW - 60 * SECOND), unread=0)])
    assert (load.to_drain, load.behind_seconds) == (0, 0.0)
    assert load.ended_per_second == 2_002.0, "what it could do at last"


def test_a_route_that_nobody_has_used_yet_counts_if_somebody_serves_it(
    credit: Credit, meter: LoadMeter
) -> None:
    new = route_of("default", "new", "light")
    assert meter.measure([PartitionLoad(waiting(3, new), unread=0)]).to_drain == 0, "it waits for executors"
    credit.set_slots([ExecutorHeartbeat(queues=["default"], handlers=["new"], tier="light", slots=1)])
    assert meter.measure([PartitionLoad(waiting(3, new), unread=0)]).to_drain == 3


def test_whoever_has_more_than_a_part_of_too_much_that_waits_for_slow_work_gets_no_more_in(
    meter: LoadMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.scheduler.load._MOST_WAITING", 10)
    few = backlog_of(*(armed(f"b{number}", NOW, route="slow", namespace="b") for number in range(5)))
    assert meter.measure([PartitionLoad(waiting(5, "slow"), 0), PartitionLoad(few, 0)]).crowded == {}
    load = meter.measure([PartitionLoad(waiting(6, "slow"), 0), PartitionLoad(few, 0)])
    assert (load.to_drain, load.crowded) == (0, {"default": 6})
    assert meter.measure([PartitionLoad(waiting(11, "fast"), 0)]).crowded == {}, (
        "that is for the system to do"
    )


def test_it_is_saturated_from_the_limit_on_until_half_of_it(meter: LoadMeter, clock: Clock) -> None:
    def measure(count: int) -> int | None:
        clock.now += SECOND
        return meter.measure([PartitionLoad(waiting(count, "fast"), unread=0)]).saturated_since

    assert measure(10_000) is None, "9.9 s at 1,001 a second"
    since = measure(11_000)
    assert since == clock.now
    assert measure(50_000) == since
    assert measure(6_000) == since, "6 s: not yet relieved"
    assert measure(4_000) is None
    assert measure(6_000) is None, "and not saturated again below the limit"


def test_what_waits_is_told_by_the_queue_that_it_has_no_room_in() -> None:
    urgent = backlog_of(armed("now", route="mail=send/light", priority=60), armed("whole", route="~parts"))
    found = due_by_queue(
        [
            PartitionLoad(waiting(5, "default/heavy"), 0),
            PartitionLoad(waiting(2, "default/heavy"), 0),
            PartitionLoad(urgent, 0),
        ]
    )
    assert found == {"default_heavy_0": 7, "mail=send_light_p60": 1}


def test_runs_that_share_a_message_are_counted_beyond_the_messages() -> None:
    def run(number: int, parcel: str, **fields: Any) -> Run:
        return Run(
            run_id=f"job{number}@now-1",
            job_id=f"job{number}",
            version=1,
            scheduled=NOW,
            due=NOW,
            queued_at=NOW,
            **{"status": "QUEUED", "route": "default=quick/light", "parcel": parcel, **fields},
        )

    runs = [run(number, "a") for number in range(5)] + [run(number, "b") for number in range(5, 8)]
    runs += [run(8, "a", status="RETRYING"), run(9, ""), run(10, "c", priority=95)]
    load = PartitionLoad(waiting(0, "fast"), 0, {run.run_id: run for run in runs})
    assert packed_by_queue([load]) == {"default=quick_light_0": 6}
    assert runs_in(pending=2, held=0, packed=6) == (8, 0)
    assert runs_in(pending=0, held=2, packed=6) == (0, 8)
    assert runs_in(pending=1, held=2, packed=6) == (3, 6)
    assert runs_in(pending=0, held=0, packed=6) == (0, 0), "they have ended since"


def test_what_is_queued_where_nobody_serves_is_counted_by_queue() -> None:
    def run(number: int, status: str, route: str, priority: int = 0) -> Run:
        return Run(
            run_id=f"r{number}",
            job_id="j",
            version=1,
            scheduled=0,
            due=0,
            status=status,  # type: ignore[arg-type]
            route=route,
            priority=priority,
            exact=True,
        )

    gpu, served = route_of("gpu", None, "light"), route_of("default", None, "light")
    runs = [
        run(1, "QUEUED", gpu),
        run(2, "QUEUED", gpu),
        run(3, "QUEUED", gpu, priority=90),
        run(4, "RETRYING", gpu),
        run(5, "QUEUED", served),
        run(6, "QUEUED", route_of("gpu", "resize", "heavy")),
    ]
    load = PartitionLoad(Backlog(), unread=0, runs={each.run_id: each for each in runs})
    found = unserved_by_queue([load, load], frozenset((served,)))
    assert found == {"gpu_light_0": 4, "gpu_light_p90": 2, "gpu=resize_heavy_0": 2}
