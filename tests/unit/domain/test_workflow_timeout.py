"""A workflow run that takes longer than its timeout is stopped, and ends as timed out."""

from typing import Any

import pytest

from unit.domain.partition_owner import START, Partition, at
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.workflow.node_specs import node_spec
from waterclock.proto.events import (
    Frame,
    RunCancelled,
    RunCancelRequested,
    RunClosed,
    RunEvent,
    RunOpened,
    RunStarted,
    RunSucceeded,
)
from waterclock.proto.policies import Limits
from waterclock.proto.spec import JobSpec, Node, Shell, Workflow

FLOW = JobSpec(
    name="flow",
    task=Workflow(
        nodes=(
            Node(id="a", task=Shell(command="true")),
            Node(id="b", task=Shell(command="true"), depends_on=("a",)),
        )
    ),
    timeout_seconds=60,
)


def read(partition: Partition, event: RunEvent, now: int) -> list[RunEvent]:
    """An executor wrote this; what follows from it."""
    partition.owner.observe_frame(Frame(writer="executor", events=(event,)), 1)
    partition.owner.follow_up(now)
    return partition.tick(now)


def started() -> tuple[Partition, str]:
    partition = Partition()
    partition.create("flow", FLOW)
    partition.settle(at(1))
    node = partition.queued[0].run_id
    read(partition, RunStarted(run_id=node, at=at(2), attempt=1, executor_id="x"), at(2))
    return partition, node


def test_its_nodes_are_stopped_at_the_deadline_and_it_ends_as_timed_out() -> None:
    partition, node = started()
    assert partition.tick(at(59)) == []
    assert [(type(event), event.run_id) for event in partition.tick(at(61))] == [
        (RunCancelRequested, node.rpartition("~")[0]),
        (RunCancelRequested, node),
    ]
    stopped = RunCancelled(run_id=node, at=at(62), attempt=1, executor_id="x", reason="stopped")
    decided = read(partition, stopped, at(62))
    assert [type(event) for event in decided] == [RunCancelled, RunClosed]
    assert decided[0].run_id.endswith("~b")
    closed = decided[1]
    assert isinstance(closed, RunClosed)
    assert (closed.timed_out, closed.succeeded) == (True, False)
    assert partition.owner.state.runs == {}


def test_one_that_ends_in_time_is_left_alone() -> None:
    partition, node = started()
    ended = RunSucceeded(run_id=node, at=at(3), attempt=1, executor_id="x", started=at(2))
    read(partition, ended, at(3))
    other = partition.queued[1].run_id
    ended = RunSucceeded(run_id=other, at=at(4), attempt=1, executor_id="x", started=at(3))
    assert [type(event) for event in read(partition, ended, at(4))] == [RunClosed]
    assert partition.tick(at(61)) == []


def test_whoever_takes_the_partition_over_keeps_the_deadline() -> None:
    partition, node = started()
    state = PartitionState()
    successor = Owner(3, state, START)
    successor.replay(Frame(writer="before", events=tuple(partition.events)), 1)
    begun = RunStarted(run_id=node, at=at(2), attempt=1, executor_id="x")
    successor.replay(Frame(writer="executor", events=(begun,)), 2)
    successor.remember_definition("flow", 1, FLOW)
    successor.resume(at(50))
    successor.tick(at(50))
    assert successor.take_pass().events == []
    due = successor.next_due()
    opened = next(event for event in partition.events if isinstance(event, RunOpened))
    assert due is not None
    assert due <= (opened.deadline or 0) <= at(61)
    successor.tick(at(61))
    assert [type(event) for event in successor.take_pass().events] == [RunCancelRequested] * 2


def test_a_user_who_cancels_it_first_has_cancelled_it() -> None:
    partition, node = started()
    wave = node.rpartition("~")[0]
    read(partition, RunCancelRequested(run_id=wave, at=at(59), actor="ann"), at(59))
    assert partition.tick(at(61)) == []
    stopped = RunCancelled(run_id=node, at=at(62), attempt=1, executor_id="x", reason="stopped")
    assert [type(event) for event in read(partition, stopped, at(62))] == [RunCancelled, RunCancelled]


@pytest.mark.parametrize(
    ("field", "said", "otherwise"),
    [
        ("slots", 3, 1),
        ("concurrency_key", "db", None),
        ("concurrency_limit", 2, None),
        ("rate_key", "api", None),
        ("rate_per_second", 5.0, None),
        ("delivery", "exactly_once", "at_least_once"),
        ("limits", Limits(open_files=10), Limits(processes=5)),
        ("secrets", ("B",), ()),
    ],
)
def test_what_a_node_says_of_its_attempts_is_so(field: str, said: Any, otherwise: Any) -> None:
    workflow = JobSpec(
        name="flow", task=Workflow(nodes=()), limits=Limits(processes=5), secrets=("A",), concurrency_limit=7
    )
    spec = node_spec(workflow, Node(id="a", task=Shell(command="true"), **{field: said}))
    unsaid = node_spec(workflow, Node(id="a", task=Shell(command="true")))
    masked = ("A",) if field == "secrets" else ()
    assert getattr(spec, field) == ((*masked, *said) if isinstance(said, tuple) else said)
    assert getattr(unsaid, field) == ((*masked, *otherwise) if isinstance(otherwise, tuple) else otherwise)
