"""`waterclock backfill`: run a job for past times, and steer what was begun."""

import secrets
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.exits import Exit, WrongUsage
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Watch
from waterclock.api.cli.output import note, print_json, progress, table
from waterclock.api.cli.session import connected, with_job
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import methods
from waterclock.proto.answers import Backfill
from waterclock.proto.commands import BackfillRequest
from waterclock.proto.queries import BackfillRef, BackfillsQuery, JobRef

_PAUSE = 0.3

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
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it to the end; exit 1 if a run of it failed.")
    ] = False,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> int:
    """Run a job for past times, beside its live schedule. Without --from it lists the job's backfills.

    waterclock backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run
    """
    steered = [(word, id) for word, id in (("pause", pause), ("resume", resume), ("cancel", cancel)) if id]
    with connected(data) as wire:
        if steered:
            word, backfill_id = steered[0]
            _show(wire.call(_STEERED[word], BackfillRef(backfill_id=backfill_id)), json)
        elif start is None:
            full = with_job(wire, job_id, lambda id: wire.call(methods.JOBS_GET, JobRef(job_id=id)))
            query = BackfillsQuery(job_id=full.job_id)
            _BACKFILLS.show(lambda: wire.call(methods.BACKFILLS_LIST, query), json=json, watch=watch)
        else:
            if end is None:
                raise WrongUsage("--from needs --to")
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
            if wait and made.backfill_id is not None:
                made = _followed(wire, made.backfill_id)
            _show(made, json, fires=dry_run)
            return Exit.FAILED if wait and (made.failed or made.status == "CANCELLED") else Exit.DONE
    return Exit.DONE


def _followed(wire: BlockingWire, backfill_id: str) -> Backfill:
    """As it is when it has ended."""
    while True:
        found = wire.call(methods.BACKFILLS_GET, BackfillRef(backfill_id=backfill_id))
        ended = found.done + found.failed
        if found.status in ("COMPLETED", "CANCELLED"):
            progress("")
            return found
        progress(f"{found.status.lower()}: {ended} of {found.total}, {found.failed} failed")
        time.sleep(_PAUSE)


def _show(backfill: Backfill, json: bool, *, fires: bool = False) -> None:
    if json:
        print_json(backfill)
        return
    if fires:
        for instant in backfill.fires:
            print(output.stamp(instant))
        note(f"{backfill.total} fires; without --dry-run they run")
        return
    print(_table([backfill]))


def _table(backfills: Sequence[Backfill]) -> str:
    rows = [
        (
            one.backfill_id or "",
            one.status,
            f"{one.done + one.failed}/{one.total}",
            str(one.failed),
            _span(one.start, one.end),
            output.ago(one.created_at),
        )
        for one in backfills
    ]
    heads = ("BACKFILL", "STATUS", "DONE", "FAILED", "RANGE", "ASKED")
    return table(heads, rows) if rows else "no backfills"


_BACKFILLS = Listing[Backfill](
    key=lambda one: one.backfill_id,
    text=_table,
)


def _span(start: datetime, end: datetime) -> str:
    return f"{output.stamp(start)} to {output.stamp(end)}"
