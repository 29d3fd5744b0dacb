"""What the batch reader hands out, what it leaves on the server, and what becomes of one whose reading fails."""

import asyncio

import pytest

from projector_rig.builders import T0, created, queued
from projector_rig.log import PARTITIONS, Log
from support.waiting import eventually
from waterclock.core.domain.instants import MINUTE
from waterclock.projector.read import batch_reader
from waterclock.projector.read.batch_reader import _MOST_AHEAD, _PULL_BATCH, BatchReader
from waterclock.projector.read.positions import STREAMS, Positions
from waterclock.proto.events import Cursor, Frame
from waterclock.proto.names import partition_of


def from_the_beginning(*partitions: int) -> Positions:
    return Positions({(stream, partition): 0 for stream in STREAMS for partition in partitions})


async def test_nothing_piles_up_while_nobody_takes(log: Log) -> None:
    """As while Postgres is away: the rest stays in the log."""
    size = 500
    frames = _MOST_AHEAD // size + 2 * _PULL_BATCH
    events = tuple(queued("job", T0 + number * MINUTE) for number in range(size))
    partition = partition_of("job", PARTITIONS)
    for _ in range(frames):
        await log.frame(partition, Frame(writer="w", events=events))
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:

        async def full() -> bool:
            """the reader has read as far ahead as it may"""
            return reader.waiting >= _MOST_AHEAD

        await eventually(full)
        assert reader.waiting <= _MOST_AHEAD + _PULL_BATCH * size
        assert reader.waiting < frames * size
        taken = 0
        while taken < frames * size:
            assert await reader.wait(5.0)
            taken += reader.take(10_000).events
        assert taken == frames * size


async def test_runs_come_with_the_definitions_that_their_writer_had_seen(log: Log) -> None:
    partition = partition_of("job", PARTITIONS)
    version = await log.jobs(created("job"))
    await log.frame(
        partition, Frame(writer="w", events=(queued("job"),), cursor=Cursor(jobs=version + 1, time=0))
    )
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:

        async def both_are_there() -> bool:
            """the definition and the run have arrived"""
            return reader.waiting == 2

        await eventually(both_are_there)
        first = reader.take(100)
        assert (len(first.jobs), len(first.runs)) == (1, 0)
        await log.jobs(created("job", name="edited"))
        assert await reader.wait(5.0)
        second = reader.take(100)
        assert (len(second.jobs), len(second.runs)) == (1, 1)


async def test_while_it_rests_batch_after_batch_is_whole(log: Log) -> None:
    """Nothing stays in the log that is there when a batch is fetched, and the first of the next shows itself."""
    partition = partition_of("job", PARTITIONS)
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:
        reader.rest()
        for batch in range(3):
            events = [queued("job", T0 + (10 * batch + number) * MINUTE) for number in range(5)]
            version = await log.jobs(created("job", name=f"edited {batch}"))
            cursor = Cursor(jobs=version, time=0)
            for event in events:
                await log.frame(partition, Frame(writer="w", events=(event,), cursor=cursor))
            assert await reader.wait(5.0)
            await reader.fetch()
            taken = reader.take(100)
            assert [event for message in taken.runs for event in message.events] == events
            assert len(taken.jobs) == 1


async def test_a_definition_that_has_left_the_log_is_not_waited_for(log: Log) -> None:
    partition = partition_of("job", PARTITIONS)
    version = await log.jobs(created("job"))
    await log.connection.api("STREAM.PURGE.JOBS", {"filter": "wc.jobs.*.job"})
    await log.frame(
        partition, Frame(writer="w", events=(queued("job"),), cursor=Cursor(jobs=version, time=0))
    )
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:
        assert await reader.wait(5.0)
        assert len(reader.take(100).runs) == 1


async def test_what_a_partition_has_folded_is_not_handed_out_again(log: Log) -> None:
    here, there = 0, 1
    first = await log.frame(here, Frame(writer="w", events=(queued("a"),)))
    second = await log.frame(there, Frame(writer="w", events=(queued("b"),)))
    third = await log.frame(here, Frame(writer="w", events=(queued("c"),)))
    positions = Positions({("JOBS", here): 0, ("JOBS", there): 0, ("RUNS", here): first, ("RUNS", there): 0})
    async with BatchReader.open(log.connection, positions) as reader:
        taken: list[int] = []
        while len(taken) < 2:
            assert await reader.wait(5.0)
            taken += [message.sequence for message in reader.take(100).runs]
        assert taken == [second, third]


async def test_a_stream_that_can_no_longer_be_read_ends_whoever_reads(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that waits for something else and would not ask the reader for a long time."""

    class Broken(Exception):
        pass

    async def fail(*_: object, **__: object) -> None:
        raise Broken

    partition = partition_of("job", PARTITIONS)
    monkeypatch.setattr("waterclock.projector.read.batch_reader.Pull.next", fail)
    with pytest.raises(Broken):
        async with asyncio.timeout(10), BatchReader.open(log.connection, from_the_beginning(partition)):
            await asyncio.Event().wait()


async def test_a_batch_that_is_cut_has_what_was_stored_first_of_both_streams(log: Log) -> None:
    partition = partition_of("job", PARTITIONS)
    stored = []
    for number in range(6):
        version = await log.jobs(created(f"job{number}"), subject="job")
        cursor = Cursor(jobs=version, time=0)
        run = queued(f"job{number}")
        stored += [(version, await log.frame(partition, Frame(writer="w", events=(run,), cursor=cursor)))]
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:

        async def all_are_there() -> bool:
            """what was stored has arrived"""
            return reader.waiting == 12

        await eventually(all_are_there)
        batches = [reader.take(4) for _ in range(3)]
    found = [
        (job.sequence, run.sequence)
        for batch in batches
        for job, run in zip(batch.jobs, batch.runs, strict=True)
    ]
    assert found == stored


@pytest.mark.parametrize("is_new", [True, False])
async def test_in_a_flood_new_definitions_wait_for_their_runs(
    log: Log, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """They would be written now and changed with the next batch."""
    monkeypatch.setattr(batch_reader, "_PLENTY", 2)
    if not is_new:
        monkeypatch.setattr(batch_reader, "_MEET", -MINUTE)
    partition = partition_of("job", PARTITIONS)
    version = await log.jobs(created("job"))
    cursor = Cursor(jobs=version, time=0)
    await log.frame(partition, Frame(writer="w", events=(queued("job"),), cursor=cursor))
    await log.jobs(created("job", name="later"))
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:

        async def all_are_there() -> bool:
            """what was stored has arrived"""
            return reader.waiting == 3

        await eventually(all_are_there)
        first, second = reader.take(100), reader.take(100)
    assert (len(first.jobs), len(first.runs)) == (1 if is_new else 2, 1)
    assert (len(second.jobs), len(second.runs)) == (1 if is_new else 0, 0)


async def test_one_shots_that_are_queued_need_their_own_definitions_only(log: Log) -> None:
    """The others that their writer had seen may come later."""
    partition = partition_of("job", PARTITIONS)
    version = await log.jobs(created("job"))
    for events in ((queued("job", version=version, once=True),), (queued("job", version=version),)):
        frame = Frame(writer="w", events=events, cursor=Cursor(jobs=version + 1, time=0))
        await log.frame(partition, frame)
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:

        async def all_are_there() -> bool:
            """what was stored has arrived"""
            return reader.waiting == 3

        await eventually(all_are_there)
        taken = reader.take(100)
        assert (len(taken.jobs), len(taken.runs)) == (1, 1)


async def test_in_a_flood_definitions_that_somebody_waits_for_do_not_wait(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "_PLENTY", 1)
    partition = partition_of("job", PARTITIONS)
    await log.frame(partition, Frame(writer="w", events=(queued("job"),)))
    await log.jobs(created("job"))
    async with BatchReader.open(log.connection, from_the_beginning(partition)) as reader:

        async def both_are_there() -> bool:
            """what was stored has arrived"""
            return reader.waiting == 2

        await eventually(both_are_there)
        taken = reader.take(100, hurry=True)
        assert (len(taken.jobs), len(taken.runs)) == (1, 1)


async def test_without_a_run_definitions_wait_for_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "_PLENTY", 1)
    await log.jobs(created("job"))
    async with BatchReader.open(
        log.connection, from_the_beginning(partition_of("job", PARTITIONS))
    ) as reader:
        assert await reader.wait(5.0)
        assert len(reader.take(100).jobs) == 1
