"""Finding a moment in the log."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import message_at, sequence_before
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names

SUBJECT = names.runs_subject(1)


@pytest.fixture
async def log(nats_url: str) -> AsyncIterator[Connection]:
    async with Connection.open(nats_url, name="moments") as connection:
        await ensure_streams(connection, Layout())
        yield connection


async def test_a_log_that_holds_nothing_yet_is_read_from_its_beginning(log: Connection) -> None:
    after = await sequence_before(log, names.RUNS, SUBJECT, datetime.now(UTC))
    async with Pull.ordered(log, names.RUNS, [SUBJECT], after_sequence=after) as pull:
        await Publisher(log).publish(SUBJECT, b"first")
        assert [delivery.data for delivery in await pull.next(timeout=10)] == [b"first"]


async def test_what_is_later_was_stored_at_or_after_the_moment(log: Connection) -> None:
    publisher = Publisher(log)
    sequences = [await publisher.publish(SUBJECT, str(number).encode()) for number in range(20)]
    for sequence in sequences:
        stored = await message_at(log, names.RUNS, sequence)
        assert stored is not None
        assert await sequence_before(log, names.RUNS, SUBJECT, stored.timestamp) == sequence - 1
        later = stored.timestamp + timedelta(microseconds=1)
        assert await sequence_before(log, names.RUNS, SUBJECT, later) >= sequence
