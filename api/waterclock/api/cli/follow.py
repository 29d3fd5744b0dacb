"""Follows a run to its end: its output as it comes, then how it ended. A broken connection is mended."""

import sys
from collections.abc import Iterator
from datetime import datetime

from waterclock.api.cli.exits import Exit
from waterclock.api.cli.output import note, print_json
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.streams import LogPosition, WatchPosition
from waterclock.api.errors import Unavailable
from waterclock.proto import methods, queries
from waterclock.proto.answers import Change, JobAccepted, Run
from waterclock.proto.verdicts import TERMINAL

_TAIL_BYTES = 64 * 1024


def follow_to_end(wire: BlockingWire, accepted: JobAccepted, *, json: bool) -> int:
    """Follows a new job's first run. The exit code: done if the run succeeded."""
    return follow_run(wire, _first_run(wire, accepted), json=json)


def follow_run(wire: BlockingWire, run_id: str, *, json: bool) -> int:
    if not json:
        _print_log_if_there_is_one(wire, run_id)
    run = wire.call(methods.RUNS_GET, queries.RunRef(run_id=run_id))
    if run.status not in TERMINAL:
        run = _ended(wire, run_id)
    if json:
        print_json(run)
    elif run.status != "SUCCESS":
        note(f"waterclock: {run_id} is {run.status}{_why(run)}")
    return Exit.DONE if run.status == "SUCCESS" else Exit.FAILED


def _print_log_if_there_is_one(wire: BlockingWire, run_id: str) -> None:
    """A run is what it is, also where its output cannot be read."""
    try:
        print_log(wire, run_id, follow=True)
    except Unavailable as error:
        note(
            f"waterclock: the output of {run_id} cannot be read: {error.problem.detail or error.problem.title}"
        )


def print_log(
    wire: BlockingWire, run_id: str, *, follow: bool, attempt: int | None = None, lines: int | None = None
) -> None:
    """`lines`: only the last ones of what there is by now."""
    offset = 0
    if lines is not None:
        last, offset = _last_lines(wire, run_id, attempt, lines)
        _print(last)
        if not follow:
            return
    for data in _log(wire, LogPosition(run_id, follow=follow, attempt=attempt, offset=offset), follow=follow):
        _print(data)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _last_lines(wire: BlockingWire, run_id: str, attempt: int | None, lines: int) -> tuple[bytes, int]:
    """And the byte after them. More and more of the end is read, until there are enough."""
    size = _TAIL_BYTES
    while True:
        position = LogPosition(run_id, follow=False, attempt=attempt, tail=size)
        tail = b"".join(_log(wire, position, follow=False))
        kept = tail.splitlines(keepends=True)
        if len(kept) > lines or len(tail) < size:
            return b"".join(kept[-lines:]) if lines else b"", position.offset
        size *= 8


def _log(wire: BlockingWire, position: LogPosition, *, follow: bool) -> Iterator[bytes]:
    """A run's output in pieces; `follow` stays until the run has ended."""
    while not position.over:
        for chunk in wire.follow(methods.RUNS_LOG, position.request):
            yield position.advance(chunk)
        position.call_ended()


def _changes(
    wire: BlockingWire, *, job: str | None = None, run: str | None = None, since: datetime | None = None
) -> Iterator[Change]:
    """What happens to a job's runs, or to one run. The first one only tells the position."""
    position = WatchPosition(job=job, run=run, since=since)
    while not position.over:
        for change in wire.follow(methods.EVENTS_WATCH, position.request):
            position.advance(change)
            yield change


def _first_run(wire: BlockingWire, accepted: JobAccepted) -> str:
    """The run of a new job, as soon as there is one; the latest of a job that was there already."""
    job = wire.call(methods.JOBS_GET, queries.JobRef(job_id=accepted.job_id))
    if job.last_run is not None:
        return job.last_run.run_id
    for change in _changes(wire, job=accepted.job_id, since=job.created_at):
        if change.run_id is not None:
            return change.run_id
    raise AssertionError("the changes of a job end with a run")


def _ended(wire: BlockingWire, run_id: str) -> Run:
    for _ in _changes(wire, run=run_id):
        run = wire.call(methods.RUNS_GET, queries.RunRef(run_id=run_id))
        if run.status in TERMINAL:
            break
    return run


def _why(run: Run) -> str:
    reason = run.reason or run.error_message or ""
    return f": {' '.join(reason.split())}" if reason else ""
