"""The owner of a partition, without its clock and its wires: takes what was read, decides, hands out passes.

The scheduler runs it against JetStream, the simulation against lists. The order in which a pass is carried out is part
of the protocol: new index entries are written, then the frame is appended, then void entries are removed, work is
published, stops and notices are sent (scheduler/carry_out.py). A crash between any two of these is repaired by whoever
replays the log next.
"""

from collections.abc import Iterable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from waterclock.core.domain.partition.backfills import Backfills
from waterclock.core.domain.partition.decisions import Decisions, Pass
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dependencies import DependentJobs
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.divergence import Diverged, UnreadDecisions
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.due.catch_up import GRACE
from waterclock.core.domain.partition.due.due_fires import FireDecider
from waterclock.core.domain.partition.due.due_work import DueWork
from waterclock.core.domain.partition.due.near_schedules import NearSchedules
from waterclock.core.domain.partition.due.one_shots import OneShots
from waterclock.core.domain.partition.due.overdue_fires import OverdueFires
from waterclock.core.domain.partition.due.schedules import Schedules
from waterclock.core.domain.partition.due.start_deadlines import StartDeadlines
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.evolve import move_cursor
from waterclock.core.domain.partition.follow_ups import FollowUps
from waterclock.core.domain.partition.redelivery import decide_claim
from waterclock.core.domain.partition.room import Room, UnlimitedRoom
from waterclock.core.domain.partition.state import Ended, PartitionState, Run
from waterclock.core.domain.timing_index import IndexEntry
from waterclock.proto.events import (
    DependencyCompleted,
    Frame,
    Instant,
    JobCancelled,
    JobEvent,
    NodeMarked,
    NoticesDelivered,
    RunCancelled,
    RunEvent,
    RunQueued,
    RunSucceeded,
)
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import ClaimReply, ClaimRequest

_SURELY_TAKEN = 2_000_000
"""Work that nobody was asked about and nobody has taken after so many microseconds is sent again."""
_CHECKPOINT = 5_000_000
"""How often an owner with a backlog says that it lives, in microseconds."""


class Owner:
    """`room`: how much may be queued and running at once."""

    def __init__(self, partition: int, state: PartitionState, now: Instant, room: Room | None = None) -> None:
        self.partition = partition
        self.state = state
        room = UnlimitedRoom() if room is None else room
        decisions = self._decisions = Decisions(state, room)
        definitions = self._definitions = Definitions()
        dispatch = self._dispatch = Dispatch(decisions, definitions)
        self._wheel: Wheel[ArmedSchedule | Run] = Wheel(now)
        fires = FireDecider(decisions, dispatch)
        self.backlog = Backlog(room.served)
        self._overdue = OverdueFires(decisions, definitions, fires)
        near = NearSchedules(self._wheel)
        self._one_shots = OneShots(decisions, definitions, dispatch, near.by_job)
        self.schedules = Schedules(
            partition, decisions, self._wheel, self.backlog, self._overdue, self._one_shots, near
        )
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
        self._start_deadlines = StartDeadlines(decisions, dispatch, self._wheel, self._follow_ups.emit)
        self._due_work = DueWork(
            decisions, dispatch, self._wheel, self.backlog, self.schedules, self._start_deadlines, now
        )
        self._notices_sent: set[str] = set()
        """Keys of notices that were handed out and are not known to be delivered."""
        self._unread = UnreadDecisions()
        self._applied: list[tuple[RunEvent, Ended | None]] = []
        """Events of others that were applied and not yet followed up."""
        self._in_doubt: dict[str, None] = {}
        self._sent: dict[str, Instant] = {}
        """Runs whose work was sent and is not known to have arrived: since when."""
        self._said_alive: Instant = 0

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
            move_cursor(state, frame.cursor)
            published = frame.cursor.work
            state.unpublished = [queued for queued in state.unpublished if queued[0] > published]

    def resume(self, now: Instant) -> None:
        """Go on where the log ends."""
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
            self._start_deadlines.watch(run)
            self._follow_ups.continue_run(run, now)
        for job_id in list(self._decisions.by_job):
            self._follow_ups.release_next(job_id, now)
        self._backfills.advance_all(now)
        self._dependent_jobs.advance_all(now)
        for run_id in list(self.state.orphans):
            self._decisions.open.withdrawn.append(run_id)
            self._decisions.open.recalled.append((run_id, now))
            self._follow_ups.emit(
                RunCancelled(run_id=run_id, at=now, reason="its node was marked by hand"), now
            )
        suspects = [run_id for _, run_ids in self.state.unpublished for run_id in run_ids]
        self.state.unpublished.clear()
        self.doubt(suspects)

    def load(self, entries: Iterable[IndexEntry], now: Instant, before: Instant | None = None) -> None:
        """Entries read from the index, of what is due before an instant; `loaded` says when they were all."""
        self.schedules.load(entries, now, before)

    def loaded(self, until: Instant) -> None:
        """The index is in memory up to this instant."""
        for recurring in (True, False):
            self.schedules.near.loaded(until, recurring=recurring)

    def recall(self, event: JobEvent, version: int) -> None:
        """The definition that the next one to be observed replaces, if its schedule is not in memory."""
        self.schedules.recall(event, version)

    def waiting_for_slots(self, *, recurring: bool) -> int:
        """How many schedules are due and wait for slow work to end, or for executors."""
        return self._due_work.waiting_for_slots(recurring=recurring)

    def holds(self, job_id: str) -> bool:
        """Whether the schedule of a job is in memory."""
        return job_id in self.schedules.armed

    def observe_again(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition that the log says was read, but of which something due may not be decided."""
        if version <= self.state.cursor.jobs:
            self.schedules.observe_again(event, version, now)

    def wake(self, now: Instant, *, lived: bool = False) -> None:
        """The owner lives. If nobody did for a while, what came due meanwhile was not late but missed. `lived`: it has
        lived all the time since it last did this, however late it is."""
        cursor = self.state.cursor
        since = cursor.alive or cursor.time or now
        if not lived and now - since > GRACE:
            oldest = self.oldest_due()
            loaded = self.schedules.near.loaded_until
            if (loaded if oldest is None else min(oldest, loaded)) < now - GRACE:
                self._overdue.nobody_decided(since, now)
        if now > cursor.alive:
            self._move_cursor(alive=now)
        if not cursor.time:
            # Nobody has owned it: the index is empty, and for what was due before there are the definitions.
            self._move_cursor(time=now - 1)

    # -- reading ----------------------------------------------------------------------------------------

    def observe_job(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition changed."""
        self._dependent_jobs.observe_job(event, version, now)
        self.schedules.observe_job(event, version, now)
        if isinstance(event, JobCancelled):
            for run in list(self._decisions.by_job.get(event.job_id, {}).values()):
                self._follow_ups.cancel(run, f"job cancelled by {event.actor or 'somebody'}", now)
        if version != self.state.cursor.jobs:
            self._move_cursor(jobs=version, settled=self.state.cursor.settled_jobs)

    def observe_own_frame(self, sequence: int) -> None:
        """A frame of decisions has been read back: so has all that was in the log before it."""
        missed = self._start_deadlines.has_unconfirmed
        for run_id in self._unread.read_back(sequence):
            self._decisions.confirm(run_id)
            if missed:
                self._start_deadlines.confirm(run_id)

    def observe_frame(self, frame: Frame, sequence: int) -> None:
        """An executor or the api wrote to the partition's log. Raises Diverged."""
        end_one_shot = self._one_shots.end
        for event in frame.events:
            if self._unread.contradict(event, sequence) and not self._is_known_completion(event):
                raise Diverged(f"{event.run_id} was decided on before frame {sequence} was read")
            if type(event) is RunSucceeded and end_one_shot(event):
                continue  # nothing follows from it
            self._applied.append((event, self._decisions.apply(event)))
        self._one_shots.leave_room()

    def note_success(self, frame: Frame, sequence: int) -> bool:
        """Between two passes: apply a frame with nothing in it but the success of a run from which nothing follows, so
        that it needs no pass of its own. False: something may follow, and nothing has been done."""
        decisions = self._decisions
        if len(frame.events) != 1 or self.backlog or decisions.to_advance or decisions.without_room:
            return False
        (event,) = frame.events
        if (
            type(event) is not RunSucceeded
            or self._unread.contradict(event, sequence)
            or not self._follow_ups.nothing_follows(event)
        ):
            return False
        self.observe_frame(frame, sequence)
        return True

    def _is_known_completion(self, event: RunEvent) -> bool:
        """Whether it repeats an earlier notice: then nothing depends on when it is read."""
        if type(event) is not DependencyCompleted or event.run_id not in self.state.dependencies:
            return False
        return event.of in self.state.dependencies[event.run_id].seen.get(event.dependency, ())

    @property
    def awaits_own_frames(self) -> bool:
        """Whether something follows from a decision once it has been read back."""
        return self._decisions.has_unconfirmed_ends or self._start_deadlines.has_unconfirmed

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is decided is in the log, and all that stands before it there has been read. Only then is
        the state one that a replay would reach, and fit for a snapshot. A replay that finds a node marked by hand never
        begins its parts; here they are stopped when it is followed up."""
        marked = any(type(event) is NodeMarked for event, _ in self._applied)
        return not self._unread and not self._decisions.open and not marked

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

    def knows_definition(self, run: Run) -> bool:
        return self._definitions.get(run.job_id, run.version) is not None

    def spec_of(self, run: Run) -> JobSpec | None:
        """What a run's work is; None: its definition must be read first. Raises Unusable."""
        return self._dispatch.spec_of(run)

    # -- deciding ---------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> bool:
        """Decide what is due and has room, a slice of it. Whether more could be decided at once."""
        more = self._due_work.decide(now)
        self._follow_ups.advance_parents(now)
        self._cover(*self._due_work.decided_until(now))
        return more

    def next_due(self) -> Instant | None:
        """When there may be something to decide."""
        if self._decisions.to_advance:
            return self.state.cursor.time
        look = self._due_work.next_look()
        if not self._sent:
            return look
        late = next(iter(self._sent.values())) + _SURELY_TAKEN
        return late if look is None else min(look, late)

    def lag(self, now: Instant) -> int:
        """How long the first has been due of what is not decided, in microseconds. Not of what waits for slow work to
        end: that is a queue."""
        return self._due_work.lag(now)

    def oldest_due(self) -> Instant | None:
        """When the first was due of what is not decided."""
        return self._due_work.oldest()

    def claim(self, request: ClaimRequest, alive: bool, now: Instant) -> ClaimReply:
        """May a delivery that is not the first run? `alive`: whether the executor that had it still does.

        The reply may leave only after the pass that holds its events is in the log.
        """
        run = self.state.runs.get(request.run_id)
        reply, events = decide_claim(run, request, alive=alive, now=now)
        for event in events:
            self._follow_ups.emit(event, now)
        if events and run is not None and run.waits == "timer":
            self._follow_ups.continue_run(run, now)
        return reply

    # -- passes -----------------------------------------------------------------------------------------

    def take_pass(self) -> Pass:
        """What was decided since the last one. The cursor covers it: frame and position are one write. What is due and
        no tick has looked at, as during a takeover, stands in line."""
        for item in self.schedules.take_fresh():
            self.schedules.wait(item)
        self._cover(self.state.cursor.time, 0)
        taken = self._decisions.take_pass()
        outbox = self.state.notices.outbox
        if outbox:
            taken.notices = [notice for notice in outbox.values() if notice.key not in self._notices_sent]
            self._notices_sent.update(notice.key for notice in taken.notices)
        return taken

    @property
    def is_to_say_alive(self) -> bool:
        """Whether a frame is due even if there is nothing to say: with a backlog, whoever takes over must know that
        what was due was late and not missed."""
        is_behind = bool(self.backlog) or self.schedules.near.loaded_until <= self.state.cursor.alive
        return is_behind and self.state.cursor.alive - self._said_alive > _CHECKPOINT

    def appended(self, sequence: int, events: Sequence[RunEvent]) -> None:
        """A frame of decisions is in the log."""
        self._said_alive = self.state.cursor.alive
        self._unread.appended(sequence, events)

    def cleaned(self, jobs: int) -> None:
        """What changes in `JOBS` up to this sequence made void is out of the index."""
        self._move_cursor(index=jobs)

    def published(self, sequence: int) -> None:
        """The work of every frame up to this sequence is in the queue."""
        self._move_cursor(work=sequence)

    def sent(self, run_ids: Iterable[str], now: Instant) -> None:
        """The work of these is on its way, and nobody says whether it arrives."""
        self._sent.update(dict.fromkeys(run_ids, now))

    def doubt(self, run_ids: Iterable[str]) -> None:
        """The work of these may not be in the queue."""
        self._in_doubt.update(dict.fromkeys(run_ids))

    def take_doubts(self) -> list[str]:
        """Queued runs whose work may never have been published."""
        runs = self.state.runs
        while self._sent:
            run_id, since = next(iter(self._sent.items()))
            if run_id in runs and runs[run_id].status == "QUEUED":
                if since > self.state.cursor.alive - _SURELY_TAKEN:
                    break
                self._in_doubt[run_id] = None
            del self._sent[run_id]
        doubts, self._in_doubt = self._in_doubt, {}
        return [run_id for run_id in doubts if run_id in runs and runs[run_id].status == "QUEUED"]

    def delivered(self, notices: Sequence[Notice], now: Instant) -> None:
        """These are in the logs they were for."""
        keys = tuple(notice.key for notice in notices)
        self._notices_sent.difference_update(keys)
        self._decisions.emit(NoticesDelivered(run_id=f"{notices[0].sender}@post", at=now, notices=keys))

    def _cover(self, time: Instant, through: int) -> None:
        """All that was due up to this instant is decided, and of the next one all up to this version; but for what its
        definition still speaks for."""
        unsettled = self.backlog.oldest_unsettled
        cursor = self.state.cursor
        settled = cursor.jobs if unsettled is None else unsettled - 1
        time, through = max((time, through), (cursor.time, cursor.through))
        if (time, through, settled) != (cursor.time, cursor.through, cursor.settled):
            move_cursor(
                self.state, replace(cursor, time=time, settled=settled, through_version=through or UNSET)
            )

    def _move_cursor(self, **changes: int) -> None:
        self.state.cursor = replace(self.state.cursor, **changes)
