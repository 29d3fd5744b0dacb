"""`waterclock submit`: define a job, and follow it to its end if asked."""

import secrets
from typing import Annotated, Any

import typer

from waterclock.api import decoding
from waterclock.api.cli.follow import follow_to_end
from waterclock.api.cli.job_options import with_job_options
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.output import ago, note, print_json, stamp, warn
from waterclock.api.cli.session import connected, with_artifact, with_dependencies
from waterclock.proto import methods
from waterclock.proto.answers import JobAccepted
from waterclock.proto.spec import JobRequest


@with_job_options
def submit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.", show_default=False)],
    fields: dict[str, Any],
    job_id: Annotated[str | None, typer.Option("--id", help="The id to give it.", metavar="ID")] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same key gives the same job.", metavar="K")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the first run; exit with its result.")] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Define a job. Without a time it runs now.

    waterclock submit hello --wait -- echo hi

    waterclock submit nightly --cron "0 3 * * *" --tz Europe/Paris --shell "pg_dump prod > prod.sql"

    waterclock submit ping --every 30s --http GET https://example.com/health
    """
    fields |= {"name": name, "idempotency_key": key or f"auto-{secrets.token_hex(10)}"}
    if job_id is not None:
        fields["job_id"] = job_id
    with connected(data) as wire:
        with_dependencies(wire, fields)
        with_artifact(wire, fields)
        request = decoding.convert(fields, JobRequest, text=False)
        accepted = wire.call(methods.JOBS_CREATE, request)
        warn(accepted.warnings)
        if wait:
            return follow_to_end(wire, accepted, json=json)
    if json:
        print_json(accepted)
    else:
        print(accepted.job_id)
        note(_summary(accepted))
    return 0


def _summary(accepted: JobAccepted) -> str:
    if not accepted.created:
        return "there already: the same key was used before"
    if accepted.next_run_at is None:
        return "accepted"
    return f"accepted, runs {stamp(accepted.next_run_at)} ({ago(accepted.next_run_at)})"
