"""Commands about jobs: look at them, change them, run one now."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from waterclock.api import decoding
from waterclock.api.cli import bulk, output
from waterclock.api.cli.exits import Exit, WrongUsage
from waterclock.api.cli.follow import follow_run
from waterclock.api.cli.job_options import with_job_options
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Limit, Note, Version, Watch
from waterclock.api.cli.output import facts, print_json, print_what_if, stamp, table
from waterclock.api.cli.session import (
    connected,
    with_artifact,
    with_dependencies,
    with_job,
)
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import Job, WhatIf


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
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Change nothing: show which fires would come and go.")
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", help="With --what-if: from this instant on.", metavar="T")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="With --what-if: up to this instant.", metavar="T")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Change a job. What is not said stays; the change counts from now, and a time that is over means now.

    waterclock update nightly --cron "0 3 * * *" --tz Europe/Paris --what-if
    """
    if name is not None:
        fields["name"] = name
    if (start or end) and not what_if:
        raise WrongUsage("--from and --to go with --what-if")

    def edit(job_id: str) -> Job:
        patch = decoding.convert(
            {**fields, "job_id": job_id, "if_match": if_version}, commands.JobPatch, text=False
        )
        return wire.call(methods.JOBS_UPDATE, patch)

    def tried(job_id: str) -> WhatIf:
        when = {"from": start, "to": end}
        patch = decoding.convert(
            {**fields, **when, "job_id": job_id, "if_match": if_version}, commands.JobWhatIf, text=False
        )
        return wire.call(methods.JOBS_WHAT_IF, patch)

    with connected(data) as wire:
        with_dependencies(wire, fields)
        with_artifact(wire, fields)
        if what_if:
            print_what_if(with_job(wire, job_id, tried), json=json)
            return
        changed = with_job(wire, job_id, edit)
    output.warn(changed.warnings)
    _changed(changed, "updated", json)


@bulk.of_jobs
def pause(
    chosen: bulk.Choice, note: Note = "", if_version: Version = None, json: Json = False, data: Data = None
) -> int:
    """Pause schedules. What runs goes on, and run-now still works.

    waterclock pause nightly --note "the warehouse is being moved"

    waterclock pause --label team=data --all
    """
    with connected(data, patience=chosen.patience) as wire:
        if chosen.single is None:
            _no_version(if_version)
            return bulk.change_jobs(wire, chosen, "pause", "paused", json=json, note=note)
        paused = with_job(
            wire,
            chosen.single,
            lambda id: wire.call(
                methods.JOBS_PAUSE, commands.PauseJob(job_id=id, note=note, if_match=if_version)
            ),
        )
    _changed(paused, "paused", json)
    return Exit.DONE


@bulk.of_jobs
def resume(
    chosen: bulk.Choice,
    missed: Annotated[
        bool, typer.Option("--missed", help="Take what was missed, by the job's catch-up policy.")
    ] = False,
    if_version: Version = None,
    json: Json = False,
    data: Data = None,
) -> int:
    """Resume paused jobs, from now on."""
    with connected(data, patience=chosen.patience) as wire:
        if chosen.single is None:
            _no_version(if_version)
            return bulk.change_jobs(wire, chosen, "resume", "resumed", json=json, missed=missed)
        resumed = with_job(
            wire,
            chosen.single,
            lambda id: wire.call(
                methods.JOBS_RESUME, commands.ResumeJob(job_id=id, missed=missed, if_match=if_version)
            ),
        )
    _changed(resumed, "resumed", json)
    return Exit.DONE


@bulk.of_jobs
def cancel(
    chosen: bulk.Choice, note: Note = "", if_version: Version = None, json: Json = False, data: Data = None
) -> int:
    """Cancel jobs for good, and stop what they run."""
    with connected(data, patience=chosen.patience) as wire:
        if chosen.single is None:
            _no_version(if_version)
            return bulk.change_jobs(wire, chosen, "cancel", "cancelled", json=json, note=note)
        cancelled = with_job(
            wire,
            chosen.single,
            lambda id: wire.call(
                methods.JOBS_CANCEL, commands.CancelJob(job_id=id, note=note, if_match=if_version)
            ),
        )
    _changed(cancelled, "cancelled", json)
    return Exit.DONE


@bulk.of_jobs
def run_now(
    chosen: bulk.Choice,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the run of one job; exit with its result.")
    ] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Run jobs now, beside their schedules."""
    key = secrets.token_hex(10)
    with connected(data, patience=chosen.patience) as wire:
        if chosen.single is None:
            if wait:
                raise WrongUsage("--wait follows one run: name one job")
            return bulk.change_jobs(wire, chosen, "runNow", "begun", json=json)
        accepted = with_job(
            wire,
            chosen.single,
            lambda id: wire.call(methods.JOBS_RUN_NOW, commands.RunNow(job_id=id, idempotency_key=key)),
        )
        if wait:
            return follow_run(wire, accepted.run_id, json=json)
    print_json(accepted) if json else print(accepted.run_id)
    return Exit.DONE


def _no_version(if_version: int | None) -> None:
    if if_version is not None:
        raise WrongUsage("--if-version is meant for one job: name one")


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
