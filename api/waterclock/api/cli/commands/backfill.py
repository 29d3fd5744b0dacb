"""`waterclock backfill`: run a job for past times, and steer what was begun."""

import secrets
from datetime import datetime
from typing import Annotated

import typer

from waterclock.api import decoding
from waterclock.api.cli import words
from waterclock.api.cli.exits import Wrong
from waterclock.api.cli.options import Data, JobId, Json
from waterclock.api.cli.printing import note, print_json
from waterclock.api.cli.session import connected, with_job
from waterclock.api.cli.tables import table
from waterclock.proto import methods
from waterclock.proto.answers import Backfill
from waterclock.proto.queries import BackfillRef, BackfillRequest, BackfillsQuery, JobRef

_STEERED = {
    "pause": methods.BACKFILLS_PAUSE,
    "resume": methods.BACKFILLS_RESUME,
    "cancel": methods.BACKFILLS_CANCEL,
}


def backfill(
    job_id: JobId,
    start: Annotated[
        str | None, typer.Option("--from", help="First instant, inclusive.", metavar="T")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last instant, exclusive.", metavar="T")] = None,
    max_active: Annotated[int, typer.Option("--max-active", help="At most so many at once.", min=1)] = 1,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="From the end backwards.")] = False,
    reprocess: Annotated[
        str, typer.Option(help="Which times: missing, failed (too) or all.", metavar="W")
    ] = "missing",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the times.")] = False,
    pause: Annotated[
        str | None, typer.Option(help="Pause a backfill of this job.", metavar="BACKFILL")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="Resume one.", metavar="BACKFILL")] = None,
    cancel: Annotated[
        str | None, typer.Option(help="Cancel one, and stop what it runs.", metavar="BACKFILL")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Run a job for past times, beside its live schedule. Without --from it lists the job's backfills.

    waterclock backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run
    """
    steered = [(word, id) for word, id in (("pause", pause), ("resume", resume), ("cancel", cancel)) if id]
    with connected(data) as wire:
        if steered:
            word, backfill_id = steered[0]
            _show([wire.call(_STEERED[word], BackfillRef(backfill_id=backfill_id))], json)
        elif start is None:
            full = with_job(wire, job_id, lambda id: wire.call(methods.JOBS_GET, JobRef(job_id=id)))
            _show(wire.call(methods.BACKFILLS_LIST, BackfillsQuery(job_id=full.job_id)).items, json)
        else:
            if end is None:
                raise Wrong("--from needs --to")
            fields = {
                "from": start,
                "to": end,
                "max_active": max_active,
                "order": "newest_first" if newest_first else "oldest_first",
                "reprocess": reprocess,
                "dry_run": dry_run,
                "idempotency_key": secrets.token_hex(10),
            }
            made = with_job(
                wire,
                job_id,
                lambda id: wire.call(
                    methods.JOBS_BACKFILL,
                    decoding.convert({**fields, "job_id": id}, BackfillRequest, text=False),
                ),
            )
            _show([made], json, fires=dry_run)


def _show(backfills: list[Backfill], json: bool, *, fires: bool = False) -> None:
    if json:
        print_json(backfills[0] if len(backfills) == 1 else backfills)
        return
    if fires:
        for time in backfills[0].fires:
            print(words.stamp(time))
        note(f"{backfills[0].total} fires; without --dry-run they run")
        return
    rows = [
        (
            one.backfill_id or "",
            one.status,
            f"{one.done + one.failed}/{one.total}",
            str(one.failed),
            _span(one.start, one.end),
            words.ago(one.created_at),
        )
        for one in backfills
    ]
    print(table(("BACKFILL", "STATUS", "DONE", "FAILED", "RANGE", "ASKED"), rows) if rows else "no backfills")


def _span(start: datetime, end: datetime) -> str:
    return f"{words.stamp(start)} to {words.stamp(end)}"
