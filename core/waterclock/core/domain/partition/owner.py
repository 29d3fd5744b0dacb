"""The owner of a partition, without its clock and its wires: takes what was read, decides, hands out passes.

The scheduler runs it against JetStream, the simulation against lists. The order in which a pass is carried out is part
of the protocol: new index entries are written, then the frame is appended, then void entries are removed, work is
published and stops are sent. A crash between any two of these is repaired by whoever replays the log next.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from waterclock.core.domain.partition.backfills import Backfills
from waterclock.core.domain.partition.claims import judge
from waterclock.core.domain.partition.decisions import Pass
from waterclock.core.domain.partition.dependencies import Dependents
from waterclock.core.domain.partition.dependency_state import Letter
from waterclock.core.domain.partition.divergence import Diverged, Unread
from waterclock.core.domain.partition.fires import Taking
from waterclock.core.domain.partition.follow_ups import Aftermath
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.schedules import Schedules
from waterclock.core.domain.partition.state import Ended, PartitionState, Run
from waterclock.core.domain.partition.timing_index import IndexEntry, Scheduled
from waterclock.core.domain.partition.timing_wheel import Wheel
from waterclock.proto.events import (
    DependencyCompleted,
    Frame,
    Instant,
    JobCancelled,
    JobEvent,
    LettersDelivered,
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
        self._ledger = Ledger(state)
        self._wheel: Wheel[Scheduled | Run] = Wheel(now)
        taking = Taking(self._ledger)
        self.schedules = Schedules(partition, self._ledger, self._wheel, taking)
        self._backfills = Backfills(self._ledger)
        self._dependents = Dependents(self._ledger, taking)
        self._aftermath = Aftermath(
            self._ledger, self._wheel, self.schedules, self._backfills, self._dependents, taking
        )
        self._posted: set[str] = set()
        """Letters that were handed out to be sent."""
        self._unread = Unread()
        self._news: list[tuple[RunEvent, Ended | None]] = []
        """Events of others that were applied and not yet followed up."""

    # -- taking over ------------------------------------------------------------------------------------

    def replay(self, frame: Frame, sequence: int) -> None:
        """Apply a frame that an earlier owner has decided, or an executor has reported."""
        run_ids = []
        for event in frame.events:
            self._ledger.apply(event)
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
        self._ledger.fresh.clear()
        for run in list(self.state.runs.values()):
            if run.trigger in ("workflow", "fan_out") and run.parent not in self.state.runs:
                if not run.cancelling:
                    self._aftermath.cancel(run, "what it was part of has ended", now)
                    continue
            elif run.parts:
                self._ledger.stir(run.run_id)
            if run.cancelling and run.status == "RUNNING" and not run.parts:
                self._aftermath.stop(run.executor_id, run.run_id, "cancel requested")
            self._aftermath.settle(run, now)
        for job_id in list(self._ledger.by_job):
            self._aftermath.release(job_id, now)
        self._backfills.advance_all(now)
        self._dependents.advance_all(now)
        for run_id in list(self.state.orphans):
            self._ledger.open.withdrawn.append(run_id)
            self._aftermath.emit(
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
        self._dependents.define(event, version, now)
        self.schedules.define(event, version, now)
        if isinstance(event, JobCancelled):
            for run in list(self._ledger.by_job.get(event.job_id, {}).values()):
                self._aftermath.cancel(run, f"job cancelled by {event.actor or 'somebody'}", now)
        if version != self.state.cursor.jobs:
            self._move_cursor(jobs=version)

    def wrote(self, sequence: int, events: Sequence[RunEvent]) -> None:
        """A frame of decisions is in the log."""
        self._unread.wrote(sequence, events)

    def observe_own(self, sequence: int) -> None:
        """A frame of decisions has come back: all that was in the log before it has been read."""
        for run_id in self._unread.came_back(sequence):
            self._ledger.confirm(run_id)

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is decided is in the log, and all that stands before it there has been read. Only then is
        the state one that a replay would reach, and fit for a snapshot."""
        return not self._unread and not self._ledger.open

    def observe_frame(self, frame: Frame, sequence: int) -> None:
        """An executor or the api wrote to the partition's log. Raises Diverged."""
        for event in frame.events:
            if self._unread.contradicts(event, sequence) and not self._was_heard(event):
                raise Diverged(f"{event.run_id} was decided on before frame {sequence} was read")
            self._news.append((event, self._ledger.apply(event)))

    def _was_heard(self, event: RunEvent) -> bool:
        """Whether it repeats what a letter has said before: then nothing depends on when it is read."""
        if type(event) is not DependencyCompleted or event.run_id not in self.state.dependencies:
            return False
        return event.of in self.state.dependencies[event.run_id].seen.get(event.dependency, ())

    def settle(self, now: Instant) -> None:
        """Follow up what was read. Only now: a decision must not fall between two frames that are in the log."""
        news, self._news = self._news, []
        for event, ended in news:
            self._aftermath.of_news(event, ended, now)

    def provide(self, job_id: str, version: int, spec: JobSpec | None, now: Instant) -> None:
        """A definition that was asked for as starved. None: the log no longer has it."""
        runs = [run for run in self._ledger.by_job.get(job_id, {}).values() if run.version == version]
        if spec is None:
            self._ledger.lose(job_id, version)
            for run in runs:
                self._aftermath.cancel(run, "its definition is no longer in the log", now)
            return
        self._ledger.learn(job_id, version, spec)
        for run in runs:
            self._ledger.stir(run.run_id)
            self._aftermath.settle(run, now)
        self._aftermath.release(job_id, now)
        self._backfills.advance_all(now)
        self._dependents.advance(job_id, now)

    def supply(self, run_id: str, start: int, lines: list[str], total: int, now: Instant) -> None:
        """Lines that a fan-out was lacking, and how many its file has."""
        self._aftermath.expansions.supply(run_id, start, lines, total, now)

    def deny(self, run_id: str, reason: str, now: Instant) -> None:
        """The lines that a fan-out was lacking cannot be had."""
        self._aftermath.expansions.fail(run_id, reason, now)

    def ask_again(self, run_id: str, at: Instant) -> None:
        """The lines could not be read now."""
        if run_id in self.state.runs:
            self._wheel.add(at, self.state.runs[run_id])

    def learn(self, job_id: str, version: int, spec: JobSpec) -> None:
        self._ledger.learn(job_id, version, spec)

    def spec_of(self, run: Run) -> JobSpec | None:
        """What a run's work is; None: its definition must be read first. Raises Unusable."""
        return self._ledger.spec_of(run)

    # -- deciding ---------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Decide everything that is due."""
        for due, item in self._wheel.take(now):
            if isinstance(item, Scheduled):
                self.schedules.fire(item, now)
            elif item.parts:
                self._ledger.stir(item.run_id)
            elif self.state.runs.get(item.run_id) is item and item.waits == "timer" and item.due == due:
                self._ledger.queue_again(item, now)
        self._aftermath.of_what_stirred(now)
        decided = min(now // _TICK * _TICK, self.schedules.loaded_until - 1)
        self._move_cursor(time=max(self.state.cursor.time, decided))

    def next_due(self) -> Instant | None:
        return self.state.cursor.time if self._ledger.stirred else self._wheel.next_due()

    def claim(self, request: ClaimRequest, alive: bool, now: Instant) -> ClaimReply:
        """May a delivery that is not the first run? `alive`: whether the executor that had it still does.

        The reply may leave only after the pass that holds its events is in the log.
        """
        run = self.state.runs.get(request.run_id)
        reply, event = judge(run, request, alive=alive, now=now)
        if event is not None:
            self._aftermath.emit(event, now)
        return reply

    def take_pass(self) -> Pass:
        """What was decided since the last one. The cursor covers it: frame and position are one write."""
        taken = self._ledger.take()
        taken.letters = [
            letter for letter in self.state.post.outbox.values() if letter.key not in self._posted
        ]
        self._posted.update(letter.key for letter in taken.letters)
        return taken

    def delivered(self, letters: Sequence[Letter], now: Instant) -> None:
        """These are in the logs they were for."""
        keys = tuple(letter.key for letter in letters)
        self._posted.difference_update(keys)
        self._ledger.emit(LettersDelivered(run_id=f"{letters[0].sender}@post", at=now, letters=keys))

    def published(self, sequence: int) -> None:
        """The work of every frame up to this sequence is in the queue."""
        self._move_cursor(work=sequence)

    def cleaned(self, jobs: int) -> None:
        """What changes in `JOBS` up to this sequence made void is out of the index."""
        self._move_cursor(index=jobs)

    def _move_cursor(self, **changes: int) -> None:
        self.state.cursor = replace(self.state.cursor, **changes)
