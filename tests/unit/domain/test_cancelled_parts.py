"""Runs that are to be cancelled and that no executor answers for: somebody is still asked, and they end."""

import pytest

from unit.domain.partition_owner import START, Partition, at
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState, Run
from waterclock.core.domain.workflow.conditions import Unusable
from waterclock.proto.events import (
    Frame,
    NodeMarked,
    RunCancelled,
    RunCancelRequested,
    RunEvent,
    RunLost,
    RunQueued,
    RunStarted,
)
from waterclock.proto.spec import FanOut, JobSpec, Node, Shell, Workflow
from waterclock.proto.work import ClaimRequest

FLOW = JobSpec(
    name="flow",
    task=Workflow(
        nodes=(
            Node(id="a", task=Shell(command="echo {{ item }}"), queue="slow", map=FanOut(over=["x", "y"])),
            Node(id="b", task=Shell(command="true"), depends_on=("a",)),
        )
    ),
)


def read(partition: Partition, *events: RunEvent, now: int) -> list[RunEvent]:
    """Others wrote these; what follows from them."""
    partition.owner.observe_frame(Frame(writer="others", events=events), 1)
    partition.owner.follow_up(now)
    return partition.tick(now)


def running_member() -> tuple[Partition, Run, list[RunEvent]]:
    """A member that runs while its node is marked by hand, and what was decided then."""
    partition = Partition()
    partition.create("flow", FLOW)
    partition.settle(at(1))
    node = partition.queued[0].parent
    assert node is not None
    member = partition.queued[0].run_id
    read(partition, RunStarted(run_id=member, at=at(2), attempt=1, executor_id="x"), now=at(2))
    marked = NodeMarked(
        run_id=node, at=at(3), version=1, scheduled=START, succeeded=True, parent=node.rpartition("~")[0]
    )
    decided = read(partition, marked, now=at(3))
    return partition, partition.owner.state.runs[member], decided


def claim(partition: Partition, run: Run, executor_id: str, *, alive: bool) -> tuple[str, list[RunEvent]]:
    request = ClaimRequest(
        run_id=run.run_id, attempt=1, queued=run.queued_at, executor_id=executor_id, delivered=1
    )
    return partition.owner.claim(request, alive, at(5)).verdict, partition.tick(at(5))


def test_a_member_that_is_stopped_has_work_after_the_end_of_its_fan_out() -> None:
    """Its executor may have died and the queue have lost its work: whoever gets it again asks, and it ends."""
    partition, run, decided = running_member()
    assert any(isinstance(event, RunCancelRequested) and event.run_id == run.run_id for event in decided)
    spec = partition.owner.spec_of(run)
    assert spec is not None
    assert spec.queue == "slow", "it goes where it was queued"
    verdict, events = claim(partition, run, "y", alive=False)
    assert verdict == "drop"
    assert [(type(event), event.run_id) for event in events] == [(RunCancelled, run.run_id)]
    assert run.run_id not in partition.owner.state.runs


def test_a_part_that_is_not_stopped_has_no_work_after_the_end_of_the_whole() -> None:
    partition, run, _ = running_member()
    run.cancelling = False
    with pytest.raises(Unusable):
        partition.owner.spec_of(run)


def test_an_executor_that_asks_about_what_it_is_to_stop_does_not_run_it() -> None:
    """It has the work only because it asks, so that it is alive says nothing."""
    partition, run, _ = running_member()
    verdict, events = claim(partition, run, "x", alive=True)
    assert verdict == "drop"
    assert [type(event) for event in events] == [RunCancelled]


def test_a_member_that_is_stopped_is_left_to_an_executor_that_still_has_it() -> None:
    partition, run, _ = running_member()
    assert claim(partition, run, "y", alive=True) == ("wait", [])


def test_what_was_queued_again_before_its_cancel_was_read_ends() -> None:
    """Its executor was found dead by an owner that had not read the request to cancel it."""
    state = PartitionState()
    owner = Owner(3, state, START)
    events: tuple[RunEvent, ...] = (
        RunQueued(run_id="job@now-1", at=START, version=1, scheduled=START, due=START, attempt=1),
        RunStarted(run_id="job@now-1", at=START, attempt=1, executor_id="x"),
        RunCancelRequested(run_id="job@now-1", at=START, actor="user"),
        RunLost(run_id="job@now-1", at=START, attempt=1, crash_count=1, executor_id="x", reason="died"),
    )
    owner.replay(Frame(writer="others", events=events), 1)
    assert (state.runs["job@now-1"].status, state.runs["job@now-1"].cancelling) == ("QUEUED", True)
    owner.resume(at(1))
    decided = owner.take_pass()
    assert [type(event) for event in decided.events] == [RunCancelled]
    assert decided.withdrawn == ["job@now-1"]
