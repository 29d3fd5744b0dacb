"""What is explained: events with where and by whom they were written."""

from collections.abc import Sequence

from msgspec import Struct

from waterclock.proto.events import Instant, JobEvent, RunEvent

JobHistory = Sequence[tuple[int, JobEvent]]
"""The definitions a job has had, each with its version, in order."""


class Recorded(Struct, frozen=True, kw_only=True, gc=False):
    sequence: int
    writer: str
    event: RunEvent
    owner_before: str | None = None
    """Who wrote the last frame of an owner before this one."""
    decided_before: Instant | None = None
    """Up to when that frame had everything decided."""


def instance_of(writer: str) -> str:
    """A scheduler writes as `<instance>/<lease>`."""
    return writer.partition("/")[0]
