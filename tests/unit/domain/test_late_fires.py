"""Lag and downtime: what came due while an owner lived is late, what came due while none did is up to catch-up."""

from unit.domain.partition_owner import START, Partition, at, every, once
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.evolve import evolve, move_cursor
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.room import UNSERVED
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.timing_index import IndexEntry, decode_entry
from waterclock.proto.events import (
    Cursor,
    Frame,
    JobCreated,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunQueued,
    RunSucceeded,
)
from waterclock.proto.policies import CatchUp


def scheduled(events: list[RunQueued]) -> list[float]:
    return [(event.scheduled - START) / SECOND for event in events]


def test_a_live_owner_that_is_late_takes_every_fire() -> None:
    partition = Partition()
    partition.create("job", every(10))
    partition.settle(at(100.5))
    assert scheduled(partition.queued) == list(range(10, 101, 10))
    assert not partition.missed


def test_what_came_due_while_nobody_lived_is_up_to_the_catch_up_policy() -> None:
    partition = Partition()
    partition.create("job", every(10))
    partition.tick(at(5))
    partition.tick(at(95.5), lived=False)
    partition.settle(at(100.5))
    assert [(event.scheduled - START) // SECOND for event in partition.missed] == list(range(10, 91, 10))
    assert scheduled(partition.queued) == [100]


def test_a_downtime_of_less_than_ten_seconds_is_none() -> None:
    partition = Partition()
    partition.create("job", every(2))
    partition.tick(at(1))
    partition.tick(at(10.5), lived=False)
    partition.settle(at(10.5))
    assert scheduled(partition.queued) == [2, 4, 6, 8, 10]
    assert not partition.missed


def test_what_waited_for_room_before_a_downtime_was_late_and_is_taken_after_it() -> None:
    partition = Partition(room=0)
    partition.create("job", every(10))
    partition.tick(at(25))
    assert not partition.queued
    partition.tick(at(85), lived=False)
    partition.room.left = 1_000
    partition.settle(at(85))
    assert scheduled(partition.queued) == [10, 20], "due when the owner lived"
    assert [(event.scheduled - START) // SECOND for event in partition.missed] == [30, 40, 50, 60, 70, 80]


def test_a_start_deadline_passes_however_much_the_owner_lives() -> None:
    partition = Partition()
    partition.create("job", every(10, start_deadline=15))
    partition.settle(at(50.5))
    assert scheduled(partition.queued) == [40, 50]
    assert all("start deadline" in event.reason for event in partition.missed)


def test_resumed_with_what_was_missed_catches_up_on_the_pause_and_takes_the_rest() -> None:
    partition = Partition()
    spec = every(10, catch_up=CatchUp(policy="latest", window_seconds=3600))
    partition.create("job", spec)
    partition.tick(at(10.5))
    paused = JobPaused(job_id="job", spec=spec, at=at(15), created_at=START)
    partition.owner.observe_job(paused, 2, at(15))
    partition.tick(at(95))
    resumed = JobResumed(job_id="job", spec=spec, at=at(95), created_at=START, missed_since=at(15))
    partition.owner.observe_job(resumed, 3, at(95))
    partition.settle(at(125.5))
    assert scheduled(partition.queued) == [10, 90, 100, 110, 120]
    assert sum(event.count for event in partition.missed) == 7


# -- taking over with a backlog --------------------------------------------------------------------------


def replayed(partition: Partition) -> PartitionState:
    """What the next owner reads from the log."""
    state = PartitionState()
    for event in partition.events:
        evolve(state, event)
    move_cursor(state, partition.owner.state.cursor)
    return state


def test_the_cursor_stays_before_what_waits_and_what_went_ahead_is_remembered() -> None:
    partition = Partition(room=0)
    partition.create("low", every(10, priority=-1))
    partition.create("high", every(10, priority=1))
    partition.tick(at(10.2))
    partition.room.left = 1
    partition.tick(at(10.5))
    assert [event.run_id.partition("@")[0] for event in partition.queued] == ["high"]
    state = partition.owner.state
    assert state.cursor.time == at(10) - 1
    assert state.ahead["high"][0] == at(10)
    assert replayed(partition) == state


def test_who_takes_over_decides_what_waited_and_nothing_twice() -> None:
    before = Partition(room=0)
    before.create("low", every(10, priority=-1))
    before.create("high", every(10, priority=1))
    before.tick(at(10.2))
    before.room.left = 1
    before.tick(at(10.5))
    after = Partition(state=replayed(before), now=at(12))
    after.owner.load([decode_entry(value) for value in before.index.values()], at(12))
    after.settle(at(12))
    assert [event.run_id.partition("@")[0] for event in after.queued] == ["low"]
    assert not after.missed


def test_a_one_shot_that_waited_is_found_by_its_definition() -> None:
    before = Partition(room=1)
    for name in ("first", "second"):
        before.create(name, once())
    before.tick(at(0.5))
    assert [event.run_id.partition("@")[0] for event in before.queued] == ["first"]
    cursor = before.owner.state.cursor
    assert (cursor.jobs, cursor.settled_jobs) == (2, 1), "the second definition still speaks for a fire"
    assert not before.index

    after = Partition(state=replayed(before), now=at(1))
    for version, name in ((1, "first"), (2, "second")):
        event = JobCreated(job_id=name, spec=once(), at=START, created_at=START)
        after.owner.observe_again(event, version, at(1))
    after.settle(at(1))
    assert [event.run_id.partition("@")[0] for event in after.queued] == ["second"], (
        "and the first is decided"
    )
    assert after.owner.state.cursor.settled_jobs == 2


def test_a_definition_that_has_been_changed_since_does_not_replace_what_the_index_has() -> None:
    before = Partition(room=0)
    before.create("waits", once())
    before.create("job", every(7))
    spec = every(3600)
    changed = JobUpdated(job_id="job", spec=spec, at=at(1), created_at=START)
    before.owner.observe_job(changed, 3, at(1))
    before.tick(at(1))
    assert before.owner.state.cursor.settled_jobs == 0

    after = Partition(state=replayed(before), now=at(20))
    after.owner.load([IndexEntry(job_id="job", version=3, spec=spec, since=at(1))], at(20))
    armed = armed_in(after.owner, "job")
    created = JobCreated(job_id="job", spec=every(7), at=START, created_at=START)
    after.owner.observe_again(created, 2, at(20))
    after.owner.observe_again(changed, 3, at(20))
    assert armed_in(after.owner, "job") is armed


def test_a_definition_that_the_log_has_not_passed_is_not_observed_again() -> None:
    partition = Partition()
    event = JobCreated(job_id="new", spec=once(), at=START, created_at=START)
    partition.owner.observe_again(event, 1, at(1))
    assert not partition.owner.backlog


def test_what_the_cursor_covers_is_forgotten() -> None:
    state = PartitionState(
        cursor=Cursor(jobs=5, time=10, settled=3), ahead={"by time": (1, 20, 3), "by version": (1, 5, 4)}
    )
    move_cursor(state, Cursor(jobs=5, time=19, settled=3))
    assert set(state.ahead) == {"by time", "by version"}
    move_cursor(state, Cursor(jobs=5, time=20, settled=3))
    assert set(state.ahead) == {"by version"}
    move_cursor(state, Cursor(jobs=5, time=20))
    assert not state.ahead, "settled is not said: all up to `jobs` are"


# -- many of them ----------------------------------------------------------------------------------------


def armed_in(owner: Owner, job_id: str) -> ArmedSchedule:
    return owner.schedules.armed[job_id]


def test_many_armed_schedules_are_packed_and_fire_all_the_same() -> None:
    partition = Partition()
    for number in range(1_010):
        partition.create(f"job{number}", every(60))
    first, last = armed_in(partition.owner, "job0"), armed_in(partition.owner, "job1009")
    assert first.spec is not None
    assert last.spec is None
    assert last.fires is None
    assert decode_entry(last.packed).job_id == "job1009"
    partition.settle(at(60.5))
    assert len({event.run_id for event in partition.queued}) == 1_010
    assert {event.scheduled for event in partition.queued} == {at(60)}


def test_a_run_that_ended_makes_room_for_one_that_waits() -> None:
    partition = Partition(room=1)
    partition.create("a", once())
    partition.create("b", once())
    partition.tick(at(1))
    (run,) = partition.queued
    ended = RunSucceeded(run_id=run.run_id, at=at(2), attempt=1, executor_id="x", started=at(1))
    partition.owner.observe_frame(Frame(writer="x", events=(ended,)), 1)
    partition.tick(at(2))
    assert len(partition.queued) == 2


def test_what_waits_for_slow_work_is_a_queue_and_no_lag() -> None:
    partition = Partition(room=1)
    for name in ("first", "second", "third"):
        partition.create(name, once())
    partition.settle(at(0))
    assert partition.owner.lag(at(100)) == 100 * SECOND
    partition.room.left += 1
    partition.room.saturated = True
    partition.settle(at(100))
    partition.room.slow = True
    assert partition.owner.lag(at(200)) == 0
    partition.room.left += 1
    partition.settle(at(200))
    assert [event.behind_ms for event in partition.queued] == [None, 100_000, 0]
    assert [event.slowed for event in partition.queued] == [False, True, False]


def test_what_somebody_serves_from_now_on_no_longer_waits_with_what_nobody_serves() -> None:
    partition = Partition(room=0)
    partition.create("waits", once())
    partition.tick(at(0))
    (route,) = {route for _, route in partition.owner.backlog.counts}
    partition.room.served = frozenset()
    partition.tick(at(1))
    assert set(partition.owner.backlog.counts) == {("default", UNSERVED)}
    partition.room.served = frozenset((route,))
    partition.room.left = 1
    partition.settle(at(2))
    assert len(partition.queued) == 1
