"""What happened: past-tense facts, in the two truth streams.

`JOBS` holds job events, each with the full new definition. `RUNS` holds run events. Every message of either
stream is a frame: an envelope with one or more events of one partition. Instants are integer microseconds
since the epoch. A tag, once released, keeps its meaning for ever; new fields have defaults.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from waterclock.proto.spec import JobSpec

Instant = int
"""Microseconds since the Unix epoch."""

Trigger = Literal["schedule", "catch_up", "now", "backfill", "dependency", "workflow", "fan_out"]

SCHEMA_VERSION = 1


# --- JOBS ----------------------------------------------------------------------------------------------


class JobEventBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    job_id: str
    spec: JobSpec
    at: Instant
    created_at: Instant
    actor: str = ""
    cause: str = ""
    """The id of the command that led to this event."""
    note: str = ""
    due_now: Instant | None = None
    """When an edit made the job due at once: it was to run now, or at a time that had passed."""


class JobCreated(JobEventBase, frozen=True, kw_only=True, omit_defaults=True, tag="job_created"):
    first_fire: Instant | None = None
    """The first fire after `at` of a schedule that recurs. Whoever accepts a job works it out; who reads the event need
    not. None: it is for the reader to find."""


class JobUpdated(JobEventBase, frozen=True, kw_only=True, omit_defaults=True, tag="job_updated"):
    paused_at: Instant | None = None
    """Since when the job is paused: an edit neither pauses nor resumes."""
    restores: int | None = None
    """The version whose definition it has again, where that was asked for."""


class JobPaused(JobEventBase, frozen=True, kw_only=True, omit_defaults=True, tag="job_paused"):
    pass


class JobResumed(JobEventBase, frozen=True, kw_only=True, omit_defaults=True, tag="job_resumed"):
    missed_since: Instant | None = None
    """Take the fires missed since then by the catch-up policy; None starts from now."""


class JobCancelled(JobEventBase, frozen=True, kw_only=True, omit_defaults=True, tag="job_cancelled"):
    pass


JobEvent = JobCreated | JobUpdated | JobPaused | JobResumed | JobCancelled


class JobFrame(Struct, frozen=True, kw_only=True):
    events: tuple[JobEvent, ...]
    v: int = SCHEMA_VERSION


# --- RUNS ----------------------------------------------------------------------------------------------


class RunEventBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    run_id: str
    at: Instant


class RunRequested(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="requested"):
    """Somebody asked for a run beside the schedule (run now, backfill). Written by the api."""

    version: int
    actor: str = ""
    cause: str = ""
    scheduled: Instant | None = None
    trigger: Trigger = "now"
    parameters: Any = None


class RunQueued(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="queued"):
    """The owner published the work of this attempt."""

    version: int
    scheduled: Instant
    due: Instant
    attempt: int = 1
    again: bool = False
    """The run was there before. Void if it has ended meanwhile."""
    crash_count: int = 0
    trigger: Trigger = "schedule"
    queue: str = "default"
    tier: str = "light"
    priority: int = 0
    handler: str | None = None
    first_attempt: int = 1
    """The attempt at which counting began: 1, or later after a redrive."""
    pause_after: int | None = None
    """Failed runs in a row that pause the schedule."""
    fire: int | None = None
    """Which of the job's `max_fires` this is."""
    parent: str | None = None
    """The workflow or fan-out run this one is part of."""
    epoch: int | None = None
    output_kept: bool = False
    """Another node reads this one's output."""
    item: Any = None
    """A member's item, where it is read from a file: a retry need not read the file again."""
    once: bool = False
    """Its job has no times of its own, so this may be its only run: who comes to wait for it later counts it too."""
    behind_ms: int | None = None
    """How far behind the system was, where that is why the run was queued more than a second after it was due. 0: the
    system was not; the run waited until its queue had a slot."""
    slowed: bool = False
    """It was so far behind that callers were slowed down."""
    parcel: str = ""
    """The run that the parcel is named after which carries this attempt and others; empty: it has a message of its
    own. All that travel in one are queued at the same instant."""
    start_by: Instant | None = None
    """When it is too late to start; None: never."""
    exact: bool = False
    """Its work waits in the line of exactly its priority. Else in that of a range of them, as in the first releases;
    for priority 0 that is the same."""


class RunWaiting(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="waiting"):
    """The run is due, but must wait: for the run before it, for a dependency, for a key."""

    version: int
    scheduled: Instant
    due: Instant
    reason: str
    trigger: Trigger = "schedule"
    fire: int | None = None
    parent: str | None = None
    epoch: int | None = None
    waits_for: Literal["overlap", "dependency"] = "overlap"
    start_by: Instant | None = None
    """As in `RunQueued`."""


class RunSkipped(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="skipped"):
    version: int
    scheduled: Instant
    due: Instant
    reason: str
    because_of: str | None = None
    """The run that stood in the way."""
    parent: str | None = None
    epoch: int | None = None
    blocked: bool = False
    """A node that did not run because one before it failed: for those after it that is a failure, too."""
    trigger: Trigger = "schedule"


class RunsMissed(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="missed"):
    """`count` fires from `scheduled` to `until` (inclusive) were not taken. `run_id` is the first one's."""

    version: int
    scheduled: Instant
    until: Instant
    count: int
    reason: str
    trigger: Trigger = "schedule"
    attempt: int | None = None
    """Of a run that was queued."""
    executor_id: str = ""
    """Who had it and found it too late. Else its owner says that nobody began it: void if somebody has."""


class RunStarted(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="started"):
    attempt: int
    executor_id: str
    fencing_token: int | None = None


class Outcome(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an attempt ended. Carries its start, so that a short attempt is one event and not two."""

    attempt: int
    executor_id: str
    started: Instant
    exit_code: int | None = None
    output: Any = None
    log_url: str | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    fencing_token: int | None = None
    log_lost: str = ""
    """Why its output is not in the store, if it should be."""


class RunSucceeded(Outcome, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="succeeded"):
    pass


class RunFailed(Outcome, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="failed"):
    reason: str
    error_message: str = ""
    retry_at: Instant | None = None
    """When the next attempt is due; None: there is none, and the run is a dead letter."""


class RunTimedOut(Outcome, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="timed_out"):
    reason: str
    error_message: str = ""
    retry_at: Instant | None = None


class RunSnoozed(Outcome, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="snoozed"):
    """The handler asked to be called again later; the attempt does not count."""

    until: Instant
    reason: str = ""


class RunReturned(Outcome, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="returned"):
    """The executor handed the attempt back, since it drains or lost the run's lease; it does not count."""

    reason: str = ""
    crash_count: int = 0
    """With a lost lease, that counts among the crashes; 0: there was none."""


class RunCancelled(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancelled"):
    """By the owner if nothing runs, else by the executor once the process is gone."""

    reason: str = ""
    attempt: int = 0
    executor_id: str | None = None
    started: Instant | None = None
    exit_code: int | None = None
    log_url: str | None = None
    version: int | None = None
    scheduled: Instant | None = None
    fencing_token: int | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    parent: str | None = None
    epoch: int | None = None


class RunLost(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="lost"):
    """The executor of this attempt died. Counted apart from attempts; `dead` when it happened too often."""

    attempt: int
    crash_count: int
    executor_id: str | None = None
    reason: str = ""
    dead: bool = False


class RunCancelRequested(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_requested"
):
    actor: str = ""
    cause: str = ""
    reason: str = ""
    now: bool = False
    """Kill at once, without a grace."""
    timed_out: bool = False
    """A workflow run has taken longer than it may: it ends as timed out, and not as cancelled."""


class RunRetryRequested(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="retry_requested"
):
    """Redrive of a run that ended badly: same id, next attempt number, attempts counted anew.

    The owner has forgotten a run that ended, so the request names what the next attempt needs.
    """

    version: int
    scheduled: Instant
    attempt: int
    """The last attempt's number."""
    actor: str = ""
    cause: str = ""
    parent: str | None = None
    epoch: int | None = None


class SkipRequested(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="skip_requested"
):
    """Somebody wants this one occurrence of a schedule left out."""

    scheduled: Instant
    actor: str = ""
    cause: str = ""
    note: str = ""


class BackfillRequested(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="backfill_requested"
):
    """Run these past fires beside the live schedule, in this order. `run_id` is `<job_id>@backfill-<id>`."""

    version: int
    fires: tuple[Instant, ...]
    max_active: int = 1
    actor: str = ""
    cause: str = ""


class BackfillSteered(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="backfill_steered"
):
    action: Literal["pause", "resume", "cancel"]
    actor: str = ""
    cause: str = ""


class BackfillEnded(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="backfill_ended"
):
    """Every fire that was to run has ended."""

    succeeded: int
    failed: int
    left_out: int
    """Fires not run because the backfill was cancelled."""


class RunOpened(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="opened"):
    """The run has parts instead of work of its own: nodes of a workflow, or members of a fan-out. It is RUNNING
    until they have ended."""

    version: int
    scheduled: Instant
    due: Instant
    kind: Literal["wave", "fan_out"]
    again: bool = False
    """The run was there before, waiting. Void if it has ended meanwhile."""
    trigger: Trigger = "schedule"
    attempt: int = 1
    fire: int | None = None
    pause_after: int | None = None
    parent: str | None = None
    epoch: int | None = None
    """Which wave of the workflow this is, or is part of."""
    parameters: Any = None
    total: int | None = None
    """Members of a fan-out; None until they are counted."""
    output_kept: bool = False
    once: bool = False
    deadline: Instant | None = None
    """When a workflow run is to have ended."""


class RunProgressed(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="progressed"):
    """How far a fan-out is; now and then, and once when its members are counted."""

    total: int
    done: int = 0
    failed: int = 0


class RunReported(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="reported"):
    """How far a handler says it has come; now and then, for attempts that last."""

    attempt: int
    executor_id: str
    done: float
    """From 0 to 1."""
    note: str = ""


class RunClosed(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="closed"):
    """All parts of the run have ended."""

    succeeded: bool
    timed_out: bool = False
    reason: str = ""
    output: Any = None


class NodeStands(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node ended, where a re-run takes it as it is."""

    outcome: Literal["success", "failed", "skipped", "blocked"]
    output: Any = None


class RerunRequested(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="rerun_requested"
):
    """Run nodes of a wave that has ended again, under the same ids.

    The owner has forgotten a wave that ended, so the request says which nodes stand and how they ended.
    """

    version: int
    scheduled: Instant
    epoch: int | None = None
    parameters: Any = None
    nodes: dict[str, NodeStands] = {}
    cleared: dict[str, int] = {}
    """Nodes to run again, each with the number of its last attempt."""
    actor: str = ""
    cause: str = ""
    note: str = ""


class NodeCleared(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="node_cleared"):
    """The node had ended and will be decided again."""

    reason: str = ""
    parent: str | None = None


class NodeMarked(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="node_marked"):
    """Somebody says how a node ended, whatever it does."""

    version: int
    scheduled: Instant
    succeeded: bool
    """Else it counts as skipped."""
    parent: str
    epoch: int | None = None
    output: Any = None
    actor: str = ""
    cause: str = ""
    note: str = ""


class DependenciesChanged(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="dependencies_changed"
):
    """For which jobs a job waits, from now on. `run_id` is the job's id, as in the four events after this."""

    version: int
    on: tuple[str, ...] = ()
    same_time: bool = False
    """Runs scheduled for the same time belong together; else what completed since the last run counts."""
    paused: bool = False
    reset: bool = False
    """What has completed until now does not count."""


class DependentChanged(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="dependent_changed"
):
    """Another job waits for this one, or no longer does. Written to this one's partition; harmless when repeated."""

    dependent: str
    version: int
    """Of the dependent's definition: what an older one says is void."""
    waits: bool = True
    known: bool = False
    """The dependent's owner has read that definition: only then does it hear what it is told in answer."""


class DependencyCompleted(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="dependency_completed"
):
    """A job that this one waits for has a run that succeeded. Written to this one's partition."""

    dependency: str
    of: str
    """The run; told twice, it counts once."""
    scheduled: Instant | None = None
    """The time it was scheduled for; None for a run that somebody asked for."""


class DependenciesUsed(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="dependencies_used"
):
    """What the job waited for has come, and led to a decision. It counts anew from here."""

    scheduled: Instant | None = None
    """The time whose runs are used up, where times are kept apart."""


class NoticesDelivered(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="letters_delivered"
):
    """Notices of this partition to others are in their logs. `run_id` is `<a sender's job id>@post`."""

    notices: tuple[str, ...] = field(name="letters")


class OutcomeRejected(RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="rejected"):
    """An outcome that came with an old fencing token: kept as evidence, changes nothing."""

    attempt: int
    executor_id: str
    fencing_token: int
    current_token: int | None = None
    outcome: str = ""


class ScheduleEnded(
    RunEventBase, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="schedule_ended"
):
    """The job will not fire again. `run_id` is the job's id here."""

    version: int
    reason: str


RunEvent = (
    RunRequested
    | RunQueued
    | RunWaiting
    | RunSkipped
    | RunsMissed
    | RunStarted
    | RunSucceeded
    | RunFailed
    | RunTimedOut
    | RunSnoozed
    | RunReturned
    | RunCancelled
    | RunLost
    | RunCancelRequested
    | RunRetryRequested
    | SkipRequested
    | BackfillRequested
    | BackfillSteered
    | BackfillEnded
    | RunOpened
    | RunProgressed
    | RunReported
    | RunClosed
    | RerunRequested
    | NodeCleared
    | NodeMarked
    | DependenciesChanged
    | DependentChanged
    | DependencyCompleted
    | DependenciesUsed
    | NoticesDelivered
    | OutcomeRejected
    | ScheduleEnded
)


class Cursor(Struct, frozen=True, kw_only=True):
    """How far the owner had come when it wrote a frame: the frame and its position are one write."""

    jobs: int
    """`JOBS` is consumed through this sequence."""
    time: Instant
    """Every fire up to and including this instant is decided."""
    work: int = 0
    """The work of every run queued in frames up to this sequence of `RUNS` is published."""
    index: int = 0
    """The timing index holds nothing that a change in `JOBS` up to this sequence made void."""
    settled: int = -1
    """Of the definitions up to this sequence of `JOBS`, none has a fire that was due when it was read and is not
    decided. -1: none up to `jobs`, as in frames of the first release, where nothing ever waited."""
    alive: Instant = 0
    """The owner lived at this instant. 0: a frame of the first release, which does not say."""
    through_version: int | UnsetType = UNSET
    """Of the fires at the instant after `time`, those of definitions up to this version are decided, too. Not said
    while there are none."""

    @property
    def through(self) -> int:
        return 0 if self.through_version is UNSET else self.through_version

    @property
    def settled_jobs(self) -> int:
        return self.jobs if self.settled < 0 else self.settled


class Frame(Struct, frozen=True, kw_only=True):
    """One message on `wc.runs.<p>`."""

    writer: str
    events: tuple[RunEvent, ...]
    cursor: Cursor | None = None
    v: int = SCHEMA_VERSION
