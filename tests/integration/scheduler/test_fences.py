"""What an owner writes is there exactly once, and what a stale one writes is not there at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from integration.jetstream.outage import hanging, restart
from integration.jetstream.relay import Relay, relay
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.messages import last_message
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.settings import Settings
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.events import Cursor, Frame, RunRequested
from waterclock.scheduler.heartbeat import Heartbeat
from waterclock.scheduler.jetstream import logs as logs_module
from waterclock.scheduler.jetstream.logs import LeasedLog
from waterclock.scheduler.jetstream.timing_bucket import TimingBucket
from waterclock.scheduler.ports import LeaseLost

PARTITION = 3
CURSOR = Cursor(jobs=7, time=8)


class Owner:
    """What an owner of a partition writes with, over a connection of its own."""

    def __init__(self, connection: Connection, name: str, heartbeat: Heartbeat) -> None:
        publisher = Publisher(connection, deadline=None)
        self.lease = Lease(connection, publisher, names.RUNS, names.lease_subject(PARTITION), holder=name)
        self.index = TimingBucket(Bucket(connection, publisher, names.TIMING), PARTITION)
        self._publisher = publisher
        self._name = name
        self._heartbeat = heartbeat

    async def take(self) -> LeasedLog:
        """Whoever holds it is dead."""
        assert await self.lease.acquire(lambda _: True) is not None
        await self.index.take(self.lease)
        return LeasedLog(
            self._publisher, PARTITION, self.lease, self._heartbeat, instance=self._name, partitions=16
        )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    async with Connection.open(url, name="test") as connection:
        await ensure_streams(connection, Layout())
        yield connection


@pytest.fixture
def heartbeat(tmp_path: Path) -> Heartbeat:
    return Heartbeat(Settings(data=tmp_path), "test")


def events(count: int) -> list[RunRequested]:
    return [RunRequested(run_id=f"job@now-{number}", at=1, version=1) for number in range(count)]


async def frames(connection: Connection) -> list[Frame]:
    found = []
    subject = names.runs_subject(PARTITION)
    async with Pull.ordered(connection, names.RUNS, [subject], after_sequence=0) as pull:
        async for deliveries in pull.backlog():
            found += [decode_frame(delivery.data) for delivery in deliveries]
    return found


async def lose_the_answer(wire: Relay) -> None:
    await wire.swallowed.wait()
    wire.muted = False
    wire.cut()


@pytest.mark.parametrize("count", [0, 1, 3], ids=["an empty frame", "a frame", "a batch of frames"])
async def test_an_append_whose_answer_is_lost_is_there_once(
    nats_url: str, heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(logs_module, "_FRAME_EVENTS", 1)
    async with connected(nats_url) as near, relay(nats_url) as wire, connected(wire.url) as far:
        log = await Owner(far, "a", heartbeat).take()
        wire.muted = True
        wire.swallowed.clear()
        appending = asyncio.create_task(log.append(events(count), CURSOR))
        await lose_the_answer(wire)
        await appending
        found = await frames(near)
        assert [event for frame in found for event in frame.events] == events(count)
        assert [frame.cursor for frame in found][-1] == CURSOR
        assert len(found) == max(1, count)


async def test_an_append_goes_through_a_crash_of_the_server(
    nats_server: Server, heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "_FRAME_EVENTS", 1)
    async with connected(nats_server.url) as connection:
        log = await Owner(connection, "a", heartbeat).take()
        for _ in range(5):
            appending = asyncio.create_task(log.append(events(20), CURSOR))
            await asyncio.sleep(0)
            await restart(nats_server)
            await appending
        found = await frames(connection)
        assert [event for frame in found for event in frame.events] == 5 * events(20)


async def test_the_beginning_of_a_batch_that_a_crash_left_is_not_written_again(
    nats_url: str, heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "_FRAME_EVENTS", 1)
    async with connected(nats_url) as connection:
        owner = Owner(connection, "a", heartbeat)
        log = await owner.take()
        left = Frame(writer=log.writer, events=(events(1)[0],))
        await owner._publisher.publish(
            names.runs_subject(PARTITION),
            encode(left),
            msg_id=f"{log.writer}/1",
            expect=owner.lease.fence(),
        )
        await log.append(events(3), CURSOR)
        found = await frames(connection)
        assert [event for frame in found for event in frame.events] == events(3)
        assert log.last == 4  # after the lease and three frames


async def test_an_append_of_a_stale_owner_is_refused_also_after_a_repeat(
    nats_url: str, heartbeat: Heartbeat
) -> None:
    """The first answer is lost, and it was a refusal."""
    async with connected(nats_url) as near, relay(nats_url) as wire, connected(wire.url) as far:
        stale = await Owner(far, "a", heartbeat).take()
        fresh = await Owner(near, "b", heartbeat).take()
        await fresh.append(events(1), CURSOR)
        wire.swallowed.clear()
        wire.muted = True
        appending = asyncio.create_task(stale.append(events(1), CURSOR))
        await lose_the_answer(wire)
        with pytest.raises(LeaseLost):
            await appending
        assert [frame.writer for frame in await frames(near)] == [fresh.writer]


async def test_a_stale_owner_cannot_write_to_the_index(nats_url: str, heartbeat: Heartbeat) -> None:
    async with connected(nats_url) as connection:
        a, b = Owner(connection, "a", heartbeat), Owner(connection, "b", heartbeat)
        bucket = Bucket(connection, Publisher(connection), names.TIMING)
        key, other = names.timing_hot(PARTITION, "job", 1), names.timing_hot(PARTITION, "job", 2)
        await a.take()
        await a.index.write({key: b"1"})
        await b.take()
        await b.index.write({key: None, other: b"2"})
        with pytest.raises(LeaseLost):
            await a.index.write({key: b"1"})
        with pytest.raises(LeaseLost):
            await a.index.write({other: None})
        assert {entry.key: entry.value for entry in await bucket.scan(names.timing_all_hot(PARTITION))} == {
            other: b"2"
        }
        removed = await last_message(connection, bucket.stream, names.kv_subject(names.TIMING, key))
        assert removed is not None
        assert "Nats-TTL" in removed.headers, "a tombstone leaves by itself"


async def test_a_stale_owner_removes_nothing_that_was_written_after_it(
    nats_url: str, heartbeat: Heartbeat
) -> None:
    async with connected(nats_url) as connection:
        a, b = Owner(connection, "a", heartbeat), Owner(connection, "b", heartbeat)
        slot = names.timing_slot(PARTITION, "1.40")
        key, hot = names.timing_group(PARTITION, "1.40", "a", 1), names.timing_hot(PARTITION, "job", 1)
        await a.take()
        await a.index.write({key: b"1", hot: b"1"})
        await b.take()
        await b.index.write({key: b"2", hot: b"2"})
        await a.index.purge(slot)
        await a.index.remove_hot({"job": 1})
        bucket = Bucket(connection, Publisher(connection), names.TIMING)
        found = [*await bucket.scan(slot), *await bucket.scan(names.timing_all_hot(PARTITION))]
        assert [entry.value for entry in found] == [b"2", b"2"]


async def test_who_lost_the_lease_before_it_took_the_index_does_not_take_it(
    nats_url: str, heartbeat: Heartbeat
) -> None:
    async with connected(nats_url) as connection:
        a, b = Owner(connection, "a", heartbeat), Owner(connection, "b", heartbeat)
        await a.lease.acquire(lambda _: True)
        await b.take()
        with pytest.raises(LeaseLost):
            await a.index.take(a.lease)
        await b.index.write({names.timing_hot(PARTITION, "job", 1): b"1"})


async def test_an_owner_asks_for_its_lease_only_when_it_may_have_been_taken_for_dead(
    nats_url: str, heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(nats_url) as connection:
        a, b = Owner(connection, "a", heartbeat), Owner(connection, "b", heartbeat)
        log = await a.take()
        assert not log.is_certain, "no heartbeat has been acknowledged"
        await log.keep_lease()
        monkeypatch.setattr(Heartbeat, "is_fresh", True)
        assert log.is_certain
        await b.take()
        await log.keep_lease()
        heartbeat.doubts += 1
        assert not log.is_certain
        with pytest.raises(LeaseLost):
            await log.keep_lease()
        with pytest.raises(Conflict):
            a.lease.fence()


async def test_a_doubt_that_comes_while_we_ask_is_seen(
    nats_url: str, heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat's thread hears of a beat that came much too late: it is in doubt, and fresh again."""

    def hear(beat: Heartbeat) -> bool:
        beat.doubts += 1
        return True

    async with connected(nats_url) as connection:
        log = await Owner(connection, "a", heartbeat).take()
        monkeypatch.setattr(Heartbeat, "is_fresh", property(hear))
        assert not log.is_certain


async def test_whatever_is_read_waits_for_a_server_that_hangs(
    nats_server: Server, heartbeat: Heartbeat
) -> None:
    async with connected(nats_server.url) as connection:
        owner = Owner(connection, "a", heartbeat)
        log = await owner.take()
        key = names.timing_hot(PARTITION, "job", 1)
        async with hanging(nats_server):
            waiting = [
                asyncio.create_task(log.keep_lease()),
                asyncio.create_task(owner.index.write({key: b"1"})),
                asyncio.create_task(owner.index.remove_hot({"other": 1})),
            ]
            done, _ = await asyncio.wait(waiting, timeout=6)
            assert not done
        await asyncio.gather(*waiting)
        assert await eventually(lambda: Bucket(connection, Publisher(connection), names.TIMING).get(key)), (
            "it was written"
        )
