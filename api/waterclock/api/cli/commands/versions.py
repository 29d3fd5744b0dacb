"""Commands about what a job was: who changed it, what two versions differ in, and back to one of them."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET

from waterclock.api.cli import output
from waterclock.api.cli.exits import Failed
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Limit, Version, Watch
from waterclock.api.cli.output import clean, print_json, signed, stamp, table
from waterclock.api.cli.session import connected, with_job
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.core.domain.job.difference import FieldChange, field_changes
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import DefinitionVersion, Job, Page

_NOT_DEFINED = (
    "job_id", "namespace", "version", "created_at", "updated_at", "next_run_at", "last_run", "warnings",
)  # fmt: skip
"""What an answer shows beside the definition."""
_SHORT = 60


def versions(
    job_id: JobId,
    limit: Limit = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page.", metavar="CURSOR")] = None,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List who changed a job or a workflow, when and what, newest first."""

    def listed(job_id: str) -> Page[DefinitionVersion]:
        query = queries.VersionsQuery(job_id=job_id, limit=limit, cursor=cursor)
        return wire.call(methods.JOBS_VERSIONS, query)

    with connected(data) as wire:
        _VERSIONS.show(lambda: with_job(wire, job_id, listed), json=json, watch=watch)


def diff(
    job_id: JobId,
    first: Annotated[
        int | None,
        typer.Argument(metavar="[V1]", help="A version; the one before the newest.", show_default=False),
    ] = None,
    second: Annotated[
        int | None, typer.Argument(metavar="[V2]", help="Another one; the newest.", show_default=False)
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Show in what two versions of a job or a workflow differ, field by field: before → after.

    waterclock diff nightly

    waterclock diff nightly 4711
    """
    with connected(data) as wire:
        old, new = with_job(wire, job_id, lambda id: _both(wire, id, first, second))
    changes = list(field_changes(_defined(old), _defined(new)))
    if json:
        print_json({"job_id": new.job_id, "from": old.version, "to": new.version, "changes": changes})
        return
    print(f"{new.job_id}: version {old.version} of {stamp(old.updated_at)}", end="")
    print(f" → {new.version} of {stamp(new.updated_at)}")
    print("\n".join(signed(line) for change in changes for line in _lines(change)) or "they are the same")


def rollback(
    job_id: JobId,
    version: Annotated[
        int,
        typer.Argument(metavar="VERSION", help="One that `versions` lists.", show_default=False),
    ],
    if_version: Version = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Give a job or a workflow the definition again that it had at a version. It is an edit, and counts from now."""
    with connected(data) as wire:
        restored = with_job(
            wire,
            job_id,
            lambda id: wire.call(
                methods.JOBS_ROLLBACK, commands.Rollback(job_id=id, version=version, if_match=if_version)
            ),
        )
    output.warn(restored.warnings)
    if json:
        print_json(restored)
        return
    coming = f", next run {stamp(restored.next_run_at)}" if restored.next_run_at else ""
    print(f"{restored.job_id} is as in version {version} (now version {restored.version}){coming}")


def _both(wire: BlockingWire, job_id: str, first: int | None, second: int | None) -> tuple[Job, Job]:
    if first is None or second is None:
        query = queries.VersionsQuery(job_id=job_id, limit=2)
        newest = [one.version for one in wire.call(methods.JOBS_VERSIONS, query).items]
        if first is None and len(newest) < 2:
            raise Failed(f"{job_id} has one version, {newest[0]}: there is nothing to compare it with")
        second = newest[0] if second is None else second
        first = newest[1] if first is None else first
    return _version(wire, job_id, first), _version(wire, job_id, second)


def _version(wire: BlockingWire, job_id: str, version: int) -> Job:
    return wire.call(methods.JOBS_VERSION, queries.VersionRef(job_id=job_id, version=version))


def _defined(job: Job) -> dict[str, Any]:
    """The definition as it is written; a workflow's nodes are fields of it."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(job))
    if fields["task"].get("kind") == "workflow":
        fields["nodes"] = fields.pop("task")["nodes"]
    return {name: value for name, value in fields.items() if name not in _NOT_DEFINED}


def _lines(change: FieldChange) -> Iterator[str]:
    """On one line where both values are short, else what goes and what comes below each other."""
    before, after = _texts(change.before), _texts(change.after)
    if len(before) == len(after) == 1 and len(before[0]) + len(after[0]) <= _SHORT:
        yield f"{clean(change.field)}: {before[0]} → {after[0]}"
        return
    yield f"{clean(change.field)}:"
    yield from (f"- {line}" for line in before)
    yield from (f"+ {line}" for line in after)


def _texts(value: Any) -> list[str]:
    match value:
        case str() if value:
            return [clean(line) for line in value.splitlines()]
        case _ if value is UNSET:
            return ["(not there)"]
        case _:
            return [clean(msgspec.json.encode(value).decode())]


def _version_table(found: Sequence[DefinitionVersion]) -> str:
    rows = [
        (
            str(one.version),
            stamp(one.at),
            one.actor,
            one.change,
            ", ".join(one.fields),
            one.note,
        )
        for one in found
    ]
    return table(("VERSION", "AT", "BY", "CHANGE", "FIELDS", "NOTE"), rows)


_VERSIONS = Listing[DefinitionVersion](key=lambda one: one.version, text=_version_table)
