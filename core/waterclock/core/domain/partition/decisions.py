"""What the owner decides: events, applied to the state at once, and what must follow once they are in the log.

`Decisions` is where all deciding modules of this folder meet: `emit` an event, and it is part of the current pass.
"""

from collections.abc import Callable

from msgspec import Struct, field

from waterclock.core.domain.bounded_map import BoundedMap
from waterclock.core.domain.ids import node_of
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.evolve import begin_queued, change_run, evolve
from waterclock.core.domain.partition.parcels import Parcels
from waterclock.core.domain.partition.room import Room
from waterclock.core.domain.partition.state import Ended, PartitionState, Run
from waterclock.core.domain.timing_groups import Filed
from waterclock.proto.events import (
    Instant,
    NodeMarked,
    RunCancelled,
    RunEvent,
    RunQueued,
    RunSkipped,
    RunWaiting,
)
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import StopRequest

_WITHDRAWN_KEPT = 10_000
_ENDS_WITHOUT_RUN = (RunSkipped, NodeMarked, RunCancelled)
"""What may end a node that never ran. A tuple: built once, where `|` would be for every event."""


class LinesNeeded(Struct, frozen=True, kw_only=True):
    """Lines of an artifact that a fan-out needs next."""

    artifact: str
    start: int
    count: int
    counted: bool
    """How many lines there are is known."""


class VoidEntries(Struct, frozen=True):
    """Of one job, in the timing index."""

    job_id: str
    version: int
    """Up to this one: the next has replaced it."""
    filed: frozenset[Instant] | None
    """Under these instants; None: the definition that was replaced has to be looked up for that."""


class Pass(Struct, kw_only=True):
    """What one pass decided. The events go to the log first; the rest is derived from them and follows."""

    events: list[RunEvent] = field(default_factory=list)
    queued: list[tuple[RunQueued, JobSpec]] = field(default_factory=list)
    stops: list[tuple[str | None, StopRequest]] = field(default_factory=list)
    """(executor, request); no executor: whoever has it or gets it."""
    withdrawn: list[str] = field(default_factory=list)
    """Queued runs whose work message is to be removed."""
    recalled: list[tuple[str, Instant]] = field(default_factory=list)
    """Queued runs that travel in a parcel, and when they were queued: whoever unpacks it is to leave them out."""
    parcels: Parcels = field(default_factory=Parcels)
    pauses: list[tuple[str, str]] = field(default_factory=list)
    """(job, note): schedules to pause after failures in a row."""
    index: list[Filed] = field(default_factory=list)
    """New entries of the timing index."""
    hot: dict[str, bytes] = field(default_factory=dict)
    """New entries of the index that are always in memory, by key."""
    obsolete_keys: list[str] = field(default_factory=list)
    """Keys of the index that a schedule has left for another one: should they come back, nothing follows. Removed after
    the frame, too."""
    void_keys: list[str] = field(default_factory=list)
    """Keys of hot entries that would fire again if they came back: they are to be gone for good."""
    void_entries: list[VoidEntries] = field(default_factory=list)
    """Index entries that do not count any more. Marked after the frame: until it is in the
    log, whoever comes next needs them to decide the same again."""
    definitions_needed: dict[tuple[str, int], None] = field(default_factory=dict)
    """Definitions (job, version) that must be read from the log before some runs can go on."""
    lines_needed: dict[str, LinesNeeded] = field(default_factory=dict)
    """Fan-outs that cannot go on before some lines are read."""
    notices: list[Notice] = field(default_factory=list)
    """For other partitions. Sent after the frame, and again until they are known to have arrived."""

    def __bool__(self) -> bool:
        return bool(
            self.events
            or self.stops
            or self.withdrawn
            or self.recalled
            or self.pauses
            or self.index
            or self.hot
            or self.obsolete_keys
            or self.void_keys
            or self.void_entries
            or self.definitions_needed
            or self.lines_needed
            or self.notices
        )


class Decisions:
    """The state, views of it that are cheaper than a search, and the pass that is being decided."""

    def __init__(self, state: PartitionState, room: Room) -> None:
        self.state = state
        self.room = room
        self.by_job: dict[str, dict[str, Run]] = {}
        for run in state.runs.values():
            self.by_job.setdefault(run.job_id, {})[run.run_id] = run
            if run.route and run.has_work:
                room.began(run.route, run.priority)
        self.open = Pass()
        self.withdrawn = BoundedMap[str, str](_WITHDRAWN_KEPT)
        """Runs cancelled while queued, and why: an executor that starts one all the same is told to stop."""
        self.to_advance: dict[str, None] = dict.fromkeys((*state.workflow_runs, *state.fan_outs))
        """Runs with parts that something happened to: what follows has not been decided yet."""
        self.late = False
        """Something that is due waits for room."""
        self.behind: int = 0
        """How long the first has been due of those that wait for the system, in microseconds."""
        self.without_room: dict[str, tuple[str, int]] = {}
        """Runs with parts that would begin more of them if there were room, on which route and of which priority."""
        self.ended_nodes: dict[str, list[str]] = {}
        """By workflow run, the nodes that ended since it was last advanced."""
        self.watch_start: Callable[[Run], None] = lambda run: None
        """Told of each run that is decided to wait, and has to start by some time."""
        self._unconfirmed: dict[str, set[str]] = {}
        """By run with parts, the parts whose end was decided here and has not been read back. Their executor may
        have reported another end before it, so nothing follows from it yet."""

    def take_pass(self) -> Pass:
        done, self.open = self.open, Pass()
        return done

    def emit(self, event: RunEvent) -> Ended | None:
        """Decide an event: it is applied at once and goes out with this pass."""
        self.open.events.append(event)
        ended = self.apply(event)
        if ended is not None and not ended.run.parts and ended.run.parent is not None:
            self._unconfirmed.setdefault(ended.run.parent, set()).add(event.run_id)
        if (type(event) is RunQueued or type(event) is RunWaiting) and event.start_by is not None:
            run = self.state.runs.get(event.run_id)
            if run is not None:
                self.watch_start(run)
        return ended

    def begin(self, event: RunQueued, spec: JobSpec, job_id: str, route: str) -> None:
        """Decide that the only run of a job is queued, which is no part of another: `emit` for what is most
        frequent."""
        self.open.events.append(event)
        self.open.queued.append((event, spec))
        self.by_job[job_id] = {event.run_id: begin_queued(self.state, event, job_id, route)}
        self.room.began(route, event.priority)

    def apply(self, event: RunEvent) -> Ended | None:
        """Apply an event, decided here or read from the log."""
        run = self.state.runs.get(event.run_id)
        if run is None:
            self._apply_without_run(event)
            return None
        before, priority = run.route if run.has_work else "", run.priority
        ended = change_run(self.state, run, event)
        after = run.route if ended is None and run.has_work else ""
        if before != after:
            if before:
                started: Instant | None = getattr(event, "started", None)
                self.room.ended(before, None if started is None else event.at - started, priority)
            if after:
                self.room.began(after, run.priority)
        if ended is not None:
            of_job = self.by_job[run.job_id]
            del of_job[event.run_id]
            if not of_job:
                del self.by_job[run.job_id]
            if run.parent is not None:
                self._part_ended(run.parent, event.run_id)
        return ended

    def _apply_without_run(self, event: RunEvent) -> None:
        """It may begin one."""
        ends_node = isinstance(event, _ENDS_WITHOUT_RUN) and self._is_open_node(event.parent, event.run_id)
        evolve(self.state, event)
        run = self.state.runs.get(event.run_id)
        if run is not None:
            self.by_job.setdefault(run.job_id, {})[run.run_id] = run
            if run.route and run.has_work:
                self.room.began(run.route, run.priority)
        elif ends_node:
            self._part_ended(getattr(event, "parent", None), event.run_id)

    def advance_later(self, run_id: str | None) -> None:
        """Look at a run with parts again before the pass is over, or in the next one."""
        if run_id in self.state.workflow_runs or run_id in self.state.fan_outs:
            self.to_advance[run_id] = None

    def ends_are_confirmed(self, run_id: str) -> bool:
        """Whether the ends of a run's parts all stand in the log, with nothing unread before them."""
        return run_id not in self._unconfirmed

    @property
    def has_unconfirmed_ends(self) -> bool:
        return bool(self._unconfirmed)

    def confirm(self, run_id: str) -> None:
        """What was decided about a run has been read back."""
        parent = run_id.rpartition("~")[0]
        unconfirmed = self._unconfirmed.get(parent)
        if unconfirmed is not None:
            unconfirmed.discard(run_id)
            if not unconfirmed:
                del self._unconfirmed[parent]
                self.advance_later(parent)

    def overlapping(self, job_id: str) -> list[Run]:
        """The runs of a job that its overlap policy counts, oldest first."""
        runs = self.by_job.get(job_id)
        return [run for run in runs.values() if run.counts_for_overlap] if runs else []

    def parts_of(self, run: Run) -> list[Run]:
        """The nodes or members of a run that have begun and not ended."""
        of_job = self.by_job.get(run.job_id, {})
        return [part for part in of_job.values() if part.parent == run.run_id]

    def stop(
        self,
        executor_id: str | None,
        run_id: str,
        reason: str,
        *,
        now: bool = False,
        until: Instant | None = None,
    ) -> None:
        """`now`: without a grace. No executor: whoever has it or gets it, as far as it was queued up to `until`."""
        request = StopRequest(run_id=run_id, reason=reason, now=now, until=until)
        self.open.stops.append((executor_id, request))

    def _is_open_node(self, parent: str | None, run_id: str) -> bool:
        workflow_run = self.state.workflow_runs.get(parent or "")
        return workflow_run is not None and node_of(run_id) not in workflow_run.nodes

    def _part_ended(self, parent: str | None, run_id: str) -> None:
        self.advance_later(parent)
        if parent in self.state.workflow_runs:
            self.ended_nodes.setdefault(parent, []).append(node_of(run_id))
