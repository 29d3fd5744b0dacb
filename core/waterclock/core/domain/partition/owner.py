"""The owner of a partition, without its clock and its wires: takes what was read, decides, hands out passes.

The scheduler runs it against JetStream, the simulation against lists. The order in which a pass is carried out is part
of the protocol: new index entries are written, then the frame is appended, then void entries are removed, work is
published, stops and notices are sent (scheduler/carry_out.py). A crash between any two of these is repaired by whoever
replays the log next.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from waterclock.core.domain.partition.backfills import Backfills
from waterclock.core.domain.partition.decisions import Decisions, Pass
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dependencies import DependentJobs
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.divergence import Diverged, UnreadDecisions
from waterclock.core.domain.partition.due_fires import FireDecider
from waterclock.core.domain.partition.follow_ups import FollowUps
from waterclock.core.domain.partition.redelivery import decide_claim
from waterclock.core.domain.partition.schedules import Schedules
from waterclock.core.domain.partition.state import Ended, PartitionState, Run
from waterclock.core.domain.partition.timing_index import ArmedSchedule, IndexEntry
from waterclock.core.domain.partition.timing_wheel import Wheel
from waterclock.proto.events import (
    DependencyCompleted,
    Frame,
    Instant,
    JobCancelled,
    JobEvent,
    NoticesDelivered,
    RunCancelled,
    RunEvent,
    RunQueued,
)
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import ClaimReply, ClaimRequest

_TICK = 1000


class Owner:
    def __init__(self, partition: int, state: PartitionState, now: Instant) -> None:
        self.partition = partition
        self.state = state
        decisions = self._decisions = Decisions(state)
        definitions = self._definitions = Definitions()
        dispatch = self._dispatch = Dispatch(decisions, definitions)
        self._wheel: Wheel[ArmedSchedule | Run] = Wheel(now)
        fires = FireDecider(decisions, dispatch)
        self.schedules = Schedules(partition, decisions, definitions, self._wheel, fires)
        self._backfills = Backfills(decisions, definitions, dispatch)
        self._dependent_jobs = DependentJobs(decisions, definitions, dispatch, fires)
        self._follow_ups = FollowUps(
            decisions,
            definitions,
            dispatch,
            self._wheel,
            self.schedules,
            self._backfills,
            self._dependent_jobs,
            fires,
        )
        self._notices_sent: set[str] = set()
        """Keys of notices that were handed out and are not known to be delivered."""
        self._unread = UnreadDecisions()
        self._applied: list[tuple[RunEvent, Ended | None]] = []
        """Events of others that were applied and not yet followed up."""

    # -- taking over ------------------------------------------------------------------------------------

    def replay(self, frame: Frame, sequence: int) -> None:
        """Apply a frame that an earlier owner has decided, or an executor has reported."""
        run_ids = []
        for event in frame.events:
            self._decisions.apply(event)
            if isinstance(event, RunQueued):
                run_ids.append(event.run_id)
        state = self.state
        if run_ids:
            state.unpublished.append((sequence, tuple(run_ids)))
        if frame.cursor is not None:
            state.cursor = frame.cursor
            published = frame.cursor.work
            state.unpublished = [queued for queued in state.unpublished if queued[0] > published]

    def resume(self, now: Instant) -> list[Run]:
        """Go on where the log ends. Answers the queued runs whose work may never have been published."""
        self._decisions.ended_nodes.clear()
        for run in list(self.state.runs.values()):
            if run.trigger in ("workflow", "fan_out") and run.parent not in self.state.runs:
                if not run.cancelling:
                    self._follow_ups.cancel(run, "what it was part of has ended", now)
                    continue
            elif run.parts:
                self._decisions.advance_later(run.run_id)
            if run.cancelling and run.status == "RUNNING" and not run.parts:
                self._decisions.stop(run.executor_id, run.run_id, "cancel requested")
            self._follow_ups.continue_run(run, now)
        for job_id in list(self._decisions.by_job):
            self._follow_ups.release_next(job_id, now)
        self._backfills.advance_all(now)
        self._dependent_jobs.advance_all(now)
        for run_id in list(self.state.orphans):
            self._decisions.open.withdrawn.append(run_id)
            self._follow_ups.emit(
                RunCancelled(run_id=run_id, at=now, reason="its node was marked by hand"), now
            )
        suspects = [run_id for _, run_ids in self.state.unpublished for run_id in run_ids]
        self.state.unpublished.clear()
        runs = self.state.runs
        return [runs[run_id] for run_id in suspects if run_id in runs and runs[run_id].status == "QUEUED"]

    def load(self, entries: Iterable[IndexEntry], until: Instant, now: Instant) -> None:
        self.schedules.load(entries, until, now)

    # -- reading ----------------------------------------------------------------------------------------

    def observe_job(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition changed."""
        self._dependent_jobs.observe_job(event, version, now)
        self.schedules.observe_job(event, version, now)
        if isinstance(event, JobCancelled):
            for run in list(self._decisions.by_job.get(event.job_id, {}).values()):
                self._follow_ups.cancel(run, f"job cancelled by {event.actor or 'somebody'}", now)
        if version != self.state.cursor.jobs:
            self._move_cursor(jobs=version)

    def observe_own_frame(self, sequence: int) -> None:
        """A frame of decisions has been read back: so has all that was in the log before it."""
        for run_id in self._unread.read_back(sequence):
            self._decisions.confirm(run_id)

    def observe_frame(self, frame: Frame, sequence: int) -> None:
        """An executor or the api wrote to the partition's log. Raises Diverged."""
        for event in frame.events:
            if self._unread.contradict(event, sequence) and not self._is_known_completion(event):
                raise Diverged(f"{event.run_id} was decided on before frame {sequence} was read")
            self._applied.append((event, self._decisions.apply(event)))

    def _is_known_completion(self, event: RunEvent) -> bool:
        """Whether it repeats an earlier notice: then nothing depends on when it is read."""
        if type(event) is not DependencyCompleted or event.run_id not in self.state.dependencies:
            return False
        return event.of in self.state.dependencies[event.run_id].seen.get(event.dependency, ())

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is decided is in the log, and all that stands before it there has been read. Only then is
        the state one that a replay would reach, and fit for a snapshot."""
        return not self._unread and not self._decisions.open

    def follow_up(self, now: Instant) -> None:
        """Decide what follows from the frames that were read. Only now: a decision must not fall between two frames
        that are in the log."""
        applied, self._applied = self._applied, []
        for event, ended in applied:
            self._follow_ups.after_event(event, ended, now)

    # -- what a pass asked for --------------------------------------------------------------------------

    def provide_definition(self, job_id: str, version: int, spec: JobSpec | None, now: Instant) -> None:
        """None: the log no longer has it."""
        runs = [run for run in self._decisions.by_job.get(job_id, {}).values() if run.version == version]
        if spec is None:
            self._definitions.mark_gone(job_id, version)
            for run in runs:
                self._follow_ups.cancel(run, "its definition is no longer in the log", now)
            return
        self._definitions.remember(job_id, version, spec)
        for run in runs:
            self._decisions.advance_later(run.run_id)
            self._follow_ups.continue_run(run, now)
        self._follow_ups.release_next(job_id, now)
        self._backfills.advance_all(now)
        self._dependent_jobs.advance(job_id, now)

    def supply_lines(self, run_id: str, start: int, lines: list[str], total: int, now: Instant) -> None:
        """Lines that a fan-out needed, and how many its file has."""
        self._follow_ups.fan_outs.supply_lines(run_id, start, lines, total, now)

    def fail_lines(self, run_id: str, reason: str, now: Instant) -> None:
        """The lines that a fan-out needed cannot be had."""
        self._follow_ups.fan_outs.fail(run_id, reason, now)

    def need_lines_at(self, run_id: str, at: Instant) -> None:
        """The lines could not be read now: ask for them again then."""
        if run_id in self.state.runs:
            self._wheel.add(at, self.state.runs[run_id])

    def remember_definition(self, job_id: str, version: int, spec: JobSpec) -> None:
        self._definitions.remember(job_id, version, spec)

    def spec_of(self, run: Run) -> JobSpec | None:
        """What a run's work is; None: its definition must be read first. Raises Unusable."""
        return self._dispatch.spec_of(run)

    # -- deciding ---------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Decide everything that is due."""
        for due, item in self._wheel.take(now):
            if isinstance(item, ArmedSchedule):
                self.schedules.fire(item, now)
            elif item.parts:
                self._decisions.advance_later(item.run_id)
            elif self.state.runs.get(item.run_id) is item and item.waits == "timer" and item.due == due:
                self._dispatch.queue_again(item, now)
        self._follow_ups.advance_parents(now)
        decided = min(now // _TICK * _TICK, self.schedules.loaded_until - 1)
        self._move_cursor(time=max(self.state.cursor.time, decided))

    def next_due(self) -> Instant | None:
        return self.state.cursor.time if self._decisions.to_advance else self._wheel.next_due()

    def claim(self, request: ClaimRequest, alive: bool, now: Instant) -> ClaimReply:
        """May a delivery that is not the first run? `alive`: whether the executor that had it still does.

        The reply may leave only after the pass that holds its events is in the log.
        """
        run = self.state.runs.get(request.run_id)
        reply, event = decide_claim(run, request, alive=alive, now=now)
        if event is not None:
            self._follow_ups.emit(event, now)
        return reply

    # -- passes -----------------------------------------------------------------------------------------

    def take_pass(self) -> Pass:
        """What was decided since the last one. The cursor covers it: frame and position are one write."""
        taken = self._decisions.take_pass()
        outbox = self.state.notices.outbox
        taken.notices = [notice for notice in outbox.values() if notice.key not in self._notices_sent]
        self._notices_sent.update(notice.key for notice in taken.notices)
        return taken

    def appended(self, sequence: int, events: Sequence[RunEvent]) -> None:
        """A frame of decisions is in the log."""
        self._unread.appended(sequence, events)

    def cleaned(self, jobs: int) -> None:
        """What changes in `JOBS` up to this sequence made void is out of the index."""
        self._move_cursor(index=jobs)

    def published(self, sequence: int) -> None:
        """The work of every frame up to this sequence is in the queue."""
        self._move_cursor(work=sequence)

    def delivered(self, notices: Sequence[Notice], now: Instant) -> None:
        """These are in the logs they were for."""
        keys = tuple(notice.key for notice in notices)
        self._notices_sent.difference_update(keys)
        self._decisions.emit(NoticesDelivered(run_id=f"{notices[0].sender}@post", at=now, notices=keys))

    def _move_cursor(self, **changes: int) -> None:
        self.state.cursor = replace(self.state.cursor, **changes)
