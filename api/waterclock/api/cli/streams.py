"""Streams of answers that go on where they broke off, until nothing more can come."""

from collections.abc import Iterator
from datetime import datetime

from waterclock.api.client.blocking_wire import STAY, BlockingWire
from waterclock.proto import methods
from waterclock.proto.answers import Change
from waterclock.proto.queries import LogQuery, WatchQuery


def log_of(wire: BlockingWire, run_id: str, *, follow: bool) -> Iterator[bytes]:
    """A run's output in pieces; `follow` stays until the run has ended."""
    offset, last = 0, False

    def asked() -> LogQuery:
        return LogQuery(run_id=run_id, follow=follow, offset=offset, stay_seconds=STAY)

    while not last:
        for chunk in wire.follow(methods.RUNS_LOG, asked):
            offset, last = chunk.next, chunk.last
            yield chunk.text.encode() if chunk.data is None else chunk.data
        last = last or not follow


def changes(
    wire: BlockingWire, *, job: str | None = None, run: str | None = None, since: datetime | None = None
) -> Iterator[Change]:
    """What happens to a job's runs, or to one run. The first one only tells the position."""
    after: str | None = None
    over = False

    def asked() -> WatchQuery:
        return WatchQuery(
            job=job, run=run, since=since if after is None else None, after=after, stay_seconds=STAY
        )

    while not over:
        for change in wire.follow(methods.EVENTS_WATCH, asked):
            after, over = change.position, change.final
            yield change
