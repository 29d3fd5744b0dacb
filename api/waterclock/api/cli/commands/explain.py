"""Commands that explain: next."""

from typing import Annotated

import typer

from waterclock.api import decoding
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.printing import print_json
from waterclock.api.cli.session import connected, with_job
from waterclock.api.cli.tables import table
from waterclock.api.client.blocking import BlockingWire
from waterclock.api.errors import NotFound
from waterclock.proto import methods, queries
from waterclock.proto.answers import Fires
from waterclock.proto.requests import PreviewRequest


def next(
    what: Annotated[
        str, typer.Argument(metavar="JOB-or-EXPR", help="A job's id, or a schedule.", show_default=False)
    ],
    n: Annotated[int, typer.Option("-n", help="How many.", min=1, max=1000)] = 10,
    tz: Annotated[str | None, typer.Option(help="IANA time zone of the expression.", metavar="Z")] = None,
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
    if " " not in what and not what.startswith("@") and tz is None:
        try:
            return with_job(
                wire,
                what,
                lambda id: wire.call(
                    methods.JOBS_NEXT,
                    decoding.convert({"job_id": id, "n": n, **when}, queries.NextQuery, text=False),
                ),
            )
        except NotFound:
            if not any(c in what for c in "*:"):
                raise
    zone = {} if tz is None else {"timezone": tz}
    request = decoding.convert({"schedule": what, "n": n, **zone, **when}, PreviewRequest, text=False)
    return wire.call(methods.SCHEDULES_PREVIEW, request)
