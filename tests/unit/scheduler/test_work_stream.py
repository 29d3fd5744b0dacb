"""When work is sent to the queue, and when we ask whether it got there."""

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from unit.domain.partition_owner import Partition, at, once
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.publisher import Message
from waterclock.proto.events import Frame, RunSucceeded
from waterclock.scheduler.jetstream.work_queue import WorkStream
from waterclock.scheduler.ports import WorkMessage
from waterclock.scheduler.work_items import packed, recovered_item, work_item


class Sent:
    """A publisher that notes how messages left."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.unasked: list[str] = []
        self.is_away = False

    async def publish_work(
        self, messages: Sequence[Message], *, still: Callable[[], bool] | None = None
    ) -> None:
        self.asked += [message.subject for message in messages]

    def send_work(self, message: Message) -> None:
        if self.is_away:
            raise Disconnected
        self.unasked.append(message.subject)


@pytest.fixture
def partition() -> Partition:
    partition = Partition()
    partition.create("job", once())
    partition.settle(at(1))
    return partition


@pytest.fixture
def lone(partition: Partition) -> list[WorkMessage]:
    return packed([("", work_item(event, once())) for event in partition.queued])


def stream(sent: Sent, *, clustered: bool = False, certain: bool = True) -> WorkStream:
    connection: Any = SimpleNamespace(nc=SimpleNamespace(is_clustered=clustered))
    lines: Any = SimpleNamespace(lacks=lambda _: False)
    publisher: Any = sent
    return WorkStream(connection, publisher, lines, lambda: certain)


async def test_the_first_after_a_silence_is_asked_for_and_the_next_is_not(lone: list[WorkMessage]) -> None:
    sent = Sent()
    work = stream(sent)
    assert await work.publish(lone) is True
    assert await work.publish(lone) is False
    assert (len(sent.asked), len(sent.unasked)) == (1, 1)


async def test_after_a_second_it_is_asked_again(
    lone: list[WorkMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = stream(Sent())
    await work.publish(lone)
    later = time.monotonic() + 1.5
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert await work.publish(lone) is True


@pytest.mark.parametrize(("clustered", "certain"), [(True, True), (False, False)])
async def test_of_several_servers_or_when_unsure_of_ourselves_we_always_ask(
    lone: list[WorkMessage], clustered: bool, certain: bool
) -> None:
    work = stream(Sent(), clustered=clustered, certain=certain)
    assert [await work.publish(lone) for _ in range(3)] == [True, True, True]


async def test_what_is_recovered_or_travels_in_a_parcel_is_asked_for(
    lone: list[WorkMessage], partition: Partition
) -> None:
    work = stream(Sent())
    (run,) = partition.owner.state.runs.values()
    await work.publish(lone)
    assert await work.publish(packed([("", recovered_item(run, once()))])) is True
    assert await work.publish([WorkMessage(lone[0].items, run.run_id)]) is True


async def test_while_the_server_is_away_we_ask(lone: list[WorkMessage]) -> None:
    sent = Sent()
    work = stream(sent)
    await work.publish(lone)
    sent.is_away = True
    assert await work.publish(lone) is True


def test_work_of_which_nothing_is_heard_is_sent_again(partition: Partition) -> None:
    owner = partition.owner
    (run_id,) = owner.state.runs
    owner.sent([run_id], at(1))
    assert owner.take_doubts() == []
    assert owner.next_due() == at(3)
    partition.settle(at(3))
    assert owner.take_doubts() == [run_id]
    assert owner.take_doubts() == []


def test_work_that_somebody_has_taken_is_not(partition: Partition) -> None:
    owner = partition.owner
    (run,) = owner.state.runs.values()
    owner.sent([run.run_id], at(1))
    ended = RunSucceeded(run_id=run.run_id, at=at(1), attempt=run.attempt, executor_id="e", started=at(1))
    owner.observe_frame(Frame(writer="e", events=(ended,)), 9)
    partition.settle(at(3))
    assert owner.take_doubts() == []
    assert owner.next_due() is None
