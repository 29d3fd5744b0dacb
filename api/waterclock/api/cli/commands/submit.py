"""`waterclock submit`: define a job, and follow it to its end if asked."""

import secrets
from typing import Annotated, Any

import msgspec
import typer

from waterclock.api import decoding
from waterclock.api.cli.exits import Wrong
from waterclock.api.cli.following import follow_to_end
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.printing import note, print_json
from waterclock.api.cli.session import connected
from waterclock.api.cli.words import ago, stamp
from waterclock.proto import methods
from waterclock.proto.requests import JobRequest


def submit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.", show_default=False)],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD ARG…]", help="A program and its arguments.", show_default=False),
    ] = None,
    cron: Annotated[
        list[str] | None, typer.Option(help="Cron expression; may be repeated.", metavar="E")
    ] = None,
    tz: Annotated[str | None, typer.Option(help="IANA time zone of the cron.", metavar="Z")] = None,
    every: Annotated[str | None, typer.Option(help="Fixed interval: 30s, 5m, 1h30m.", metavar="D")] = None,
    at: Annotated[str | None, typer.Option(help="Once, at an RFC 3339 instant.", metavar="T")] = None,
    in_: Annotated[str | None, typer.Option("--in", help="Once, after a delay.", metavar="D")] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(help="Run when this job has ended well; may be repeated.", metavar="JOB"),
    ] = None,
    shell: Annotated[str | None, typer.Option(help="A shell command line.", metavar="STR")] = None,
    http: Annotated[tuple[str, str] | None, typer.Option(help="An HTTP call.", metavar="METHOD URL")] = None,
    handler: Annotated[str | None, typer.Option(help="A handler that a worker serves.", metavar="H")] = None,
    artifact: Annotated[
        str | None,
        typer.Option(help="A file to upload and run, with the arguments after --.", metavar="FILE"),
    ] = None,
    payload: Annotated[str | None, typer.Option(help="JSON handed to the job.", metavar="JSON")] = None,
    retries: Annotated[int | None, typer.Option(help="Attempts after the first.", metavar="N")] = None,
    timeout: Annotated[str | None, typer.Option(help="Longest an attempt may take.", metavar="D")] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 100; higher goes first.", metavar="N")] = None,
    tier: Annotated[str | None, typer.Option(help="light, medium or heavy.", metavar="T")] = None,
    queue: Annotated[str | None, typer.Option(help="The queue it waits in.", metavar="Q")] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            help="allow, skip, queue_one, queue_all, cancel_previous or terminate_previous.", metavar="P"
        ),
    ] = None,
    catch_up: Annotated[str | None, typer.Option(help="none, latest or all.", metavar="P")] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same key gives the same job.", metavar="K")
    ] = None,
    job_id: Annotated[str | None, typer.Option("--id", help="The id to give it.", metavar="ID")] = None,
    label: Annotated[list[str] | None, typer.Option(help="May be repeated.", metavar="K=V")] = None,
    critical: Annotated[bool, typer.Option("--critical", help="Alert when it fails.")] = False,
    exactly_once: Annotated[bool, typer.Option("--exactly-once", help="Never two attempts at once.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the first run; exit with its result.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Define a job. Without a time it runs now.

    waterclock submit hello --wait -- echo hi

    waterclock submit nightly --cron "0 3 * * *" --tz Europe/Paris --shell "pg_dump prod > prod.sql"

    waterclock submit ping --every 30s --http GET https://example.com/health
    """
    _one_task(shell=shell, http=http, handler=handler, artifact=artifact, command=command)
    fields: dict[str, Any] = {
        "name": name,
        "job_id": job_id,
        "cron": cron or None,
        "timezone": tz,
        "every": every,
        "schedule_time": at,
        "delay": in_,
        "dependencies": after or None,
        "http": {"method": http[0], "url": http[1]} if http else None,
        "handler": handler,
        "command": shell if shell is not None else command or None,
        "payload": _payload(payload),
        "max_retries": retries,
        "timeout_seconds": timeout,
        "priority": priority,
        "tier": tier,
        "queue": queue,
        "overlap": overlap,
        "catch_up": catch_up,
        "labels": _labels(label),
        "critical": critical or None,
        "delivery": "exactly_once" if exactly_once else None,
        "idempotency_key": key or f"auto-{secrets.token_hex(10)}",
    }
    given = {field: value for field, value in fields.items() if value is not None}
    request = decoding.convert(given, JobRequest, text=False)
    with connected(data) as wire:
        accepted = wire.call(methods.JOBS_CREATE, request)
        if wait:
            return follow_to_end(wire, accepted, json=json)
    if json:
        print_json(accepted)
    elif accepted.created:
        print(accepted.job_id)
        note(
            f"accepted, runs {stamp(accepted.next_run_at)} ({ago(accepted.next_run_at)})"
            if accepted.next_run_at
            else "accepted"
        )
    else:
        print(accepted.job_id)
        note("there already: the same key was used before")
    return 0


def _one_task(**given: Any) -> None:
    said = [name for name, value in given.items() if value]
    if len(said) > 1 and said != ["artifact", "command"]:
        names = [f"--{name}" if name != "command" else "-- CMD" for name in said]
        raise Wrong(f"{' and '.join(names)}: say one thing to run")


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Wrong(f"--payload: {error}; quote JSON for the shell: --payload '{{\"a\": 1}}'") from None


def _labels(pairs: list[str] | None) -> dict[str, str] | None:
    for pair in pairs or ():
        if "=" not in pair:
            raise Wrong(f"--label {pair}: expected key=value")
    return dict(pair.split("=", 1) for pair in pairs) if pairs else None
