"""The functions that answer the method table. Importing this package registers all of them."""

from waterclock.api.methods import (
    accept,
    access,
    artifacts,
    backfills,
    control,
    dead_letters,
    declare,
    events,
    explanations,
    jobs,
    logs,
    operations,
    runs,
    schedules,
    waves,
    workflows,
)
from waterclock.api.registry import handler_of, stream_of

__all__ = [
    "accept",
    "access",
    "artifacts",
    "backfills",
    "control",
    "dead_letters",
    "declare",
    "events",
    "explanations",
    "handler_of",
    "jobs",
    "logs",
    "operations",
    "runs",
    "schedules",
    "stream_of",
    "waves",
    "workflows",
]
