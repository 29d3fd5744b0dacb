"""The stream `QUARANTINE`: copies of the records that somebody could not read, to be looked at and dropped.

A record is kept once for each component that could not read it, however often it is read. One that was dropped stays as
an empty message, so that reading it again does not bring it back. Nothing is made from this stream: its oldest leave
for the newest.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.protocol import publish_command
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import QUARANTINE, Unreadable
from waterclock.proto import names
from waterclock.proto.codec import Undecodable, decoder
from waterclock.proto.work import QuarantinedRecord

_MOST_DATA = 16 * 1024
_FIRST = {"Nats-Expected-Last-Subject-Sequence": "0"}

_decode = decoder(QuarantinedRecord)


@contextmanager
def quarantining(connection: Connection, component: str) -> Iterator[None]:
    """Keep what this process cannot read, while the scope lasts. A report is lost while the server is away."""

    def keep(found: Unreadable) -> None:
        record = QuarantinedRecord(
            stream=found.stream,
            sequence=found.sequence,
            subject=found.subject,
            component=component,
            at=now_us(),
            error=found.error[:1000],
            size=len(found.data),
            data=found.data[:_MOST_DATA],
        )
        subject = names.quarantine_subject(component, found.stream, found.sequence)
        try:
            connection.nc.send(publish_command(subject, "", _FIRST, msgspec.json.encode(record)))
        except Disconnected:
            pass

    before, QUARANTINE.sink = QUARANTINE.sink, keep
    try:
        if before is not None:  # another component in this process, as in tests
            yield
        else:
            with QUARANTINE.registered():
                yield
    finally:
        if QUARANTINE.sink is keep:
            QUARANTINE.sink = before


async def quarantined(connection: Connection) -> list[QuarantinedRecord]:
    """All that was not dropped, the oldest first."""
    found: list[QuarantinedRecord] = []
    every = names.quarantine_subject("*", "*", "*")
    async with Pull.ordered(connection, names.QUARANTINE, [every], after_sequence=0) as pull:
        async for deliveries in pull.backlog():
            for delivery in deliveries:
                try:
                    found += [_decode(delivery.data)] if delivery.data else []
                except Undecodable:
                    pass  # somebody wrote here who should not; it is bounded, and read by nobody else
    return found


async def drop(publisher: Publisher, record: QuarantinedRecord) -> None:
    subject = names.quarantine_subject(record.component, record.stream, record.sequence)
    await publisher.publish(subject, b"")
