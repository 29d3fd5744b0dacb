"""One attempt, from the work item to the event that ends it: the values that its steps hand on.

An `Attempt` is what was resolved and started. Performing it returns a `Result`, which says how it ended and nothing
about what that means. Classifying turns the result into an `OutcomeEvent`, which is reported.
"""

from typing import Any

from msgspec import Struct

from waterclock.proto.events import (
    Instant,
    OutcomeRejected,
    RunCancelled,
    RunFailed,
    RunReturned,
    RunsMissed,
    RunSnoozed,
    RunSucceeded,
    RunTimedOut,
)
from waterclock.proto.work import WorkItem


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


class Details(Struct, frozen=True, kw_only=True):
    """What is known about the performing beside its result. Only processes have all of it."""

    exit_code: int | None = None
    log_url: str | None = None
    log_lost: str = ""
    """Why the output could not be kept."""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


NO_DETAILS = Details()


class Succeeded(Struct, frozen=True, kw_only=True):
    output: Any = None
    details: Details = NO_DETAILS


class Failed(Struct, frozen=True, kw_only=True):
    reason: str
    error_message: str = ""
    error: str = ""
    """The name of the exception's class, for `non_retryable_errors`."""
    final: bool = False
    """Trying again is pointless."""
    after_seconds: float | None = None
    """A wait that the handler or server asked for, instead of the policy's."""
    output: Any = None
    details: Details = NO_DETAILS


class TimedOut(Struct, frozen=True, kw_only=True):
    reason: str
    error_message: str = ""
    details: Details = NO_DETAILS


class Snoozed(Struct, frozen=True, kw_only=True):
    seconds: float
    reason: str = ""
    details: Details = NO_DETAILS


class Cancelled(Struct, frozen=True, kw_only=True):
    reason: str
    details: Details = NO_DETAILS


class Returned(Struct, frozen=True, kw_only=True):
    """Given back to the queue. The next try has the same attempt number."""

    reason: str
    crashed: bool = False
    """Its lease was lost. That counts as a crash: an outage does it once, a handler that blocks the loop every time."""
    details: Details = NO_DETAILS


Result = Succeeded | Failed | TimedOut | Snoozed | Cancelled | Returned

OutcomeEvent = RunSucceeded | RunFailed | RunTimedOut | RunSnoozed | RunReturned | RunCancelled
FinalEvent = OutcomeEvent | OutcomeRejected | RunsMissed
"""The last event that an executor writes about an attempt."""
