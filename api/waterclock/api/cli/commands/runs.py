"""Commands about runs: look at them, read their output, stop them and try them again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from waterclock.api import decoding
from waterclock.api.cli import bulk, output
from waterclock.api.cli.exits import Exit, WrongUsage
from waterclock.api.cli.follow import follow_run, print_log
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Limit, Note, RunId, Watch
from waterclock.api.cli.output import ago, facts, note, print_json, table
from waterclock.api.cli.session import (
    connected,
    job_id_of,
    run_id_of,
    with_job,
    with_run,
)
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import DeadLetter, Page, Run


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
            "status": status and status.upper(),
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


@bulk.of_runs
def cancel_run(
    chosen: bulk.Choice,
    note: Note = "",
    now: Annotated[bool, typer.Option("--now", help="Kill at once, without a grace.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Stop runs: queued, running or waiting for a retry.

    waterclock cancel-run --label team=data --since 1d --all
    """
    with connected(data) as wire:
        if chosen.single is None:
            return bulk.change_runs(wire, chosen, "cancel", "asked to stop", json=json, note=note, now=now)
        run = with_run(
            wire,
            chosen.single,
            lambda id: wire.call(methods.RUNS_CANCEL, commands.CancelRun(run_id=id, note=note, now=now)),
        )
    _asked(run, "asked to stop", json)
    return Exit.DONE


@bulk.of_runs
def retry(
    chosen: bulk.Choice,
    wait: Annotated[bool, typer.Option("--wait", help="Follow one run; exit with its result.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Try runs that ended badly again: same run, next attempt.

    waterclock retry --status FAILED --since 1d --all
    """
    with connected(data) as wire:
        if chosen.single is None:
            if wait:
                raise WrongUsage("--wait follows one run: name one")
            return bulk.change_runs(wire, chosen, "retry", "tried again", json=json)
        run = with_run(
            wire, chosen.single, lambda id: wire.call(methods.RUNS_RETRY, commands.RetryRun(run_id=id))
        )
        if wait:
            return follow_run(wire, run.run_id, json=json)
    _asked(run, "will be tried again", json)
    return Exit.DONE


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


def _asked(run: Run, what: str, json: bool) -> None:
    print_json(run) if json else print(f"{run.run_id} {what}; it is {run.status}")


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


def _run_table(runs: Sequence[Run]) -> str:
    heads = ("RUN", "STATUS", "SCHEDULED", "STARTED", "TOOK", "ATTEMPT", "REASON")
    return table(heads, [_run_row(run) for run in runs]) if runs else "no runs yet"


_RUNS = Listing[Run](key=lambda run: run.run_id, text=_run_table)


def _dead_table(letters: Sequence[DeadLetter]) -> str:
    rows = [
        (letter.run_id, letter.status, ago(letter.dead_time), str(letter.attempt_number), letter.reason or "")
        for letter in letters
    ]
    return table(("RUN", "STATUS", "GIVEN UP", "ATTEMPTS", "REASON"), rows) if rows else "no dead letters"


_DEAD = Listing[DeadLetter](key=lambda letter: letter.run_id, text=_dead_table)


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


def _took(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
