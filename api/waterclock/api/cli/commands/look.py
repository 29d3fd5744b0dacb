"""Commands that look: jobs, job, runs, run, logs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.follow import print_log
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Limit, RunId, Watch
from waterclock.api.cli.output import facts, print_json, table
from waterclock.api.cli.session import connected, with_job, with_run
from waterclock.proto import methods, queries
from waterclock.proto.answers import Job, Page, Run


def jobs(
    status: Annotated[str | None, typer.Option(help="SCHEDULED, PAUSED, CANCELLED or COMPLETED.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="key=value or key; may be repeated.", metavar="K=V")
    ] = None,
    q: Annotated[
        str | None, typer.Option("--search", "-q", help="Text in id, name, labels or command.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="With exactly this name.", metavar="NAME")] = None,
    queue: Annotated[str | None, typer.Option(help="Of this queue.", metavar="Q")] = None,
    since: Annotated[str | None, typer.Option(help="Made at or after this instant.", metavar="T")] = None,
    until: Annotated[str | None, typer.Option(help="Made before this instant.", metavar="T")] = None,
    sort: Annotated[
        str, typer.Option(help="-created_at, created_at, name, -updated_at or next_run_at.", metavar="KEY")
    ] = "-created_at",
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page.", metavar="CURSOR")] = None,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List jobs, newest first unless sorted otherwise.

    waterclock jobs --label team=data --search backup --sort next_run_at --watch
    """
    fields = {
        "status": _status(status),
        "label": label or [],
        "q": q,
        "name": name,
        "queue": queue,
        "created_after": since,
        "created_before": until,
        "sort": sort,
        "limit": limit,
        "cursor": cursor,
    }
    query = decoding.convert(fields, queries.JobsQuery, text=False)
    with connected(data) as wire:
        _JOBS.show(lambda: wire.call(methods.JOBS_LIST, query), json=json, watch=watch)


def job(job_id: JobId, json: Json = False, data: Data = None) -> None:
    """Show one job."""
    with connected(data) as wire:
        found = with_job(wire, job_id, lambda id: wire.call(methods.JOBS_GET, queries.JobRef(job_id=id)))
    print_json(found) if json else print(facts(_job_facts(found)))


def runs(
    job_id: JobId,
    status: Annotated[str | None, typer.Option(help="Only runs in this status, e.g. FAILED.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Scheduled at or after this instant.", metavar="T")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Scheduled before this instant.", metavar="T")] = None,
    limit: Limit = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page.", metavar="CURSOR")] = None,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List a job's runs, newest first."""

    def listed(job_id: str) -> Page[Run]:
        fields = {
            "job_id": job_id,
            "status": _status(status),
            "after": since,
            "before": until,
            "limit": limit,
            "cursor": cursor,
        }
        return wire.call(methods.RUNS_LIST, decoding.convert(fields, queries.RunsQuery, text=False))

    with connected(data) as wire:
        _RUNS.show(lambda: with_job(wire, job_id, listed), json=json, watch=watch)


def run(run_id: RunId, json: Json = False, data: Data = None) -> None:
    """Show one run."""
    with connected(data) as wire:
        found = with_run(wire, run_id, lambda id: wire.call(methods.RUNS_GET, queries.RunRef(run_id=id)))
    print_json(found) if json else print(facts(_run_facts(found)))


def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay until the run has ended.")] = False,
    data: Data = None,
) -> None:
    """Print a run's output."""
    with connected(data) as wire:
        full = with_run(
            wire, run_id, lambda id: wire.call(methods.RUNS_GET, queries.RunRef(run_id=id))
        ).run_id
        print_log(wire, full, follow=follow)


def _status(text: str | None) -> Any:
    return None if text is None else text.upper()


def _job_row(job: Job) -> tuple[str, ...]:
    last = f"{job.last_run.status} {output.ago(job.last_run.modified_time)}" if job.last_run else ""
    return (job.job_id, job.name, job.status, output.schedule(job), output.ago(job.next_run_at), last)


def _run_row(run: Run) -> tuple[str, ...]:
    return (
        run.run_id,
        run.status,
        output.stamp(run.scheduled_time),
        output.ago(run.start_time),
        output.duration(_took(run.start_time, run.end_time)),
        str(run.attempt_number),
        run.error_message or run.reason or "",
    )


def _job_table(jobs: Sequence[Job]) -> str:
    heads = ("ID", "NAME", "STATUS", "SCHEDULE", "NEXT", "LAST RUN")
    return table(heads, [_job_row(job) for job in jobs]) if jobs else "no jobs"


def _run_table(runs: Sequence[Run]) -> str:
    heads = ("RUN", "STATUS", "SCHEDULED", "STARTED", "TOOK", "ATTEMPT", "REASON")
    return table(heads, [_run_row(run) for run in runs]) if runs else "no runs yet"


_JOBS = Listing[Job](key=lambda job: job.job_id, text=_job_table)
_RUNS = Listing[Run](key=lambda run: run.run_id, text=_run_table, document=lambda page: page.items)


def _took(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()


def _job_facts(job: Job) -> list[tuple[str, str]]:
    return [
        ("id", job.job_id),
        ("name", job.name),
        ("status", job.status),
        ("note", job.note),
        ("schedule", output.schedule(job)),
        ("runs", output.task(job.task)),
        (
            "next run",
            f"{output.stamp(job.next_run_at)} ({output.ago(job.next_run_at)})" if job.next_run_at else "",
        ),
        ("last run", f"{job.last_run.run_id} {job.last_run.status}" if job.last_run else ""),
        ("labels", " ".join(f"{key}={value}" for key, value in job.labels.items())),
        ("queue", f"{job.queue}, {job.tier}, priority {job.priority}"),
        ("retries", str(job.max_retries)),
        ("timeout", output.duration(job.timeout_seconds)),
        ("overlap", job.overlap),
        ("catch-up", f"{job.catch_up.policy} within {output.duration(job.catch_up.window_seconds)}"),
        ("delivery", job.delivery),
        ("version", str(job.version)),
        ("created", output.stamp(job.created_at)),
        ("changed", output.stamp(job.updated_at)),
    ]


def _run_facts(run: Run) -> list[tuple[str, str]]:
    return [
        ("id", run.run_id),
        ("job", run.job_id),
        ("status", run.status),
        ("reason", run.reason or ""),
        ("error", run.error_message or ""),
        ("exit code", output.text(run.exit_code)),
        ("attempt", str(run.attempt_number)),
        ("crashes", str(run.crash_count) if run.crash_count else ""),
        ("scheduled", output.stamp(run.scheduled_time)),
        ("queued", output.stamp(run.queued_time)),
        ("started", output.stamp(run.start_time)),
        ("ended", output.stamp(run.end_time)),
        ("took", output.duration(_took(run.start_time, run.end_time))),
        ("executor", run.executor_id or ""),
        ("output", output.text(run.output)),
        ("log", run.log_url or ""),
    ]
