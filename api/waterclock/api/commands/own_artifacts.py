"""A job runs only artifacts that its own namespace has uploaded: the bytes are kept once for all, and their digest is
no secret."""

from collections.abc import Iterator
from typing import Any

from waterclock.api.application import Application
from waterclock.api.errors import Invalid
from waterclock.api.queries.artifacts import find_upload
from waterclock.proto.spec import Artifact, FanOut, JobSpec, Workflow


async def check_artifacts(app: Application, spec: JobSpec) -> None:
    """The same refusal whether nobody has it or another namespace does."""
    for field, digest in _artifacts_in(spec):
        if await find_upload(app, digest, spec.namespace) is None:
            raise Invalid.field(field, f"{digest} was not uploaded to this namespace")


def names_artifacts(spec: JobSpec) -> bool:
    return any(True for _ in _artifacts_in(spec))


def _artifacts_in(spec: JobSpec) -> Iterator[tuple[str, str]]:
    yield from _of(spec.task, spec.fan_out, "", "fan_out")
    if isinstance(spec.task, Workflow):
        for place, node in enumerate(spec.task.nodes):
            yield from _of(node.task, node.map, f"nodes[{place}].", "map")


def _of(task: Any, expansion: FanOut | None, where: str, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(task, Artifact):
        yield f"{where}artifact", task.artifact
    if expansion is not None and isinstance(expansion.over, dict):
        lines = expansion.over.get("lines")
        if isinstance(lines, str):
            yield f"{where}{field}.over.lines", lines
