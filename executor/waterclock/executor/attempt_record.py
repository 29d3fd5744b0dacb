"""One try at a run: an immutable record that goes through resolve, start, perform, classify and report.

How the performing of an attempt ended, before anybody has decided what that means.
"""

from typing import Any

from msgspec import Struct

from waterclock.proto.events import Instant
from waterclock.proto.work import WorkItem


class Traces(Struct, frozen=True, kw_only=True):
    """What an attempt left to look at."""

    exit_code: int | None = None
    log_url: str | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


NO_TRACES = Traces()


class Succeeded(Struct, frozen=True, kw_only=True):
    output: Any = None
    traces: Traces = NO_TRACES


class Failed(Struct, frozen=True, kw_only=True):
    reason: str
    error_message: str = ""
    error: str = ""
    """The name of the exception's class, for `non_retryable_errors`."""
    final: bool = False
    """Trying again is pointless."""
    after_seconds: float | None = None
    """A wait somebody asked for, instead of the policy's."""
    output: Any = None
    traces: Traces = NO_TRACES


class TimedOut(Struct, frozen=True, kw_only=True):
    reason: str
    error_message: str = ""
    traces: Traces = NO_TRACES


class Snoozed(Struct, frozen=True, kw_only=True):
    seconds: float
    reason: str = ""
    traces: Traces = NO_TRACES


class Cancelled(Struct, frozen=True, kw_only=True):
    reason: str
    traces: Traces = NO_TRACES


class HandedBack(Struct, frozen=True, kw_only=True):
    reason: str
    crashed: bool = False
    """Not by choice: its lease was lost. An outage does that, or a handler that blocks the loop, again and again."""
    traces: Traces = NO_TRACES


Ending = Succeeded | Failed | TimedOut | Snoozed | Cancelled | HandedBack


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    item: WorkItem
    executor_id: str
    started: Instant
    crash_count: int = 0
    fencing_token: int | None = None

    @property
    def failures(self) -> int:
        """How many attempts will have failed if this one does, counted anew after a redrive."""
        return self.item.attempt - self.item.first_attempt + 1
