"""Namespaces keep tenants apart: ids of one are invisible to another, and may be the same.

In the log an id carries its namespace (`acme=backup`, plain `backup` in the default one), so that subjects differ and
every event says whose it is. Callers see and send ids without it; this is where it is added and taken off.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import NoneType
from typing import Any, TypeVar

from msgspec import Struct, UnsetType, structs

from waterclock.api.errors import Refused
from waterclock.core.domain.ids import DEFAULT_NAMESPACE
from waterclock.proto.commands import JobPatch, WorkflowPatch
from waterclock.proto.spec import JobRequest

DEFAULT = DEFAULT_NAMESPACE

S = TypeVar("S")

_IDS = frozenset(
    (
        *("job_id", "run_id", "workflow_id", "workflow_run_id", "backfill_id"),
        *("job", "run", "workflow_run", "id"),
    )
)
_LISTS = frozenset(("run_ids", "ids", "dependencies", "running"))
_WITHOUT_IDS = frozenset((NoneType, UnsetType, bool, int, float, datetime))
_OPAQUE = frozenset(("payload", "metadata", "labels", "output", "task", "parameters", "spec", "jobs"))


def scoped(namespace: str, id: str) -> str:
    """An id as the log has it."""
    return id if namespace == DEFAULT else f"{namespace}={id}"


def unscoped(namespace: str, id: str) -> str:
    """An id as its owner knows it."""
    return id if namespace == DEFAULT else id.removeprefix(f"{namespace}=")


def inward(namespace: str, request: S) -> S:
    """A request with its ids as the log has them. Definitions are left alone: their reader must see what was sent."""
    if namespace == DEFAULT or type(request) is JobRequest:
        return request
    if isinstance(request, JobPatch):
        return structs.replace(request, job_id=scoped(namespace, request.job_id))
    if isinstance(request, WorkflowPatch):
        return structs.replace(request, workflow_id=scoped(namespace, request.workflow_id))
    changed: S = _walk(request, lambda id: scoped(namespace, id))
    return changed


def outward(namespace: str, answer: S) -> S:
    """An answer with its ids as the caller knows them."""
    if namespace == DEFAULT:
        return answer
    changed: S = _walk(answer, lambda id: unscoped(namespace, id))
    return changed


@contextmanager
def refusals_outward(namespace: str) -> Iterator[None]:
    """A refusal names ids as the caller knows them."""
    try:
        yield
    except Refused as refused:
        if namespace == DEFAULT:
            raise
        problem = refused.problem
        errors = tuple(
            structs.replace(error, reason=without_namespace(namespace, error.reason))
            for error in problem.errors
        )
        known = structs.replace(problem, detail=without_namespace(namespace, problem.detail), errors=errors)
        raise type(refused)(known) from refused


def without_namespace(namespace: str, text: str) -> str:
    """A sentence that names ids as their owner knows them."""
    if namespace == DEFAULT:
        return text
    return re.sub(rf"(?<![\w-]){re.escape(namespace)}=(?=[A-Za-z0-9])", "", text)


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case Struct():
            changed = {
                name: new
                for name in value.__struct_fields__
                if name not in _OPAQUE
                and type(old := getattr(value, name)) not in _WITHOUT_IDS
                and (new := _field(name, old, change)) is not old
            }
            return structs.replace(value, **changed) if changed else value
        case list() | tuple():
            return type(value)(_walk(item, change) for item in value)
        case _:
            return value


def _field(name: str, value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value) if name in _IDS else value
    if name in _LISTS and isinstance(value, list | tuple):
        return type(value)(change(item) if isinstance(item, str) else item for item in value)
    return _walk(value, change)
