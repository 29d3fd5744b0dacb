"""The functions that answer the method table. Importing this module registers all of them."""

from waterclock.api.commands import access, apply, artifacts, backfills, control, create, workflows
from waterclock.api.explain import methods
from waterclock.api.queries import (
    dead_letters,
    jobs,
    logs,
    operations,
    runs,
    schedules,
    watch,
    workflow_runs,
)
from waterclock.api.registry import handler_of, stream_of

__all__ = [
    "access",
    "apply",
    "artifacts",
    "backfills",
    "control",
    "create",
    "dead_letters",
    "handler_of",
    "jobs",
    "logs",
    "methods",
    "operations",
    "runs",
    "schedules",
    "stream_of",
    "watch",
    "workflow_runs",
    "workflows",
]
