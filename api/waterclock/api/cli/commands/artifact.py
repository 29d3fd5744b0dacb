"""`waterclock artifact`: push and list."""

from pathlib import Path
from typing import Annotated

import typer

from waterclock.api.cli import words
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.printing import print_json
from waterclock.api.cli.session import connected
from waterclock.api.cli.tables import table
from waterclock.api.cli.uploading import upload
from waterclock.proto import methods
from waterclock.proto.queries import Nothing

artifact = typer.Typer(
    name="artifact", help="Programs and archives that jobs run.", no_args_is_help=True, add_completion=False
)


@artifact.command()
def push(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to upload.", show_default=False)],
    json: Json = False,
    data: Data = None,
) -> None:
    """Upload a file; prints what a job names to run it."""
    with connected(data) as wire:
        pushed = upload(wire, file)
    print_json(pushed) if json else print(pushed.artifact)


@artifact.command("list")
def list_(json: Json = False, data: Data = None) -> None:
    """List what was uploaded."""
    with connected(data) as wire:
        page = wire.call(methods.ARTIFACTS_LIST, Nothing())
    if json:
        print_json(page)
        return
    rows = [(one.artifact, one.name, str(one.size), words.ago(one.created_at)) for one in page.items]
    print(table(("ARTIFACT", "NAME", "SIZE", "PUSHED"), rows) if rows else "no artifacts")
