"""`waterclock artifact`: push, list and show."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, Json, Watch
from waterclock.api.cli.output import print_json, table
from waterclock.api.cli.session import connected, upload
from waterclock.proto import methods
from waterclock.proto.answers import Artifact
from waterclock.proto.queries import ArtifactRef, Nothing

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
def list_(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List what was uploaded."""
    with connected(data) as wire:
        _ARTIFACTS.show(lambda: wire.call(methods.ARTIFACTS_LIST, Nothing()), json=json, watch=watch)


@artifact.command()
def show(
    digest: Annotated[str, typer.Argument(metavar="ARTIFACT", help="`sha256:…`", show_default=False)],
    json: Json = False,
    data: Data = None,
) -> None:
    """Show what is known of an artifact."""
    with connected(data) as wire:
        found = wire.call(
            methods.ARTIFACTS_GET, decoding.convert({"digest": digest}, ArtifactRef, text=False)
        )
    print_json(found) if json else print(_artifact_table([found]))


def _artifact_table(artifacts: Sequence[Artifact]) -> str:
    rows = [(one.artifact, one.name, str(one.size), output.ago(one.created_at)) for one in artifacts]
    return table(("ARTIFACT", "NAME", "SIZE", "PUSHED"), rows) if rows else "no artifacts"


_ARTIFACTS = Listing[Artifact](key=lambda one: one.artifact, text=_artifact_table)
