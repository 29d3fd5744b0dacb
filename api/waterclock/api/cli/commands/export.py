"""`waterclock export`: what is defined, as a file that `apply` takes."""

import sys
from typing import Annotated

import typer

from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.output import note, print_json
from waterclock.api.cli.session import connected
from waterclock.api.declaration_yaml import item
from waterclock.proto import methods, queries
from waterclock.proto.answers import Declaration


def export(
    label: Annotated[
        list[str] | None, typer.Option(help="Only those: key=value or key; may be repeated.", metavar="K=V")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Write jobs and workflows as YAML that `apply -f` takes, and changes nothing with.

    waterclock export --label team=data > jobs.yaml
    """
    after: str | None = None
    found: list[Declaration] = []
    paused = 0

    def rest() -> queries.ExportQuery:
        return queries.ExportQuery(label=tuple(label or ()), after=after)

    with connected(data) as wire:
        for declaration in wire.follow(methods.JOBS_EXPORT, rest):
            after = declaration.job_id
            paused += declaration.status == "PAUSED" and declaration.definition is not None
            if declaration.definition is None:
                note(f"waterclock: {declaration.job_id} is left out: {declaration.left_out}")
            if json:
                found.append(declaration)
            else:
                sys.stdout.write(item(declaration))
    if json:
        print_json([one.definition for one in found if one.definition is not None])
    if paused:
        note(f"waterclock: {paused} of them are paused, which a declaration does not say")
