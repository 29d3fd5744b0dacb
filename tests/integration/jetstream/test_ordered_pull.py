"""Reading the log in order: never skip, never repeat, whatever happens in between."""

import asyncio
from contextlib import suppress

import pytest

from integration.jetstream.outage import restart
from integration.jetstream.relay import relay
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.nats_client import WireClient
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.core.jetstream.pull_loop import Pull


async def store(publisher: Publisher, start: int, stop: int) -> None:
    for begin in range(start, stop, 500):
        numbers = range(begin, min(begin + 500, stop))
        await publisher.publish_batch(
            [Message(subject=f"wc.jobs.1.{n}", data=str(n).encode()) for n in numbers], deadline=20
        )


async def read(pull: Pull, count: int, *, within: float = 10) -> list[int]:
    """The next so many messages, as numbers, with no longer a silence than that."""
    numbers: list[int] = []
    while len(numbers) < count:
        arrived = await pull.next(timeout=within)
        assert arrived, f"silence after {len(numbers)} of {count}"
        numbers += [int(delivery.data) for delivery in arrived]
    return numbers


async def consumers_of(connection: Connection, stream: str) -> list[str]:
    names: list[str] = (await connection.api(f"CONSUMER.NAMES.{stream}", {}))["consumers"] or []
    return names


async def test_the_past_and_then_the_present(connection: Connection, publisher: Publisher) -> None:
    await store(publisher, 0, 3000)
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, batch=700) as pull:
        assert pull.pending == 3000
        assert await read(pull, 3000) == list(range(3000))
        assert (pull.pending, pull.sequence) == (0, 3000)
        assert await pull.next(timeout=0.05) == []
        await publisher.publish("wc.jobs.2.x", b"another partition")
        await publisher.publish("wc.jobs.1.x", b"3000")
        assert await read(pull, 1) == [3000]
        assert pull.sequence == 3002


async def test_several_filters_and_a_place_to_begin(connection: Connection, publisher: Publisher) -> None:
    for number, partition in enumerate([1, 2, 3, 1, 2, 3]):
        await publisher.publish(f"wc.jobs.{partition}.x", str(number).encode())
    filters = ["wc.jobs.1.>", "wc.jobs.3.>"]
    async with Pull.ordered(connection, "JOBS", filters, after_sequence=1) as pull:
        assert await read(pull, 3) == [2, 3, 5]


async def test_a_message_is_there_as_soon_as_it_is_stored(
    connection: Connection, publisher: Publisher
) -> None:
    async with Pull.ordered(connection, "RUNS", ["wc.runs.1"], after_sequence=0) as pull:
        for number in range(20):
            waiting = asyncio.create_task(pull.next())
            await publisher.publish("wc.runs.1", str(number).encode())
            (delivery,) = await asyncio.wait_for(waiting, 0.5)
            assert int(delivery.data) == number


async def test_one_that_rests_brings_the_first_and_the_others_when_they_are_fetched(
    connection: Connection, publisher: Publisher
) -> None:
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, batch=5) as pull:
        await store(publisher, 0, 5)
        assert await read(pull, 5) == list(range(5))
        pull.rest()
        await store(publisher, 5, 13)
        numbers: list[int] = []

        async def reading() -> None:
            while True:
                numbers.extend(int(delivery.data) for delivery in await pull.next())

        reader = asyncio.create_task(reading())
        await eventually(lambda: numbers == [5], "the first")
        await pull.fetch()
        assert numbers == list(range(5, 11)), "and a batch"
        pull.rest()
        await eventually(lambda: numbers == list(range(5, 12)), "the next first")
        pull.flow()
        await eventually(lambda: numbers == list(range(5, 13)), "all of them")
        reader.cancel()


async def test_nothing_is_lost_by_one_that_rests_through_a_restart(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, batch=100) as pull:
        numbers: list[int] = []

        async def reading() -> None:
            while True:
                numbers.extend(int(delivery.data) for delivery in await pull.next())

        reader = asyncio.create_task(reading())
        for start in range(0, 60, 20):
            pull.rest()
            await store(publisher, start, start + 20)
            await restart(nats_server)

            async def all_are_there(stop: int = start + 20) -> bool:
                await pull.fetch()
                return numbers == list(range(stop))

            await eventually(all_are_there, "what was stored before the restart")
        reader.cancel()


async def test_who_is_cancelled_while_it_closes_one_is_cancelled(connection: Connection) -> None:
    """Else a service that is told to stop at that moment would never hear of it, and go on for ever."""
    read = asyncio.Event()

    async def look() -> None:
        async with Pull.ordered(connection, "RUNS", ["wc.runs.1"], after_sequence=0):
            read.set()

    looking = asyncio.create_task(look())
    await read.wait()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking


async def test_idle_for_longer_than_a_request_lives(connection: Connection, publisher: Publisher) -> None:
    async with Pull.ordered(connection, "RUNS", ["wc.runs.1"], after_sequence=0) as pull:
        (name,) = await consumers_of(connection, "RUNS")
        assert await pull.next(timeout=2.5) == []
        await publisher.publish("wc.runs.1", b"0")
        assert await read(pull, 1) == [0]
        assert await consumers_of(connection, "RUNS") == [name]


async def test_the_backlog_ends_where_the_present_begins(
    connection: Connection, publisher: Publisher
) -> None:
    await store(publisher, 0, 3000)
    numbers: list[int] = []
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=10, batch=500) as pull:
        async for deliveries in pull.backlog():
            numbers += [int(delivery.data) for delivery in deliveries]
            await publisher.publish("wc.jobs.1.later", b"-1")
        assert numbers[:2990] == list(range(10, 3000))
        assert pull.sequence >= 3000
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.2.>"], after_sequence=0) as pull:
        assert [deliveries async for deliveries in pull.backlog()] == []


async def test_a_backlog_that_is_removed_unread_is_not_waited_for(
    connection: Connection, publisher: Publisher
) -> None:
    for number in range(20):
        await publisher.publish(f"$KV.timing.{number}", b"x")
    seen = 0
    async with Pull.ordered(connection, "KV_timing", ["$KV.timing.*"], after_sequence=0, batch=5) as pull:
        async for deliveries in pull.backlog():
            seen += len(deliveries)
            await connection.api("STREAM.PURGE.KV_timing", {"filter": "$KV.timing.*"})
    assert 5 <= seen < 20


async def test_through_kill_nine(connection: Connection, publisher: Publisher, nats_server: Server) -> None:
    async with (
        Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, batch=500) as pull,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(store(publisher, 0, 20_000))
        numbers = await read(pull, 2000)
        await restart(nats_server)
        numbers += await read(pull, 20_000 - len(numbers))
        assert numbers == list(range(20_000))


async def test_through_the_loss_of_its_consumer(connection: Connection, publisher: Publisher) -> None:
    """It is read on all the time: a reader that has enough for now need not notice that its consumer has gone. If the
    server says nothing about it, that takes up to 18 s on a server that stands alone."""
    await store(publisher, 0, 10_000)
    numbers: list[int] = []
    deleted = 0
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, batch=1000) as pull:
        while len(numbers) < 10_000:
            numbers += await read(pull, 1, within=30)
            if deleted < 3:
                for name in await consumers_of(connection, "JOBS"):
                    with suppress(NotFound):
                        await connection.api(f"CONSUMER.DELETE.JOBS.{name}")
                        deleted += 1
    assert deleted >= 3
    assert numbers == list(range(10_000))


async def test_through_a_wire_that_breaks_with_messages_on_it(
    connection: Connection, publisher: Publisher, log_url: str
) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="far") as far:
        await store(publisher, 0, 20_000)
        async with Pull.ordered(far, "JOBS", ["wc.jobs.1.>"], after_sequence=0, batch=2000) as pull:
            numbers: list[int] = []
            for cut_at in (1, 3000, 9000):
                while len(numbers) < cut_at:
                    numbers += await read(pull, 1)
                wire.cut()
            numbers += await read(pull, 20_000 - len(numbers))
            assert numbers == list(range(20_000))


async def test_through_silence(
    connection: Connection, publisher: Publisher, log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wire that carries nothing more without breaking is told from an idle one by the missing heartbeats."""
    monkeypatch.setattr(WireClient, "is_clustered", True)
    async with (
        relay(log_url) as wire,
        Connection.open(wire.url, name="far") as far,
        Pull.ordered(far, "JOBS", ["wc.jobs.1.>"], after_sequence=0) as pull,
    ):
        first = await consumers_of(connection, "JOBS")
        wire.muted = True
        await store(publisher, 0, 100)
        await eventually(
            lambda: consumers_of(connection, "JOBS"),
            within=4,
            wanted=lambda names: bool(set(names) - set(first)),
        )
        wire.muted = False
        assert await read(pull, 100) == list(range(100))


async def test_through_a_hole_in_what_arrived(
    connection: Connection, publisher: Publisher, log_url: str
) -> None:
    async with (
        relay(log_url) as wire,
        Connection.open(wire.url, name="far") as far,
        Pull.ordered(far, "JOBS", ["wc.jobs.1.>"], after_sequence=0) as pull,
    ):
        wire.muted = True
        await store(publisher, 0, 10)
        await wire.swallowed.wait()
        wire.muted = False
        await store(publisher, 10, 20)
        assert await read(pull, 20) == list(range(20))


async def test_it_leaves_no_consumer_behind(
    connection: Connection, publisher: Publisher, log_url: str
) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="far") as far:
        async with Pull.ordered(far, "JOBS", ["wc.jobs.1.>"], after_sequence=0) as pull:
            for number in range(3):
                wire.cut()
                await publisher.publish("wc.jobs.1.x", str(number).encode())
                assert await read(pull, 1, within=1.5) == [number]
            await eventually(lambda: consumers_of(connection, "JOBS"), wanted=lambda names: len(names) == 1)
        await eventually(lambda: consumers_of(connection, "JOBS"), wanted=lambda names: names == [])


async def test_a_stream_that_is_not_there_is_said_at_once_or_later(connection: Connection) -> None:
    with pytest.raises(NotFound):
        async with Pull.ordered(connection, "NONE", [">"], after_sequence=0):
            pass
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.>"], after_sequence=0) as pull:
        await connection.api("STREAM.DELETE.JOBS")
        with pytest.raises(NotFound):
            await pull.next(timeout=10)


async def test_a_reader_that_takes_nothing_gets_no_more_than_its_bytes(
    connection: Connection, publisher: Publisher
) -> None:
    """The rest stays in the stream, and comes when it is taken."""
    for number in range(200):
        await publisher.publish("wc.jobs.1.x", str(number).encode() + b" " * 10_000)
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, max_bytes=100_000) as pull:
        await eventually(lambda: pull._arrived_bytes >= 100_000)
        for _ in range(3):
            await stream_state(connection, "JOBS")  # whatever else was asked for would be here by now
        assert pull._arrived_bytes < 300_000
        assert pull.pending == 200
        assert await read(pull, 200) == list(range(200))


async def test_a_message_bigger_than_the_limit_in_bytes_gets_through(
    connection: Connection, publisher: Publisher
) -> None:
    sizes = [10, 400_000, 10, 10, 500_000, 600_000, 10]
    for number, size in enumerate(sizes):
        await publisher.publish("wc.jobs.1.x", str(number).encode() + b" " * size)
    async with Pull.ordered(connection, "JOBS", ["wc.jobs.1.>"], after_sequence=0, max_bytes=1000) as pull:
        assert await read(pull, len(sizes), within=1) == list(range(len(sizes)))
