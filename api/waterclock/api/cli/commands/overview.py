"""Commands about all jobs at once: what will fire, how runs went, and what happens now."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.moment import moment
from waterclock.api.cli.options import Data, Json, Limit, Watch
from waterclock.api.cli.output import print_json, table
from waterclock.api.cli.session import connected, job_id_of, run_id_of
from waterclock.api.client.streams import WatchPosition
from waterclock.proto import methods, queries
from waterclock.proto.answers import Change, StatsBucket, UpcomingFire

Job = Annotated[str | None, typer.Option("--job", help="Only of this job.", metavar="JOB")]


def upcoming(
    since: Annotated[
        str | None, typer.Option("--from", help="From this instant on; now if not said.", metavar="T")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--to", help="Up to this instant, or so far ahead: 12h, tomorrow. A day if not said.", metavar="T"
        ),
    ] = None,
    job: Job = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Of jobs with this label; may be repeated.", metavar="K=V")
    ] = None,
    tz: Annotated[
        str | None, typer.Option(help="Show local times in this zone, not in each schedule's.", metavar="Z")
    ] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page.", metavar="CURSOR")] = None,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List when schedules fire: all of them, in order."""
    fields: dict[str, Any] = {
        "from": since and moment(since, "--from", ahead=True),
        "to": until and moment(until, "--to", ahead=True),
        "label": label or (),
        "tz": tz,
        "limit": limit,
        "cursor": cursor,
    }
    with connected(data) as wire:
        fields["job"] = job and job_id_of(wire, job)
        query = decoding.convert(fields, queries.UpcomingQuery, text=False)
        _UPCOMING.show(lambda: wire.call(methods.UPCOMING_LIST, query), json=json, watch=watch)


def stats(
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="Scheduled at or after this instant, or so long ago; 1d if not said.", metavar="T"
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Scheduled before this instant.", metavar="T")
    ] = None,
    step: Annotated[str | None, typer.Option(help="How long a step is: 5m, 1h, 1d.", metavar="D")] = None,
    by: Annotated[
        str | None, typer.Option(help="Told apart by job, queue, executor or label:KEY.", metavar="WHAT")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Show how runs went over time: how many, how long they took, how late they started."""
    fields = {
        "from": since and moment(since, "--since"),
        "to": until and moment(until, "--until"),
        "step": step,
        "by": by,
    }
    with connected(data) as wire:
        query = decoding.convert(fields, queries.StatsQuery, text=False)
        found = wire.call(methods.STATS_READ, query)
    print_json(found) if json else print(_stats_table(found.buckets, by))


def watch(
    job: Job = None,
    run: Annotated[str | None, typer.Option("--run", help="Only of this run.", metavar="RUN")] = None,
    workflow_run: Annotated[
        str | None, typer.Option(help="Only of this workflow run and its parts.", metavar="WAVE")
    ] = None,
    type: Annotated[
        list[str] | None, typer.Option(help="Only these events: queued, failed, …; may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Begin at this instant, or so long ago; now if not said.", metavar="T")
    ] = None,
    conflate: Annotated[
        str | None,
        typer.Option(help="At most so often, the newest change of each run: 200ms, 1s.", metavar="D"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON document a line.")] = False,
    data: Data = None,
) -> None:
    """Print what happens to jobs and runs, as it happens; until Ctrl-C."""
    with connected(data) as wire:
        position = WatchPosition(
            job=job and job_id_of(wire, job),
            run=run and run_id_of(wire, run),
            workflow_run=workflow_run and run_id_of(wire, workflow_run),
            type=type or (),
            since=moment(since, "--since") if since else None,
            conflate=conflate,
        )
        try:
            while not position.over:
                for change in wire.follow(methods.EVENTS_WATCH, position.request):
                    if position.advance(change):
                        _print_change(change, json=json)
        except KeyboardInterrupt:
            return


def _print_change(change: Change, *, json: bool) -> None:
    if json:
        sys.stdout.buffer.write(msgspec.json.encode(change) + b"\n")
        sys.stdout.buffer.flush()
        return
    for each in change.changes or [change]:
        words = (each.run_id or each.job_id, each.status or "", each.error_message or each.reason or "")
        said = "  ".join(" ".join(word.split()) for word in words if word)
        print(f"{each.at.astimezone():%H:%M:%S}  {each.type:<12}  {said}", flush=True)
    if change.counts:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(change.counts.items()))
        more = f", {change.left_out} changes not shown" if change.left_out else ""
        print(f"{'':<10}{counts}{more}", flush=True)


def _upcoming_table(fires: Sequence[UpcomingFire]) -> str:
    rows = [(fire.time, fire.local, fire.job_name, fire.job_id, fire.note or "") for fire in fires]
    return table(("TIME", "LOCAL", "NAME", "JOB", "NOTE"), rows) if rows else "nothing fires"


_UPCOMING = Listing[UpcomingFire](key=lambda fire: (fire.time, fire.job_id), text=_upcoming_table)


def _stats_table(buckets: Sequence[StatsBucket], by: str | None) -> str:
    if not buckets:
        return "no runs"
    key = "" if by is None else by.partition(":")[0]
    rows = [
        (
            output.stamp(bucket.start),
            *(() if not key else (getattr(bucket, key) or "(others)",)),
            *map(str, (bucket.success, bucket.failed, bucket.missed, bucket.skipped, bucket.cancelled)),
            output.duration(bucket.p50_seconds),
            output.duration(bucket.p95_seconds),
            output.duration(bucket.lag_p99_seconds),
        )
        for bucket in buckets
    ]
    heads = ("SUCCESS", "FAILED", "MISSED", "SKIPPED", "CANCELLED", "P50", "P95", "LAG P99")
    return table(("FROM", *((key.upper(),) if key else ()), *heads), rows)
