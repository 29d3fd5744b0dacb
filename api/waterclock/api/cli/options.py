"""Options that many commands share, so that they read the same everywhere."""

from typing import Annotated

import typer

from waterclock.api.cli import completion

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
        autocompletion=completion.jobs,
    ),
]
RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id, or the beginning of it.",
        show_default=False,
        autocompletion=completion.runs,
    ),
]
