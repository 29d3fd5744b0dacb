"""Definitions that the owner has in memory, by job and version."""

from collections.abc import Iterable

from msgspec import Struct

from waterclock.core.domain.bounded_map import BoundedMap
from waterclock.core.domain.workflow.conditions import Unusable
from waterclock.core.domain.workflow.shape import Shape, shape_of
from waterclock.proto.spec import JobSpec, Node, Workflow

SPECS_KEPT = 1_000
"""Of runs that have not ended; one that is not among them is read back from the log when it is retried."""


class Definition(Struct, frozen=True):
    """A job's definition at a version; its graph, if it is a workflow."""

    spec: JobSpec
    shape: Shape | None = None

    def node(self, node_id: str) -> Node:
        if self.shape is None or node_id not in self.shape.nodes:
            raise Unusable(f"the definition has no node '{node_id}'")
        return self.shape.nodes[node_id]

    def reads(self, node_id: str) -> Iterable[str]:
        return () if self.shape is None else self.shape.reads[node_id]


class Definitions:
    def __init__(self) -> None:
        self._known = BoundedMap[tuple[str, int], Definition](SPECS_KEPT)
        self._gone: set[tuple[str, int]] = set()

    def remember(self, job_id: str, version: int, spec: JobSpec) -> None:
        shape = shape_of(spec.task) if isinstance(spec.task, Workflow) else None
        self._known[job_id, version] = Definition(spec, shape)

    def remember_plain(self, job_id: str, version: int, spec: JobSpec) -> None:
        """One that is no workflow."""
        self._known[job_id, version] = Definition(spec)

    def forget(self, job_id: str, version: int) -> None:
        """Nothing more is to come of it, for now."""
        self._known.forget((job_id, version))

    def get(self, job_id: str, version: int) -> Definition | None:
        return self._known.get((job_id, version))

    def mark_gone(self, job_id: str, version: int) -> None:
        """The log no longer has it."""
        self._gone.add((job_id, version))

    def is_gone(self, job_id: str, version: int) -> bool:
        return (job_id, version) in self._gone
