"""Commands that explain: next, why, audit."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from msgspec.structs import replace

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.exits import Failed, WrongUsage
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.output import print_json, progress, table
from waterclock.api.cli.session import connected, with_job, with_run
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.errors import NotFound
from waterclock.core.domain.job import durations
from waterclock.proto import methods, queries
from waterclock.proto.answers import Audit, Fires, Why
from waterclock.proto.spec import PreviewRequest


def next(
    what: Annotated[
        str, typer.Argument(metavar="JOB-or-EXPR", help="A job's id, or a schedule.", show_default=False)
    ],
    n: Annotated[int, typer.Option("-n", help="How many.", min=1, max=1000)] = 10,
    tz: Annotated[
        str | None,
        typer.Option(
            help="IANA time zone of the expression; of a job, the one to show its times in.", metavar="Z"
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="From this instant on; now if not said.", metavar="T")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Show when a job, or a schedule that nobody has yet, fires next.

    waterclock next nightly

    waterclock next "0 3 * * MON-FRI" --tz Europe/Paris -n 5
    """
    with connected(data) as wire:
        fires = _fires(wire, what, n, tz, start)
    if json:
        print_json(fires)
        return
    rows = [(fire.time, fire.local, fire.note or "") for fire in fires.fires]
    print(table(("UTC", "LOCAL", "NOTE"), rows) if rows else "it will not fire again")


def _fires(wire: BlockingWire, what: str, n: int, tz: str | None, start: str | None) -> Fires:
    when = {} if start is None else {"from": start}
    if " " not in what and not what.startswith("@"):
        try:
            fires = with_job(
                wire,
                what,
                lambda id: wire.call(
                    methods.JOBS_NEXT,
                    decoding.convert({"job_id": id, "n": n, **when}, queries.NextQuery, text=False),
                ),
            )
            return fires if tz is None else _seen_from(tz, fires)
        except NotFound:
            if not any(c in what for c in "*:"):
                raise
    zone = {} if tz is None else {"timezone": tz}
    request = decoding.convert({"schedule": what, "n": n, **zone, **when}, PreviewRequest, text=False)
    return wire.call(methods.SCHEDULES_PREVIEW, request)


def _seen_from(tz: str, fires: Fires) -> Fires:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        place = ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError):
        raise WrongUsage(f"--tz: there is no time zone {tz!r}; expected an IANA name: Europe/Paris") from None
    moved = [
        replace(fire, local=datetime.fromisoformat(fire.time).astimezone(place).isoformat())
        for fire in fires.fires
    ]
    return Fires(fires=moved)


def why(
    what: Annotated[
        str, typer.Argument(metavar="RUN-or-JOB", help="A run's id, or a job's.", show_default=False)
    ],
    at: Annotated[
        str | None,
        typer.Option(
            help="Of a job: the moment to explain; if not said, the one at which it ran once, or now.",
            metavar="T",
        ),
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Explain a run, or a moment at which a job did or did not run, from the log."""
    with connected(data) as wire:
        if "@" in what:
            found = with_run(wire, what, lambda id: wire.call(methods.RUNS_WHY, queries.WhyQuery(run_id=id)))
        else:
            found = with_job(wire, what, lambda id: wire.call(methods.JOBS_WHY, _moment(id, at)))
    if json:
        print_json(found)
        return
    _print_why(found)


def _print_why(found: Why) -> None:
    print(found.answer)
    rows = [
        (step.at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z", _gap(step.after_seconds), step.what, step.by)
        for step in found.steps
    ]
    if rows:
        print()
        print(table(("AT", "AFTER", "WHAT HAPPENED", "BY"), rows))
    if found.delays:
        print()
        spent = [
            (delay.kind, output.duration(delay.seconds), f"{delay.share:.0%}", delay.what)
            for delay in found.delays
        ]
        print(table(("WHERE THE TIME WENT", "", "SHARE", ""), spent))


def audit(
    start: Annotated[str | None, typer.Option("--from", help="First instant.", metavar="T")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last instant.", metavar="T")] = None,
    who: Annotated[
        bool, typer.Option("--who", help="Who changed tokens, secrets and quotas, and who was not let in.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="With --who: not longer ago than this: 2h, 7d.", metavar="D")
    ] = None,
    actor: Annotated[
        str | None, typer.Option(help="With --who: only what this token did.", metavar="TOKEN-ID")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(help="With --who: only this: token.created, secret.set, denied, …", metavar="A"),
    ] = None,
    limit: Annotated[int, typer.Option(help="With --who: at most so many.", min=1, max=1000)] = 50,
    json: Json = False,
    data: Data = None,
) -> int:
    """Check in the log that every due time is accounted for exactly once; exit 1 if one is not. With --who, show who
    changed who may do what, newest first.

    waterclock audit --from 2026-11-16T00:00:00Z

    waterclock audit --who --since 7d --action denied
    """
    if who:
        _show_who(start, end, since, actor, action, limit, json=json, data=data)
        return 0
    if since or actor or action:
        raise WrongUsage("--since, --actor and --action go with --who")
    given = {name: value for name, value in (("from", start), ("to", end)) if value is not None}
    query = decoding.convert(given, queries.AuditQuery, text=False)
    report = None
    with connected(data) as wire:
        for report in wire.follow(methods.AUDIT_RUN, lambda: query):
            if report.read < 1:
                progress(f"reading the log: {report.read:.0%}")
    progress("")
    if report is None:
        raise Failed("the audit gave no result")
    if json:
        print_json(report)
    else:
        _print_audit(report)
    return 0 if report.clean else 1


def _show_who(
    start: str | None,
    end: str | None,
    since: str | None,
    actor: str | None,
    action: str | None,
    limit: int,
    *,
    json: bool,
    data: str | None,
) -> None:
    given: dict[str, object] = {
        "after": start if since is None else _ago(since),
        "before": end,
        "actor": actor,
        "action": action,
        "limit": limit,
    }
    said = {name: value for name, value in given.items() if value is not None}
    query = decoding.convert(said, queries.AccessQuery, text=False)
    with connected(data) as wire:
        page = wire.call(methods.AUDIT_ACCESS, query)
    if json:
        print_json(page)
        return
    rows = [
        (
            output.stamp(one.at),
            one.action + (" (failed)" if one.failed else ""),
            one.subject,
            one.actor or "?",
            one.address,
            one.namespace,
            one.detail + (f" (and {one.unrecorded} before it)" if one.unrecorded else ""),
        )
        for one in page.items
    ]
    heads = ("TIME", "ACTION", "WHAT", "WHO", "FROM", "NAMESPACE", "DETAIL")
    print(table(heads, rows) if rows else "nobody did anything")


def _ago(span: str) -> datetime:
    try:
        return datetime.now(UTC) - timedelta(microseconds=durations.read(span))
    except durations.InvalidDuration as error:
        raise WrongUsage(f"--since {span}: {error}") from None


def _print_audit(report: Audit) -> None:
    fates = ", ".join(f"{count} {fate}" for fate, count in sorted(report.accounted.items()))
    print(f"{report.jobs} jobs, {report.expected} due times: {fates or 'none'}")
    if report.pending:
        print(
            f"{report.pending} are due and not decided yet: they wait for a slot, or no scheduler has come that far"
        )
    if report.note:
        print(report.note)
    if report.clean:
        print("every due time is accounted for exactly once")
        return
    rows = [
        (finding.fault, finding.run_id, output.stamp(finding.scheduled_time), finding.explanation)
        for finding in report.findings
    ]
    print(table(("FAULT", "RUN", "DUE", "EXPLANATION"), rows))
    if report.faults > len(rows):
        print(f"… and {report.faults - len(rows)} more")


def _moment(job_id: str, at: str | None) -> queries.WhyQuery:
    fields = {"job_id": job_id} if at is None else {"job_id": job_id, "at": at}
    return decoding.convert(fields, queries.WhyQuery, text=False)


def _gap(seconds: float | None) -> str:
    return "" if seconds is None else f"+{output.duration(max(0, seconds))}"
