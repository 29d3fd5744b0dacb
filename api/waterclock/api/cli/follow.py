"""Following a job's first run to its end: its output as it comes, then how it ended."""

import sys

from waterclock.api.cli.exits import Exit
from waterclock.api.cli.output import note, print_json
from waterclock.api.cli.streams import changes, log_of
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import methods, queries
from waterclock.proto.answers import JobAccepted, Run
from waterclock.proto.verdicts import TERMINAL


def follow_to_end(wire: BlockingWire, accepted: JobAccepted, *, json: bool) -> int:
    """Follows a new job's first run. The exit code: done if the run succeeded."""
    return follow_run(wire, _first_run(wire, accepted), json=json)


def follow_run(wire: BlockingWire, run_id: str, *, json: bool) -> int:
    if not json:
        print_log(wire, run_id, follow=True)
    run = wire.call(methods.RUNS_GET, queries.RunRef(run_id=run_id))
    if run.status not in TERMINAL:
        run = _ended(wire, run_id)
    if json:
        print_json(run)
    elif run.status != "SUCCESS":
        note(f"waterclock: {run_id} is {run.status}{_why(run)}")
    return Exit.DONE if run.status == "SUCCESS" else Exit.FAILED


def print_log(wire: BlockingWire, run_id: str, *, follow: bool) -> None:
    for data in log_of(wire, run_id, follow=follow):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _first_run(wire: BlockingWire, accepted: JobAccepted) -> str:
    """The run of a new job, as soon as there is one; the latest of a job that was there already."""
    job = wire.call(methods.JOBS_GET, queries.JobRef(job_id=accepted.job_id))
    if job.last_run is not None:
        return job.last_run.run_id
    for change in changes(wire, job=accepted.job_id, since=job.created_at):
        if change.run_id is not None:
            return change.run_id
    raise AssertionError("the changes of a job end with a run")


def _ended(wire: BlockingWire, run_id: str) -> Run:
    for _ in changes(wire, run=run_id):
        run = wire.call(methods.RUNS_GET, queries.RunRef(run_id=run_id))
        if run.status in TERMINAL:
            break
    return run


def _why(run: Run) -> str:
    reason = run.reason or run.error_message or ""
    return f": {' '.join(reason.split())}" if reason else ""
