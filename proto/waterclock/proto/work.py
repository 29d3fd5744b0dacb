"""The messages of the work queue, with all that an executor needs: one attempt, or a parcel of many short ones."""

from msgspec import Struct

from waterclock.proto.events import Instant, Trigger
from waterclock.proto.spec import JobSpec
from waterclock.proto.verdicts import ClaimVerdict


class WorkItem(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    run_id: str
    job_id: str
    version: int
    spec: JobSpec
    scheduled: Instant
    due: Instant
    queued: Instant
    attempt: int = 1
    crash_count: int = 0
    first_attempt: int = 1
    """The attempt at which counting began: 1, or later after a redrive."""
    trigger: Trigger = "schedule"
    recovered: bool = False
    """Published again after a crash: the executor asks the owner before it runs."""
    parent: str | None = None
    epoch: int | None = None
    index: int | None = None
    exact: bool = False
    """As in `RunQueued`: it says on which subject the item is."""


class Parcel(Struct, frozen=True, gc=False):
    """Attempts of one partition and one line (route, tier, priority) that travel in one message."""

    items: tuple[WorkItem, ...]


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """An executor holds a delivery that may not be the first: may it run?"""

    run_id: str
    attempt: int
    queued: Instant
    """The work item's: an attempt that was handed back is queued again under the same number."""
    executor_id: str
    delivered: int = 1
    in_parcel: bool = False
    more: tuple["ClaimRequest", ...] = ()
    """The others of the same parcel."""


class ClaimReply(Struct, frozen=True, kw_only=True):
    verdict: ClaimVerdict
    crash_count: int = 0
    has_started: bool = False
    """It began before: no start deadline applies any more."""
    more: tuple["ClaimReply", ...] = ()
    """For the others that were asked about, in their order. An owner of the version before answers for the first."""


class DependencyQuestion(Struct, frozen=True, kw_only=True):
    """Which of the jobs that a job waits for have completed, as far as its owner has heard?"""

    job_id: str
    scheduled: Instant | None = None
    """Of which run, where a run waits for those of the same time."""


class CompletedDependency(Struct, frozen=True, kw_only=True):
    run_id: str
    at: Instant | None = None
    """When its owner heard of it; None where only the scheduled time is kept."""


class DependencyReply(Struct, frozen=True, kw_only=True):
    waits_for: tuple[str, ...] = ()
    """All that it waits for. Empty: it waits for none."""
    completed: dict[str, CompletedDependency] = {}
    """Those that have completed since its last run, by job."""


class StopRequest(Struct, frozen=True, kw_only=True):
    run_id: str
    reason: str
    now: bool = False
    """KILL at once instead of TERM and grace."""
    until: Instant | None = None
    """Only what was queued up to then: the run may be asked for again. None: whenever it was."""


class QuarantinedRecord(Struct, frozen=True, kw_only=True):
    """A record that a component could not read, as the stream QUARANTINE keeps it."""

    stream: str
    sequence: int
    subject: str
    component: str
    at: Instant
    error: str
    size: int
    data: bytes
    """Its beginning."""
