"""Commands about runs: look at them, read their output, stop them and try them again."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, get_args

import typer
from msgspec import structs

from waterclock.api import decoding
from waterclock.api.cli import bulk, output
from waterclock.api.cli.exits import Exit, WrongUsage
from waterclock.api.cli.follow import follow_run, print_log
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.moment import moment
from waterclock.api.cli.options import Data, Json, Limit, Note, RunId, Watch, complete_job
from waterclock.api.cli.output import ago, facts, note, print_json, table
from waterclock.api.cli.session import (
    connected,
    job_id_of,
    run_id_of,
    with_job,
    with_run,
)
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import Attempt, DeadLetter, FoundRun, Page, Run
from waterclock.proto.events import Trigger

_PATIENCE = 5.0


def runs(
    job_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="A job's id, or the beginning of it; of all jobs if it is left out.",
            show_default=False,
            autocompletion=complete_job,
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help="Only runs in this status, or in one of several: FAILED,TIMED_OUT."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Scheduled at or after this instant, or so long ago: 2h, yesterday.", metavar="T"),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Scheduled before this instant.", metavar="T")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Of jobs with this label; may be repeated.", metavar="K=V")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Of this queue.")] = None,
    executor: Annotated[str | None, typer.Option(help="That this executor had last.", metavar="ID")] = None,
    trigger: Annotated[
        str | None, typer.Option(help=f"With this cause: {', '.join(get_args(Trigger))}.")
    ] = None,
    workflow_run: Annotated[
        str | None, typer.Option(help="Part of this workflow run.", metavar="WAVE")
    ] = None,
    q: Annotated[
        str | None, typer.Option("--search", "-q", help="Text in name, id or error.", metavar="TEXT")
    ] = None,
    limit: Limit = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page.", metavar="CURSOR")] = None,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List runs, newest first: of a job, or of all jobs."""
    statuses = [word.strip().upper() for given in status or () for word in given.split(",") if word.strip()]
    found = {"label": label, "queue": queue, "executor": executor, "trigger": trigger, "q": q}
    fields: dict[str, Any] = {
        **{name: value for name, value in found.items() if value},
        "status": statuses,
        "from": since and moment(since, "--since"),
        "to": until and moment(until, "--until"),
        "limit": limit,
        "cursor": cursor,
    }
    with connected(data) as wire:
        if workflow_run is not None:
            fields["workflow_run"] = run_id_of(wire, workflow_run)
        if job_id is None:
            _FOUND.show(lambda: _search(wire, fields), json=json, watch=watch)
        elif workflow_run or found.keys() & fields.keys() or len(statuses) > 1:
            fields["job"] = job_id_of(wire, job_id)
            _FOUND.show(lambda: _search(wire, fields), json=json, watch=watch)
        else:
            _RUNS.show(lambda: with_job(wire, job_id, _listed(wire, fields)), json=json, watch=watch)


def _listed(wire: BlockingWire, fields: dict[str, Any]) -> Callable[[str], Page[Run]]:
    """The runs of one job."""
    said = {
        "status": fields["status"][0] if fields["status"] else None,
        "after": fields["from"],
        "before": fields["to"],
        "limit": fields["limit"],
        "cursor": fields["cursor"],
    }

    def call(job_id: str) -> Page[Run]:
        query = decoding.convert({"job_id": job_id, **said}, queries.RunsQuery, text=False)
        return wire.call(methods.RUNS_LIST, query)

    return call


def _search(wire: BlockingWire, fields: dict[str, Any]) -> Page[FoundRun]:
    """A page that is not full, though there may be more, is filled up, for as long as people wait."""
    query = decoding.convert(fields, queries.RunSearch, text=False)
    page = wire.call(methods.RUNS_SEARCH, query)
    began = time.monotonic()
    while page.next_cursor and len(page.items) < query.limit and time.monotonic() < began + _PATIENCE:
        left = query.limit - len(page.items)
        more = wire.call(methods.RUNS_SEARCH, structs.replace(query, cursor=page.next_cursor, limit=left))
        page = Page(items=[*page.items, *more.items], next_cursor=more.next_cursor)
    return page


def attempts(run_id: RunId, json: Json = False, data: Data = None) -> None:
    """List the attempts of a run, oldest first: who had each, how it ended, and what it took."""
    with connected(data) as wire:
        found = with_run(wire, run_id, lambda id: wire.call(methods.RUNS_ATTEMPTS, queries.RunRef(run_id=id)))
    print_json(found) if json else print(_attempt_table(found.items))


def run(run_id: RunId, json: Json = False, data: Data = None) -> None:
    """Show one run."""
    with connected(data) as wire:
        found = with_run(wire, run_id, lambda id: wire.call(methods.RUNS_GET, queries.RunRef(run_id=id)))
    print_json(found) if json else print(facts(_run_facts(found)))


def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay until the run has ended.")] = False,
    attempt: Annotated[int | None, typer.Option(help="Only of this attempt.", metavar="N", min=1)] = None,
    tail: Annotated[
        int | None, typer.Option(help="Only the last so many lines.", metavar="LINES", min=0)
    ] = None,
    data: Data = None,
) -> None:
    """Print a run's output: of all its attempts, or of one."""
    with connected(data) as wire:
        full = with_run(
            wire, run_id, lambda id: wire.call(methods.RUNS_GET, queries.RunRef(run_id=id))
        ).run_id
        print_log(wire, full, follow=follow, attempt=attempt, lines=tail)


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
    with connected(data, patience=chosen.patience) as wire:
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
    with connected(data, patience=chosen.patience) as wire:
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


def _found_row(run: FoundRun) -> tuple[str, ...]:
    return (
        run.job_name or run.job_id,
        run.run_id,
        run.status,
        output.stamp(run.scheduled_time),
        output.ago(run.start_time),
        output.duration(_took(run.start_time, run.end_time)),
        str(run.attempt_number),
        run.error_message or run.reason or "",
    )


def _found_table(runs: Sequence[FoundRun]) -> str:
    heads = ("JOB", "RUN", "STATUS", "SCHEDULED", "STARTED", "TOOK", "ATTEMPT", "REASON")
    return table(heads, [_found_row(run) for run in runs]) if runs else "no runs"


_FOUND = Listing[FoundRun](key=lambda run: run.run_id, text=_found_table)


def _attempt_table(attempts: Sequence[Attempt]) -> str:
    rows = [
        (
            str(attempt.attempt_number),
            attempt.status,
            output.stamp(attempt.start_time),
            output.duration(_took(attempt.start_time, attempt.end_time)),
            output.text(attempt.exit_code),
            output.duration(attempt.cpu_seconds),
            "" if attempt.memory_bytes is None else f"{attempt.memory_bytes / 2**20:.0f}M",
            attempt.executor_id or "",
            attempt.error_message or "",
        )
        for attempt in attempts
    ]
    heads = ("ATTEMPT", "STATUS", "STARTED", "TOOK", "EXIT", "CPU", "MEMORY", "EXECUTOR", "REASON")
    return table(heads, rows) if rows else "no attempt has started"


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
