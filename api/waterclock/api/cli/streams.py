"""Streams of answers that go on where they broke off, until nothing more can come."""

from collections.abc import Iterator
from datetime import datetime

from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.streams import LogPosition, WatchPosition
from waterclock.proto import methods
from waterclock.proto.answers import Change


def log_of(wire: BlockingWire, run_id: str, *, follow: bool) -> Iterator[bytes]:
    """A run's output in pieces; `follow` stays until the run has ended."""
    position = LogPosition(run_id, follow=follow)
    while not position.over:
        for chunk in wire.follow(methods.RUNS_LOG, position.request):
            yield position.advance(chunk)
        position.call_ended()


def changes(
    wire: BlockingWire, *, job: str | None = None, run: str | None = None, since: datetime | None = None
) -> Iterator[Change]:
    """What happens to a job's runs, or to one run. The first one only tells the position."""
    position = WatchPosition(job=job, run=run, since=since)
    while not position.over:
        for change in wire.follow(methods.EVENTS_WATCH, position.request):
            position.advance(change)
            yield change
