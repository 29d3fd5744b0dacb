"""Taking work: as much as there is room for, given back when nobody finishes it."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from integration.jetstream.outage import restart
from integration.jetstream.relay import relay
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Delivery, Pull

CONSUMER = "quick"


@pytest.fixture
async def quick(connection: Connection) -> str:
    """A work consumer whose ack deadline is one second."""
    await make_quick(connection)
    return CONSUMER


async def make_quick(connection: Connection) -> None:
    config = {
        "durable_name": CONSUMER,
        "filter_subject": "wc.work.a.light.0.>",
        "ack_policy": "explicit",
        "ack_wait": 1_000_000_000,
    }
    await connection.api(f"CONSUMER.CREATE.WORK.{CONSUMER}", {"stream_name": "WORK", "config": config})


async def queue(publisher: Publisher, *numbers: int) -> None:
    await publisher.publish_work(
        [Message(subject=f"wc.work.a.light.0.r{n}.1", data=str(n).encode()) for n in numbers]
    )


async def take(pull: Pull, count: int, within: float = 10) -> list[Delivery]:
    deadline = time.monotonic() + within
    taken: list[Delivery] = []
    while len(taken) < count:
        arrived = await pull.next(timeout=deadline - time.monotonic())
        assert arrived, f"{len(taken)} of {count} within {within:g} s"
        taken += arrived
    return taken


async def test_what_is_acked_is_gone(connection: Connection, publisher: Publisher, quick: str) -> None:
    await queue(publisher, *range(100))
    async with Pull.durable(connection, "WORK", quick) as pull:
        taken = await take(pull, 100)
        assert [int(delivery.data) for delivery in taken] == list(range(100))
        assert {delivery.delivered for delivery in taken} == {1}
        for delivery in taken:
            pull.ack(delivery)
        await eventually(lambda: stream_state(connection, "WORK"), wanted=lambda state: state.messages == 0)


async def test_what_is_not_acked_comes_again(
    connection: Connection, publisher: Publisher, quick: str
) -> None:
    await queue(publisher, 1)
    async with Pull.durable(connection, "WORK", quick) as pull:
        (first,) = await take(pull, 1)
        began = time.monotonic()
        (again,) = await take(pull, 1)
        assert time.monotonic() - began > 0.8
        assert (again.sequence, first.delivered, again.delivered) == (first.sequence, 1, 2)


async def test_progress_puts_the_deadline_off(
    connection: Connection, publisher: Publisher, quick: str
) -> None:
    await queue(publisher, 1)
    async with Pull.durable(connection, "WORK", quick) as pull:
        (delivery,) = await take(pull, 1)
        for _ in range(4):
            pull.progress(delivery)
            assert await pull.next(timeout=0.5) == []
        (again,) = await take(pull, 1)
        assert again.delivered == 2


async def test_what_is_given_back_comes_again_after_the_delay(
    connection: Connection, publisher: Publisher, quick: str
) -> None:
    await queue(publisher, 1)
    async with Pull.durable(connection, "WORK", quick) as pull:
        (delivery,) = await take(pull, 1)
        pull.nak(delivery)
        (delivery,) = await take(pull, 1, within=0.8)
        began = time.monotonic()
        pull.nak(delivery, delay=0.3)
        (delivery,) = await take(pull, 1, within=0.8)
        assert time.monotonic() - began > 0.25
        assert delivery.delivered == 3


async def test_never_more_than_demanded(connection: Connection, publisher: Publisher) -> None:
    await make_slow(connection)
    await queue(publisher, *range(50))
    async with Pull.durable(connection, "WORK", "slow", demand=8) as pull:
        held = await take(pull, 8)
        assert await pull.next(timeout=0.2) == []
        finished: list[Delivery] = []
        while len(finished) < 50:
            done, held = held[:3], held[3:]
            for delivery in done:
                pull.ack(delivery)
            finished += done
            while len(held) < min(8, 50 - len(finished)):
                held += await take(pull, 1)
            assert len(held) <= 8
            assert pull.unfinished == len(held)
        assert sorted(int(delivery.data) for delivery in finished) == list(range(50))


async def make_slow(connection: Connection) -> None:
    config = {
        "durable_name": "slow",
        "filter_subject": "wc.work.a.light.0.>",
        "ack_policy": "explicit",
        "ack_wait": 60_000_000_000,
        "max_waiting": 8,
    }
    await connection.api("CONSUMER.CREATE.WORK.slow", {"stream_name": "WORK", "config": config})


async def test_a_demand_set_at_once_counts_from_the_first_request(
    connection: Connection, publisher: Publisher
) -> None:
    await make_slow(connection)
    await queue(publisher, *range(30))
    async with Pull.durable(connection, "WORK", "slow") as pull:
        pull.set_demand(3)
        await take(pull, 3)
        assert await pull.next(timeout=0.2) == []


async def test_demand_can_grow(connection: Connection, publisher: Publisher) -> None:
    await make_slow(connection)
    await queue(publisher, *range(30))
    async with Pull.durable(connection, "WORK", "slow", demand=0) as pull:
        assert await pull.next(timeout=0.1) == []
        pull.set_demand(5)
        await take(pull, 5)
        pull.set_demand(20)
        await take(pull, 15)
        assert await pull.next(timeout=0.1) == []


async def test_draining_returns_what_was_still_to_come(connection: Connection, publisher: Publisher) -> None:
    await make_slow(connection)
    async with Pull.durable(connection, "WORK", "slow", demand=20) as pull:
        await queue(publisher, 1)
        await take(pull, 1)
        draining = asyncio.create_task(pull.drain())
        await queue(publisher, 2, 3)
        assert [int(delivery.data) for delivery in await asyncio.wait_for(draining, 3)] == [2, 3]
        await queue(publisher, 4)
        assert await pull.next(timeout=0.2) == []


async def test_deliveries_go_on_after_a_crash_of_the_server(
    connection: Connection, publisher: Publisher, nats_server: Server, quick: str
) -> None:
    async with Pull.durable(connection, "WORK", quick, demand=10) as pull:
        for round_ in range(3):
            await restart(nats_server)
            # The queue is not synced, so only what is stored while the server lives counts.
            waiting = asyncio.create_task(take(pull, 1))
            await queue(publisher, round_)
            (delivery,) = await asyncio.wait_for(waiting, 2)
            assert int(delivery.data) == round_
            pull.ack(delivery)
            await eventually(
                lambda: stream_state(connection, "WORK"), wanted=lambda state: state.messages == 0
            )


async def test_an_unfinished_attempt_can_be_acked_after_a_reconnect(
    connection: Connection, publisher: Publisher, log_url: str
) -> None:
    await make_slow(connection)
    await queue(publisher, 1, 2)
    async with (
        relay(log_url) as wire,
        Connection.open(wire.url, name="far") as far,
        Pull.durable(far, "WORK", "slow", demand=2) as pull,
    ):
        first, second = await take(pull, 2)
        returned = asyncio.Event()
        far.on_reconnect(returned.set)
        wire.cut()
        await returned.wait()
        assert pull.unfinished == 2
        pull.ack(first)
        pull.ack(second)
        await eventually(lambda: stream_state(connection, "WORK"), wanted=lambda state: state.messages == 0)
        await queue(publisher, 3, 4)
        assert [int(delivery.data) for delivery in await take(pull, 2)] == [3, 4]


async def test_a_deleted_consumer_is_restored_or_named(
    connection: Connection, publisher: Publisher, quick: str
) -> None:
    async with Pull.durable(connection, "WORK", quick, restore=lambda: make_quick(connection)) as pull:
        await connection.api(f"CONSUMER.DELETE.WORK.{quick}")
        await queue(publisher, 1)
        (delivery,) = await take(pull, 1)
        pull.ack(delivery)
    async with Pull.durable(connection, "WORK", quick) as pull:
        await connection.api(f"CONSUMER.DELETE.WORK.{quick}")
        with pytest.raises(NotFound):
            await pull.next(timeout=10)


async def test_more_pullers_than_the_consumer_lets_wait(connection: Connection, publisher: Publisher) -> None:
    """Eight may wait, and the server drops the requests of others: they ask again when they hear no heartbeat."""
    await make_slow(connection)
    async with AsyncExitStack() as stack:
        pulls = [
            await stack.enter_async_context(Pull.durable(connection, "WORK", "slow", demand=1))
            for _ in range(12)
        ]
        ahead = [asyncio.create_task(pull.next()) for pull in pulls]
        await queue(publisher, *range(8))
        await asyncio.wait(ahead, return_when=asyncio.FIRST_COMPLETED)
        await queue(publisher, *range(8, 12))
        taken = [delivery for arrived in await asyncio.gather(*ahead) for delivery in arrived]
    assert sorted(int(delivery.data) for delivery in taken) == list(range(12))
