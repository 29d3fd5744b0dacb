"""An owner ends what nobody has begun by its start deadline: in line, in the queue, after a takeover; and only that."""

from typing import Any

import pytest
from msgspec.structs import replace

from unit.domain.partition_owner import START, Partition, at, every, once
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.evolve import evolve, move_cursor
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.room import route_of
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.run.deadlines import START_GRACE
from waterclock.core.domain.run.states import transition
from waterclock.proto.events import (
    Frame,
    RunEvent,
    RunFailed,
    RunLost,
    RunQueued,
    RunReturned,
    RunsMissed,
    RunStarted,
    RunSucceeded,
    RunWaiting,
)
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import ClaimReply, ClaimRequest

GRACE = START_GRACE / SECOND


def soon(**changes: object) -> JobSpec:
    return replace(once(), start_deadline_seconds=5, **changes)


def read(partition: Partition, event: RunEvent, now: int) -> None:
    """Somebody else has written this, and the owner reads it after all that it decided."""
    partition.owner.observe_own_frame(10)
    partition.owner.observe_frame(Frame(writer="executor", events=(event,)), 11)
    partition.owner.follow_up(now)


def started(event: RunQueued) -> RunStarted:
    return RunStarted(run_id=event.run_id, at=event.at, attempt=event.attempt, executor_id="a")


def test_what_is_queued_and_never_begun_is_missed_a_little_after_its_deadline() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.tick(at(0.1))
    assert partition.queued[0].start_by == at(5)
    assert partition.owner.next_due() is not None
    partition.settle(at(5 + GRACE))
    assert not partition.missed, "an executor may have begun it, and that is on its way"
    partition.settle(at(5.1 + GRACE))
    [missed] = partition.missed
    assert (missed.run_id, missed.attempt, missed.trigger) == (partition.queued[0].run_id, 1, "schedule")
    assert missed.reason == "start deadline of 5 s passed in the queue: no executor had room for it"
    assert not partition.owner.state.runs


def test_its_work_is_taken_back_when_the_decision_stands_in_the_log() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    owner, run_id = partition.owner, partition.queued[0].run_id
    owner.tick(at(8))
    decided = owner.take_pass()
    assert [type(event) for event in decided.events] == [RunsMissed]
    assert not decided.withdrawn, "a start may stand before it"
    assert not decided.stops
    assert owner.awaits_own_frames
    owner.appended(7, decided.events)
    owner.observe_own_frame(7)
    assert owner.take_pass().withdrawn == [run_id]
    assert not owner.awaits_own_frames


def test_the_reason_names_what_nobody_serves() -> None:
    partition = Partition()
    partition.room.served = frozenset({route_of("other", None, "light")})
    partition.create("job", soon())
    partition.settle(at(0.1))
    partition.settle(at(8))
    assert partition.missed[0].reason.endswith("no executor serves light commands in queue default")


def test_what_has_no_room_is_missed_to_the_moment_without_ever_being_queued() -> None:
    partition = Partition(room=0)
    partition.create("job", soon())
    partition.settle(at(0.1))
    partition.settle(at(5))
    assert not partition.events
    assert partition.owner.next_due() is not None
    partition.settle(at(5.001))
    [missed] = partition.missed
    assert missed.attempt is None
    assert missed.reason == "start deadline of 5 s passed: no executor had room for it"
    assert not partition.owner.backlog
    partition.room.left = 10
    partition.settle(at(6))
    assert not partition.queued


def test_of_a_recurring_job_in_line_each_fire_is_missed_by_itself_and_the_rest_waits_on() -> None:
    partition = Partition(room=0)
    partition.create("job", every(10, start_deadline=15))
    for second in range(10, 61):
        partition.settle(at(second + 0.5))
    assert [(event.scheduled - START) // SECOND for event in partition.missed] == [10, 20, 30, 40]
    assert len(partition.owner.backlog) == 1
    partition.room.left = 10
    partition.settle(at(60.9))
    assert [(event.scheduled - START) // SECOND for event in partition.queued] == [50, 60]


def test_only_so_many_are_missed_in_a_pass_and_all_in_the_end() -> None:
    partition = Partition(room=0)
    for number in range(1200):
        partition.create(f"job{number}", soon())
    partition.tick(at(0.1))
    partition.tick(at(6))
    assert 0 < len(partition.missed) < 1200
    partition.settle(at(6))
    assert len(partition.missed) == 1200


def test_what_has_begun_goes_on_however_late_that_is_read() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    read(partition, started(partition.queued[0]), at(4))
    partition.settle(at(60))
    assert not partition.missed


def test_a_start_before_the_decision_makes_it_void_and_so_does_none_after_it() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    partition.settle(at(8))
    [queued], [missed] = partition.queued, partition.missed
    began = started(queued)
    first, second = PartitionState(), PartitionState()
    for event in (queued, began, missed):
        evolve(first, event)
    assert first.runs[queued.run_id].status == "RUNNING"
    for event in (queued, missed, began):
        evolve(second, event)
    assert not second.runs
    ends: list[RunEvent] = [
        RunReturned(run_id=queued.run_id, at=at(6), attempt=1, executor_id="a", started=at(4)),
        RunFailed(
            run_id=queued.run_id,
            at=at(6),
            attempt=1,
            executor_id="a",
            started=at(4),
            reason="",
            retry_at=at(9),
        ),
    ]
    for ended in ends:
        third = PartitionState()
        for each in (queued, began, ended, missed):
            evolve(third, each)
        assert queued.run_id in third.runs, "it began, and goes on"
    by_executor = replace(missed, executor_id="a")
    assert transition("RUNNING", by_executor) == "MISSED", "it said that it starts, and that was too late"


def test_the_word_of_an_executor_about_an_earlier_attempt_does_not_end_a_later_one() -> None:
    queued = RunQueued(run_id="job@now-1", at=at(9), version=1, scheduled=at(0), due=at(9), attempt=2)
    state = PartitionState()
    evolve(state, queued)
    late = RunsMissed(
        run_id="job@now-1", at=at(10), version=1, scheduled=at(0), until=at(0), count=1, reason="", attempt=1
    )
    evolve(state, replace(late, executor_id="a"))
    assert state.runs["job@now-1"].status == "QUEUED"
    evolve(state, replace(late, executor_id="a", attempt=2))
    assert not state.runs


def test_who_takes_over_ends_what_the_one_before_has_queued() -> None:
    before = Partition()
    before.create("job", soon())
    before.settle(at(0.1))
    state = PartitionState()
    for event in before.events:
        evolve(state, event)
    move_cursor(state, before.owner.state.cursor)
    after = Partition(state=state, now=at(3))
    after.owner.resume(at(3))
    after.settle(at(5 + GRACE))
    assert not after.missed
    after.settle(at(8))
    assert [event.run_id for event in after.missed] == [before.queued[0].run_id]


def test_what_waits_for_the_run_before_it_is_missed_and_the_next_has_its_turn() -> None:
    partition = Partition()
    spec = replace(every(10, start_deadline=15), overlap="queue_all")
    partition.create("job", spec)
    partition.settle(at(10.1))
    read(partition, started(partition.queued[0]), at(10.2))
    partition.settle(at(30.5))
    waiting = [event for event in partition.events if isinstance(event, RunWaiting)]
    assert [event.start_by for event in waiting] == [at(35), at(45)]
    partition.settle(at(35.5))
    [missed] = partition.missed
    assert missed.reason == "start deadline of 15 s passed while it waited for the run before it"
    first = partition.queued[0]
    done = RunSucceeded(
        run_id=first.run_id, at=at(36), attempt=1, executor_id="a", started=at(10.2), output=None
    )
    read(partition, done, at(36))
    partition.settle(at(36))
    assert partition.queued[-1].scheduled == at(30)


@pytest.mark.parametrize("ended", ["failed", "lost"])
def test_what_has_begun_once_has_no_deadline_any_more(ended: str) -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    queued = partition.queued[0]
    read(partition, started(queued), at(1))
    facts: dict[str, Any] = {"run_id": queued.run_id, "at": at(2), "attempt": 1}
    if ended == "failed":
        read(partition, RunFailed(**facts, executor_id="a", started=at(1), reason="", retry_at=at(3)), at(2))
    else:
        read(partition, RunLost(**facts, crash_count=1, executor_id="a", reason="died"), at(2))
    partition.settle(at(4))
    partition.settle(at(60))
    assert not partition.missed
    assert partition.owner.state.runs[queued.run_id].status == "QUEUED"
    assert partition.owner.state.runs[queued.run_id].start_by is None


def test_what_is_handed_back_has_as_long_to_start_as_before() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    queued = partition.queued[0]
    partition.room.left = 0
    read(
        partition,
        RunReturned(run_id=queued.run_id, at=at(4), attempt=1, executor_id="a", started=at(4)),
        at(4),
    )
    partition.room.left = 0  # its executor was the last
    partition.settle(at(8.9))
    assert not partition.missed
    partition.settle(at(9.1))
    assert [event.run_id for event in partition.missed] == [queued.run_id]


def test_without_a_deadline_there_is_no_timer() -> None:
    partition = Partition()
    partition.create("job", once())
    partition.settle(at(0.1))
    owner: Owner = partition.owner
    assert owner.next_due() is None


def ask(partition: Partition, now: int, *, executor: str = "b", delivered: int = 2) -> ClaimReply:
    """The first run's work came to an executor again."""
    queued = partition.queued[0]
    request = ClaimRequest(
        run_id=queued.run_id,
        attempt=queued.attempt,
        queued=queued.at,
        executor_id=executor,
        delivered=delivered,
    )
    return partition.owner.claim(request, False, now)


@pytest.mark.parametrize("delivered", [2, 5])
def test_whoever_asks_after_the_deadline_waits_until_its_owner_knows_whether_it_was_begun(
    delivered: int,
) -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    assert ask(partition, at(5)).verdict == "run"
    assert ask(partition, at(5.1), delivered=delivered).verdict == "wait"
    read(partition, started(partition.queued[0]), at(5.2))
    reply = ask(partition, at(5.3), delivered=delivered)
    assert (reply.verdict, reply.crash_count) == ("run", 1), "it had begun: no deadline applies any more"


def test_whoever_asks_for_what_nobody_began_in_time_is_told_to_drop_it_in_the_end() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    assert ask(partition, at(6)).verdict == "wait"
    partition.settle(at(5.1 + GRACE))
    assert len(partition.missed) == 1
    assert ask(partition, at(8)).verdict == "drop"


def test_an_executor_that_lost_what_it_had_begun_is_told_that_it_had() -> None:
    partition = Partition()
    partition.create("job", soon())
    partition.settle(at(0.1))
    read(partition, started(partition.queued[0]), at(1))
    reply = ask(partition, at(60), executor="a")
    assert (reply.verdict, reply.has_started) == ("run", True)
