"""Commands that change things: update, pause, resume, cancel, cancel-run, run-now, retry, dead, redrive."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from waterclock.api import decoding
from waterclock.api.cli.follow import follow_run
from waterclock.api.cli.job_options import with_job_options
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Limit, Note, RunId, Version, Watch
from waterclock.api.cli.output import ago, note, print_json, stamp, table
from waterclock.api.cli.session import (
    connected,
    job_id_of,
    run_id_of,
    with_artifact,
    with_dependencies,
    with_job,
    with_run,
)
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import DeadLetter, Job, Run


@with_job_options
def update(
    job_id: JobId,
    fields: dict[str, Any],
    name: Annotated[str | None, typer.Option(help="Rename it.", metavar="NAME")] = None,
    if_version: Version = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Change a job. What is not said stays; the change counts from now and never fires the past."""
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


def cancel_run(
    run_id: RunId,
    note: Note = "",
    now: Annotated[bool, typer.Option("--now", help="Kill at once, without a grace.")] = False,
    json: Json = False,
    data: Data = None,
) -> None:
    """Stop one run: queued, running or waiting for a retry."""
    with connected(data) as wire:
        run = with_run(
            wire,
            run_id,
            lambda id: wire.call(methods.RUNS_CANCEL, commands.CancelRun(run_id=id, note=note, now=now)),
        )
    _asked(run, "asked to stop", json)


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


def retry(
    run_id: RunId,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run; exit with its result.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Try a run that ended badly again: same run, next attempt."""
    with connected(data) as wire:
        run = with_run(wire, run_id, lambda id: wire.call(methods.RUNS_RETRY, commands.RetryRun(run_id=id)))
        if wait:
            return follow_run(wire, run.run_id, json=json)
    _asked(run, "will be tried again", json)
    return 0


def dead(
    job_id: Annotated[str | None, typer.Option("--job", help="Only this job's.", metavar="JOB")] = None,
    q: Annotated[str | None, typer.Option("--search", "-q", help="Text in the reason or error.")] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page.", metavar="CURSOR")] = None,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List runs out of attempts."""
    with connected(data) as wire:
        job_id = job_id and job_id_of(wire, job_id)
        query = queries.DeadLettersQuery(job_id=job_id, q=q, limit=limit, cursor=cursor)
        _DEAD.show(lambda: wire.call(methods.DEAD_LETTERS_LIST, query), json=json, watch=watch)


def _dead_table(letters: Sequence[DeadLetter]) -> str:
    rows = [
        (letter.run_id, letter.status, ago(letter.dead_time), str(letter.attempt_number), letter.reason or "")
        for letter in letters
    ]
    return table(("RUN", "STATUS", "GIVEN UP", "ATTEMPTS", "REASON"), rows) if rows else "no dead letters"


_DEAD = Listing[DeadLetter](key=lambda letter: letter.run_id, text=_dead_table)


def redrive(
    run_ids: Annotated[list[str] | None, typer.Argument(metavar="[RUN]…", help="Dead letters.")] = None,
    job_id: Annotated[str | None, typer.Option("--job", help="All of this job's.", metavar="JOB")] = None,
    q: Annotated[
        str | None, typer.Option("--search", "-q", help="All with this text in reason or error.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Try dead letters again: some by id, all of a job, all that match, or all."""
    done: list[str] = []
    with connected(data) as wire:
        chosen = tuple(run_id_of(wire, run_id) for run_id in run_ids or ())
        job_id = job_id and job_id_of(wire, job_id)
        while True:
            request = commands.Redrive(run_ids=chosen, job_id=job_id, q=q, all=every)
            redriven = wire.call(methods.DEAD_LETTERS_REDRIVE, request)
            done += redriven.run_ids
            if not redriven.more or not redriven.run_ids:
                break
            note(f"{len(done)} so far")
    if json:
        print_json({"run_ids": done, "refused": redriven.refused})
    else:
        print(f"{len(done)} will be tried again")
    for refusal in redriven.refused:
        note(f"{refusal.id}: {refusal.reason}")
    return 1 if redriven.refused else 0


def _changed(job: Job, what: str, json: bool) -> None:
    if json:
        print_json(job)
        return
    coming = f", next run {stamp(job.next_run_at)}" if job.next_run_at else ""
    print(f"{job.job_id} {what} (version {job.version}){coming}")


def _asked(run: Run, what: str, json: bool) -> None:
    print_json(run) if json else print(f"{run.run_id} {what}; it is {run.status}")
