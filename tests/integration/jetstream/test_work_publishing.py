"""The work queue takes many messages in few writes, and holds each attempt at most once."""

import pytest

from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import AlreadyQueued, LogFull
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.proto import names


def work(number: int, attempt: int = 1) -> Message:
    subject = names.work_subject("default", "light", "0", f"run{number}@20261116T030000Z", attempt)
    return Message(subject=subject, data=b"x" * 200, headers={"Nats-Msg-Id": f"run{number}/{attempt}"})


async def test_all_of_many_messages_arrive_in_order(connection: Connection, publisher: Publisher) -> None:
    await ensure_work_consumers(connection, [("default", "light", "0")])
    messages = [work(number) for number in range(2345)]
    await publisher.publish_work(messages)
    arrived: list[str] = []
    async with Pull.durable(connection, "WORK", "default_light_0") as pull:
        while len(arrived) < len(messages):
            for delivery in await pull.next():
                arrived.append(delivery.subject)
                pull.ack(delivery)
    assert arrived == [message.subject for message in messages]


async def test_an_attempt_is_queued_once_until_it_is_acked(
    connection: Connection, publisher: Publisher
) -> None:
    await ensure_work_consumers(connection, [("default", "light", "0")])
    subject = work(1).subject
    await publisher.publish(subject, b"x")
    with pytest.raises(AlreadyQueued):
        await publisher.publish(subject, b"again")
    # A redelivery pending with an executor still counts as queued.
    async with Pull.durable(connection, "WORK", "default_light_0") as pull:
        (delivery,) = await pull.next()
        with pytest.raises(AlreadyQueued):
            await publisher.publish(subject, b"again")
        pull.ack(delivery)
        await eventually(lambda: stream_state(connection, "WORK"), wanted=lambda state: state.messages == 0)
    assert await publisher.publish(subject, b"again") == 2


async def test_publishing_again_what_is_queued_is_harmless(
    connection: Connection, publisher: Publisher
) -> None:
    await publisher.publish_work([work(number) for number in range(0, 1200, 2)])
    renamed = [
        Message(subject=work(number).subject, data=b"recovered", headers={"Nats-Msg-Id": f"again-{number}"})
        for number in range(1200)
    ]
    await publisher.publish_work(renamed)
    assert (await stream_state(connection, "WORK")).messages == 1200


async def test_a_full_queue_says_so(connection: Connection, publisher: Publisher) -> None:
    await ensure_streams(connection, Layout(total_bytes=100000))
    with pytest.raises(LogFull):
        await publisher.publish_work([work(number) for number in range(100)])
