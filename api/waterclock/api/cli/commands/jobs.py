"""Commands about jobs: look at them, change them, run one now."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.follow import follow_run
from waterclock.api.cli.job_options import with_job_options
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Limit, Note, Version, Watch
from waterclock.api.cli.output import facts, print_json, stamp, table
from waterclock.api.cli.session import (
    connected,
    with_artifact,
    with_dependencies,
    with_job,
)
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import Job


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
        "status": status and status.upper(),
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


@with_job_options
def update(
    job_id: JobId,
    fields: dict[str, Any],
    name: Annotated[str | None, typer.Option(help="Rename it.", metavar="NAME")] = None,
    if_version: Version = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Change a job. What is not said stays; the change counts from now, and a time that is over means now."""
    if name is not None:
        fields["name"] = name

    def edit(job_id: str) -> Job:
        patch = decoding.convert(
            {**fields, "job_id": job_id, "if_match": if_version}, commands.JobPatch, text=False
        )
        return wire.call(methods.JOBS_UPDATE, patch)

    with connected(data) as wire:
        with_dependencies(wire, fields)
        with_artifact(wire, fields)
        changed = with_job(wire, job_id, edit)
    output.warn(changed.warnings)
    _changed(changed, "updated", json)


def pause(
    job_id: JobId, note: Note = "", if_version: Version = None, json: Json = False, data: Data = None
) -> None:
    """Pause a job's schedule. What runs goes on, and run-now still works."""
    with connected(data) as wire:
        paused = with_job(
            wire,
            job_id,
            lambda id: wire.call(
                methods.JOBS_PAUSE, commands.PauseJob(job_id=id, note=note, if_match=if_version)
            ),
        )
    _changed(paused, "paused", json)


def resume(
    job_id: JobId,
    missed: Annotated[
        bool, typer.Option("--missed", help="Take what was missed, by the job's catch-up policy.")
    ] = False,
    if_version: Version = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Resume a paused job, from now on."""
    with connected(data) as wire:
        resumed = with_job(
            wire,
            job_id,
            lambda id: wire.call(
                methods.JOBS_RESUME, commands.ResumeJob(job_id=id, missed=missed, if_match=if_version)
            ),
        )
    _changed(resumed, "resumed", json)


def cancel(
    job_id: JobId, note: Note = "", if_version: Version = None, json: Json = False, data: Data = None
) -> None:
    """Cancel a job for good, and stop what it runs."""
    with connected(data) as wire:
        cancelled = with_job(
            wire,
            job_id,
            lambda id: wire.call(
                methods.JOBS_CANCEL, commands.CancelJob(job_id=id, note=note, if_match=if_version)
            ),
        )
    _changed(cancelled, "cancelled", json)


def run_now(
    job_id: JobId,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run; exit with its result.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Run a job now, beside its schedule."""
    key = secrets.token_hex(10)
    with connected(data) as wire:
        accepted = with_job(
            wire,
            job_id,
            lambda id: wire.call(methods.JOBS_RUN_NOW, commands.RunNow(job_id=id, idempotency_key=key)),
        )
        if wait:
            return follow_run(wire, accepted.run_id, json=json)
    print_json(accepted) if json else print(accepted.run_id)
    return 0


def skip_next(job_id: JobId, note: Note = "", json: Json = False, data: Data = None) -> None:
    """Leave out the next occurrence of a job's schedule."""
    with connected(data) as wire:
        fire = with_job(
            wire, job_id, lambda id: wire.call(methods.JOBS_SKIP, commands.SkipNext(job_id=id, note=note))
        )
    print_json(fire) if json else print(f"{fire.time} will be left out")


def _changed(job: Job, what: str, json: bool) -> None:
    if json:
        print_json(job)
        return
    coming = f", next run {stamp(job.next_run_at)}" if job.next_run_at else ""
    print(f"{job.job_id} {what} (version {job.version}){coming}")


def _job_row(job: Job) -> tuple[str, ...]:
    last = f"{job.last_run.status} {output.ago(job.last_run.modified_time)}" if job.last_run else ""
    return (job.job_id, job.name, job.status, output.schedule(job), output.ago(job.next_run_at), last)


def _job_table(jobs: Sequence[Job]) -> str:
    heads = ("ID", "NAME", "STATUS", "SCHEDULE", "NEXT", "LAST RUN")
    return table(heads, [_job_row(job) for job in jobs]) if jobs else "no jobs"


_JOBS = Listing[Job](key=lambda job: job.job_id, text=_job_table)


def _job_facts(job: Job) -> list[tuple[str, str]]:
    return [
        ("id", job.job_id),
        ("name", job.name),
        ("status", job.status),
        ("note", job.note),
        ("schedule", output.schedule(job)),
        ("runs", job.task.summary),
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
