"""What a partition's owner knows about runs that have not ended: a fold over `RUNS`, and nothing else.

Owned by one task. `evolve` changes it in place: a copy of up to a million runs for each event is not affordable.
Snapshots hold it as JSON under the names of the first release; a field that was renamed since keeps its old name there.
"""

from typing import Any, Literal

from msgspec import Struct, field

from waterclock.core.domain.partition.dependency_state import Dependencies, Notices
from waterclock.core.domain.partition.run_parts import FanOutState, WorkflowRunState
from waterclock.proto.events import (
    Cursor,
    Instant,
    Trigger,
)
from waterclock.proto.verdicts import RunStatus

Waits = Literal["", "decision", "overlap", "dependency", "timer"]
"""What a run that is WAITING or RETRYING waits for."""


class Run(Struct, kw_only=True, omit_defaults=True, gc=False):
    run_id: str
    job_id: str
    version: int
    scheduled: Instant
    due: Instant
    status: RunStatus
    waits: Waits = ""
    attempt: int = 0
    first_attempt: int = 1
    crash_count: int = 0
    trigger: Trigger = "schedule"
    queued_at: Instant = 0
    executor_id: str | None = None
    cancelling: bool = False
    pause_after: int | None = None
    parent: str | None = None
    epoch: int | None = None
    parts: Literal["", "wave", "fan_out"] = ""
    """What the run is made of, if not of work of its own: the nodes of a workflow ("wave" in the log) or the members
    of a fan-out."""
    parameters: Any = None
    output_kept: bool = False
    item: Any = None
    at_once: bool = False
    """It is to be stopped without a grace."""
    deadline: Instant | None = None
    """When a run of a workflow is to have ended."""
    timed_out: bool = False
    """It is to be stopped because it has not."""
    once: bool = False
    """Its job has no times of its own."""
    route: str = ""
    """Where its work is queued (see `room.py`); empty before its first attempt."""
    priority: int = 0
    parcel: str = ""
    """As in `RunQueued`; so are those below."""
    start_by: Instant | None = None
    exact: bool = False

    @property
    def has_work(self) -> bool:
        """Whether there should be a work message, or an executor that has it."""
        return not self.parts and (self.status == "QUEUED" or self.status == "RUNNING")

    @property
    def notifies_dependents(self) -> bool:
        """Whether those who wait for the job take notice of this run."""
        return self.trigger not in ("workflow", "fan_out", "backfill")

    @property
    def counts_for_overlap(self) -> bool:
        """Run-now and backfill do not disturb the schedule. But two runs of a workflow never mix: one that was asked
        for counts as soon as it has been decided whether it may begin."""
        if self.trigger == "now":
            return self.waits == "overlap" or (self.parts == "wave" and self.waits != "decision")
        return self.trigger in ("schedule", "catch_up", "dependency")


class Ended(Struct, frozen=True, gc=False):
    """A run left the state."""

    run: Run
    status: RunStatus


class Backfill(Struct, kw_only=True, omit_defaults=True):
    """Past fires that run beside the live schedule, a few at a time."""

    backfill_id: str
    job_id: str
    version: int
    fires: tuple[Instant, ...]
    max_active: int
    position: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    paused: bool = False
    cancelled: bool = False

    @property
    def finished(self) -> bool:
        return self.active == 0 and (self.cancelled or self.position == len(self.fires))


FireMark = tuple[Instant, Instant, int]
"""Of a job's last decided fire: its scheduled time, its due time, and the version of the definition."""


class PartitionState(Struct, kw_only=True):
    cursor: Cursor = Cursor(jobs=0, time=0)
    runs: dict[str, Run] = field(default_factory=dict)
    fires_taken: dict[str, int] = field(default_factory=dict, name="taken")
    """Fires taken by jobs that have a limit on them."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed runs in a row, for jobs that pause on them."""
    skips: dict[str, str] = field(default_factory=dict)
    """Occurrences to leave out, and why."""
    backfills: dict[str, Backfill] = field(default_factory=dict)
    workflow_runs: dict[str, WorkflowRunState] = field(default_factory=dict, name="waves")
    fan_outs: dict[str, FanOutState] = field(default_factory=dict, name="expansions")
    orphans: dict[str, None] = field(default_factory=dict)
    """Members that were queued by an owner who had not read that their node was marked by hand."""
    epochs: dict[str, int] = field(default_factory=dict)
    """The number of each workflow's newest run."""
    dependencies: dict[str, Dependencies] = field(default_factory=dict)
    """Jobs that wait for others, and what has completed of those."""
    notices: Notices = field(default_factory=Notices, name="post")
    """Jobs that others wait for, and the notices that have not been delivered."""
    unpublished: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """Runs queued in frames whose work is not known to be published: (sequence, run ids)."""
    ahead: dict[str, FireMark] = field(default_factory=dict)
    """Jobs whose last decided fire the cursor does not cover: it was decided before others that had been due longer."""
