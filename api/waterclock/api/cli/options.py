"""Options and arguments that many commands share, and how the shell completes ids in them."""

from typing import Annotated, Literal

import typer


def complete_job(context: typer.Context, incomplete: str) -> list[str]:
    return _ids("job", context, incomplete)


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    return _ids("run", context, incomplete)


def _ids(kind: Literal["job", "run"], context: typer.Context, incomplete: str) -> list[str]:
    """Asked of the service. Empty when that cannot be: a prompt is no place for errors."""
    from waterclock.api.cli.session import connected
    from waterclock.api.errors import Refused, Unreachable
    from waterclock.core.runtime.settings import SettingsError
    from waterclock.proto import methods, queries

    if not incomplete:
        return []
    query = queries.IdQuery(kind=kind, prefix=incomplete)
    try:
        with connected(context.params.get("data"), patience=0.5) as wire:
            return list(wire.call(methods.IDS_FIND, query).ids)
    except (Refused, Unreachable, SettingsError):
        return []


Data = Annotated[str | None, typer.Option("--data", help="Data directory of `waterclock up`.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Stay and show changes; with --json a line for each.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=1000)]
JobId = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A job's id, or the beginning of it.",
        show_default=False,
        autocompletion=complete_job,
    ),
]
RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id, or the beginning of it.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
WorkflowId = Annotated[
    str,
    typer.Argument(metavar="WORKFLOW", help="A workflow's id, or the beginning of it.", show_default=False),
]
WaveId = Annotated[
    str, typer.Argument(metavar="WAVE", help="A wave's id, or the beginning of it.", show_default=False)
]
Note = Annotated[str, typer.Option(help="Why; kept with the change.", metavar="TEXT")]
Version = Annotated[
    int | None, typer.Option("--if-version", help="Only if it is still this version.", metavar="N")
]
