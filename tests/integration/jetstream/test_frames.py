"""Events become frames: at once when alone, together when many, in order and complete through an outage."""

import asyncio
import time

import pytest

from integration.jetstream.outage import kill, restart, start
from integration.jetstream.relay import relay
from servers.server import Server
from waterclock.core.jetstream import frame_writer
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogUnavailable, TooLarge
from waterclock.core.jetstream.frame_writer import MAX_EVENTS, FrameWriter
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.proto.codec import decode_frame
from waterclock.proto.events import Frame, RunStarted


def event(number: int, executor_id: str = "executor-1") -> RunStarted:
    return RunStarted(run_id=f"job@{number}", at=number, attempt=1, executor_id=executor_id)


async def frames_of(connection: Connection, partition: int) -> list[tuple[int, Frame]]:
    found = []
    source = Pull.ordered(connection, "RUNS", [f"wc.runs.{partition}"], after_sequence=0)
    async with source as pull:
        while pull.pending:
            found += [(delivery.sequence, decode_frame(delivery.data)) for delivery in await pull.next()]
    return found


async def test_a_lone_event_goes_at_once(connection: Connection, publisher: Publisher) -> None:
    writer = FrameWriter(publisher, writer="executor-1", linger=60)
    sequence = await asyncio.wait_for(writer.append(3, event(1)), 2)
    assert await frames_of(connection, 3) == [(sequence, Frame(writer="executor-1", events=(event(1),)))]


async def test_events_of_one_moment_share_a_frame(connection: Connection, publisher: Publisher) -> None:
    writer = FrameWriter(publisher, writer="executor-1")
    futures = [writer.append(number % 2, event(number)) for number in range(100)]
    sequences = await asyncio.gather(*futures)
    assert len(set(sequences)) == 2
    ((sequence, even),) = await frames_of(connection, 0)
    assert [each.at for each in even.events] == list(range(0, 100, 2))
    assert {sequence} == set(sequences[::2])
    assert writer.unacknowledged == 0


async def test_what_follows_within_the_linger_gathers(connection: Connection, publisher: Publisher) -> None:
    writer = FrameWriter(publisher, writer="executor-1", linger=0.3)
    began = time.monotonic()
    await writer.append(0, event(0))
    futures = []
    for number in range(1, 20):
        futures.append(writer.append(0, event(number)))
        await asyncio.sleep(0)
    assert len(set(await asyncio.gather(*futures))) == 1
    assert time.monotonic() - began > 0.25
    assert [len(frame.events) for _, frame in await frames_of(connection, 0)] == [1, 19]


async def test_a_flood_keeps_its_order_and_its_limits(connection: Connection, publisher: Publisher) -> None:
    writer = FrameWriter(publisher, writer="executor-1")
    for number in range(5 * MAX_EVENTS + 7):
        writer.append(0, event(number))
    await writer.flush()
    found = [frame for _, frame in await frames_of(connection, 0)]
    assert [each.at for frame in found for each in frame.events] == list(range(5 * MAX_EVENTS + 7))
    assert max(len(frame.events) for frame in found) == MAX_EVENTS


async def test_through_kill_nine_in_order_once_and_complete(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    writer = FrameWriter(publisher, writer="executor-1")
    futures: list[asyncio.Future[int]] = []
    enough = asyncio.Event()

    async def produce() -> None:
        while not enough.is_set():
            await writer.ready()
            for _ in range(20):
                futures.append(writer.append(len(futures) % 4, event(len(futures))))
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        for _ in range(2):
            enough_for_now = sum(future.done() for future in futures) + 1000
            while sum(future.done() for future in futures) < enough_for_now:
                await asyncio.sleep(0.01)
            await restart(nats_server)
        enough.set()
    await writer.close()

    for partition in range(4):
        read = [
            (sequence, each.at)
            for sequence, frame in await frames_of(connection, partition)
            for each in frame.events
        ]
        assert read == [(futures[at].result(), at) for at in range(partition, len(futures), 4)]


async def test_a_frame_whose_answers_are_lost_for_long_is_stored_once(
    connection: Connection, log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_writer, "_ATTEMPT", 0.2)
    async with relay(log_url) as wire, Connection.open(wire.url, name="far") as far:
        writer = FrameWriter(Publisher(far), writer="executor-1")
        wire.muted = True
        future = writer.append(0, event(1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(future), 0.7)
        wire.muted = False
        assert await future == 1
    assert len(await frames_of(connection, 0)) == 1


async def test_a_writer_who_may_not_read_the_log_repeats_a_frame_all_the_same(
    connection: Connection, log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor's user may append to `RUNS` and not read it."""

    async def refused(call: str, _query: object = None) -> None:
        raise AssertionError(f"{call} is not for everybody")

    async with relay(log_url) as wire, Connection.open(wire.url, name="far") as far:
        monkeypatch.setattr(far, "api", refused)
        writer = FrameWriter(Publisher(far), writer="executor-1")
        wire.muted = True
        future = writer.append(0, event(1))
        await wire.swallowed.wait()
        wire.cut()
        wire.muted = False
        assert await future == 1
    assert len(await frames_of(connection, 0)) == 1


async def test_too_much_unacknowledged_holds_the_producer_back(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    writer = FrameWriter(publisher, writer="executor-1", max_unacknowledged=50)
    await kill(nats_server)
    for number in range(50):
        await asyncio.wait_for(writer.ready(), 1)
        writer.append(0, event(number))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.ready(), 0.1)
    await start(nats_server)
    await asyncio.wait_for(writer.ready(), 10)
    await writer.close()
    assert sum(len(frame.events) for _, frame in await frames_of(connection, 0)) == 50


async def test_closing_while_the_server_is_away_says_what_is_not_in_the_log(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    writer = FrameWriter(publisher, writer="executor-1")
    await kill(nats_server)
    futures = [writer.append(0, event(number)) for number in range(3)]
    await writer.close(grace=0.2)
    for future in futures:
        with pytest.raises(LogUnavailable):
            await future
    with pytest.raises(RuntimeError, match="closed"):
        writer.append(0, event(4))
    assert writer.unacknowledged == 0


async def test_an_event_too_large_fails_alone(connection: Connection, publisher: Publisher) -> None:
    writer = FrameWriter(publisher, writer="executor-1")
    small = writer.append(0, event(1))
    with pytest.raises(TooLarge):
        await writer.append(0, event(2, executor_id="x" * publisher.max_payload))
    assert await small == 1
    await writer.close()


async def test_a_caller_who_gives_up_does_not_disturb_the_others(
    connection: Connection, publisher: Publisher
) -> None:
    writer = FrameWriter(publisher, writer="executor-1")
    first, second = writer.append(0, event(1)), writer.append(0, event(2))
    first.cancel()
    assert await second == 1
    ((_, frame),) = await frames_of(connection, 0)
    assert len(frame.events) == 2
