"""The owner of a partition, without its clock and its wires: takes what was read, decides, hands out passes.

The scheduler runs it against JetStream, the simulation against lists. The order in which a pass is carried out is part
of the protocol: new index entries are written, then the frame is appended, then void entries are removed, work is
published and stops are sent. A crash between any two of these is repaired by whoever replays the log next.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from waterclock.core.domain.partition.backfills import Backfills
from waterclock.core.domain.partition.decided import Pass
from waterclock.core.domain.partition.dependents import Dependents
from waterclock.core.domain.partition.expansions import Expansions
from waterclock.core.domain.partition.index import IndexEntry, Scheduled
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.post import Letter
from waterclock.core.domain.partition.schedules import Schedules
from waterclock.core.domain.partition.state import Backfill, Ended, PartitionState, Run
from waterclock.core.domain.partition.taking import Taking
from waterclock.core.domain.partition.waves import Waves
from waterclock.core.domain.wheel import Wheel
from waterclock.proto.events import (
    Frame,
    Instant,
    JobCancelled,
    JobEvent,
    LettersDelivered,
    NodeMarked,
    RunCancelled,
    RunCancelRequested,
    RunClosed,
    RunEvent,
    RunLost,
    RunQueued,
    RunStarted,
)
from waterclock.proto.names import job_of
from waterclock.proto.spec import JobSpec, Workflow
from waterclock.proto.work import ClaimReply, ClaimRequest, StopRequest

CRASH_LIMIT = 5
"""A run whose executor died this often is a dead letter."""
_SILENT_DELIVERIES = 3
"""From this delivery on, an attempt that never said it started counts as a crash: it may kill its executor at once."""
_TICK = 1000
_PASS_EVENTS = 2000
"""What follows for waves and fan-outs is left to the next pass when one has grown to this."""


class Diverged(Exception):
    """Something was in the log before a decision that contradicts it, unread. The log is right: rebuild from it."""


class Owner:
    def __init__(self, partition: int, state: PartitionState, now: Instant) -> None:
        self.partition = partition
        self.state = state
        self._ledger = Ledger(state)
        self._wheel: Wheel[Scheduled | Run] = Wheel(now)
        self._taking = taking = Taking(self._ledger)
        self.schedules = Schedules(partition, self._ledger, self._wheel, taking)
        self._backfills = Backfills(self._ledger)
        self._waves = Waves(self._ledger, self._emit)
        self._expansions = Expansions(self._ledger, self._emit)
        self._dependents = Dependents(self._ledger, taking)
        self._posted: set[str] = set()
        """Letters that were handed out to be sent."""
        self._wrote: dict[str, int] = {}
        """Runs decided on in frames that have not come back yet: run id -> the frame's sequence."""
        self._unread: deque[tuple[int, list[str]]] = deque()
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
                    self._cancel(run, "what it was part of has ended", now)
                    continue
            elif run.parts:
                self._ledger.stir(run.run_id)
            if run.cancelling and run.status == "RUNNING" and not run.parts:
                self._stop(run.executor_id, run.run_id, "cancel requested")
            self._settle(run, now)
        for job_id in list(self._ledger.by_job):
            self._release(job_id, now)
        self._backfills.advance_all(now)
        self._dependents.advance_all(now)
        for run_id in list(self.state.orphans):
            self._ledger.open.withdrawn.append(run_id)
            self._emit(RunCancelled(run_id=run_id, at=now, reason="its node was marked by hand"), now)
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
                self._cancel(run, f"job cancelled by {event.actor or 'somebody'}", now)
        if version != self.state.cursor.jobs:
            self._move_cursor(jobs=version)

    def wrote(self, sequence: int, events: Sequence[RunEvent]) -> None:
        """A frame of decisions is in the log. The end of a whole run also concerns those who wait for its job."""
        run_ids = [event.run_id for event in events]
        run_ids += [job_of(event.run_id) for event in events if type(event) is RunClosed]
        self._wrote.update(dict.fromkeys(run_ids, sequence))
        self._unread.append((sequence, run_ids))

    def observe_own(self, sequence: int) -> None:
        """A frame of decisions has come back: all that was in the log before it has been read."""
        while self._unread and self._unread[0][0] <= sequence:
            written, run_ids = self._unread.popleft()
            for run_id in run_ids:
                if self._wrote.get(run_id) == written:
                    del self._wrote[run_id]
                    self._ledger.confirm(run_id)

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is decided is in the log, and all that stands before it there has been read. Only then is
        the state one that a replay would reach, and fit for a snapshot."""
        return not self._unread and not self._ledger.open

    def observe_frame(self, frame: Frame, sequence: int) -> None:
        """An executor or the api wrote to the partition's log.

        What is decided is applied when it is decided, not when it comes back. That is the order of the log unless a
        frame stands before a decision about the same run that had not read it.
        """
        for event in frame.events:
            if self._wrote.get(event.run_id, 0) > sequence:
                raise Diverged(f"{event.run_id} was decided on before frame {sequence} was read")
            self._news.append((event, self._ledger.apply(event)))

    def settle(self, now: Instant) -> None:
        """Follow up what was read. Only now: a decision must not fall between two frames that are in the log."""
        news, self._news = self._news, []
        for event, ended in news:
            if isinstance(event, NodeMarked):
                self._marked(event, ended, now)
            if ended is not None:
                self._ended(ended, now)
            elif event.run_id in self.state.dependencies:
                self._dependents.advance(event.run_id, now)
            elif event.run_id in self.state.backfills:
                self._steer(self.state.backfills[event.run_id], now)
            else:
                self._react(event, now)

    def _steer(self, backfill: Backfill, now: Instant) -> None:
        if backfill.cancelled:
            for run in list(self._ledger.by_job.get(backfill.job_id, {}).values()):
                if run.parent == backfill.backfill_id and not run.cancelling:
                    self._cancel(run, "backfill cancelled", now)
        self._backfills.advance(backfill, now)

    def _react(self, event: RunEvent, now: Instant) -> None:
        run = self.state.runs.get(event.run_id)
        if run is None:
            reason = self._ledger.withdrawn.get(event.run_id)
            if isinstance(event, RunStarted) and reason is not None:
                self._stop(event.executor_id, event.run_id, reason)
        elif isinstance(event, RunCancelRequested):
            reason = event.reason or f"cancelled by {event.actor or 'somebody'}"
            self._cancel(run, reason, now, event.now, recorded=True)
        elif run.cancelling and isinstance(event, RunStarted):
            self._stop(run.executor_id, run.run_id, "cancel requested")
        else:
            self._settle(run, now)

    def provide(self, job_id: str, version: int, spec: JobSpec | None, now: Instant) -> None:
        """A definition that was asked for as starved. None: the log no longer has it."""
        runs = [run for run in self._ledger.by_job.get(job_id, {}).values() if run.version == version]
        if spec is None:
            self._ledger.lose(job_id, version)
            for run in runs:
                self._cancel(run, "its definition is no longer in the log", now)
            return
        self._ledger.learn(job_id, version, spec)
        for run in runs:
            self._ledger.stir(run.run_id)
            self._settle(run, now)
        self._release(job_id, now)
        self._backfills.advance_all(now)
        self._dependents.advance(job_id, now)

    def supply(self, run_id: str, start: int, lines: list[str], total: int, now: Instant) -> None:
        """Lines that a fan-out was lacking, and how many its file has."""
        self._expansions.supply(run_id, start, lines, total, now)

    def deny(self, run_id: str, reason: str, now: Instant) -> None:
        """The lines that a fan-out was lacking cannot be had."""
        self._expansions.fail(run_id, reason, now)

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
        self._follow(now)
        decided = min(now // _TICK * _TICK, self.schedules.loaded_until - 1)
        self._move_cursor(time=max(self.state.cursor.time, decided))

    def next_due(self) -> Instant | None:
        return self.state.cursor.time if self._ledger.stirred else self._wheel.next_due()

    def claim(self, request: ClaimRequest, alive: bool, now: Instant) -> ClaimReply:
        """May a delivery that is not the first run? `alive`: whether the executor that had it still does.

        The reply may leave only after the pass that holds its events is in the log.
        """
        run = self.state.runs.get(request.run_id)
        if run is None or run.status not in ("QUEUED", "RUNNING"):
            return ClaimReply(verdict="drop")
        if run.attempt != request.attempt or run.queued_at != request.queued:
            return ClaimReply(verdict="drop")
        if run.status == "QUEUED" and request.delivered < _SILENT_DELIVERIES:
            return ClaimReply(verdict="run", crash_count=run.crash_count)
        if run.status == "RUNNING":
            if run.executor_id == request.executor_id:
                return ClaimReply(verdict="run", crash_count=run.crash_count)
            if alive:
                return ClaimReply(verdict="wait")
        if run.cancelling:
            self._emit(
                RunCancelled(
                    run_id=run.run_id, at=now, reason="cancelled; its executor died", attempt=run.attempt
                ),
                now,
            )
            return ClaimReply(verdict="drop")
        crashes = run.crash_count + 1
        dead = crashes >= CRASH_LIMIT
        reason = f"executor {run.executor_id or 'unknown'} died"
        if dead:
            reason += f"; {crashes} crashes, no further attempt"
        self._emit(
            RunLost(
                run_id=run.run_id,
                at=now,
                attempt=run.attempt,
                crash_count=crashes,
                executor_id=run.executor_id,
                reason=reason,
                dead=dead,
            ),
            now,
        )
        return ClaimReply(verdict="drop" if dead else "run", crash_count=crashes)

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

    # -- following up -----------------------------------------------------------------------------------

    def _follow(self, now: Instant) -> None:
        """Advance the waves and fan-outs that something happened to."""
        ledger = self._ledger
        while ledger.stirred and len(ledger.open.events) < _PASS_EVENTS:
            run_id = next(iter(ledger.stirred))
            del ledger.stirred[run_id]
            run = self.state.runs.get(run_id)
            if run is None or not ledger.is_sure(run_id):
                continue
            if run_id in self.state.waves:
                self._waves.advance(run, now)
            elif run_id in self.state.expansions:
                self._expansions.advance(run, now)

    def _marked(self, event: NodeMarked, ended: Ended | None, now: Instant) -> None:
        """Somebody said how a node ended: what it was doing is stopped."""
        if ended is None:
            return
        if not ended.run.parts:
            self._ledger.withdraw(ended.run, "marked by hand")
        for part in list(self._ledger.by_job.get(ended.run.job_id, {}).values()):
            if part.parent == event.run_id:
                self._cancel(part, "its node was marked by hand", now)

    def _emit(self, event: RunEvent, now: Instant) -> None:
        ended = self._ledger.emit(event)
        if ended is not None:
            self._ended(ended, now)

    def _cancel(
        self, run: Run, reason: str, now: Instant, at_once: bool = False, recorded: bool = False
    ) -> None:
        ended = self._ledger.cancel(run, reason, now, at_once=at_once, recorded=recorded)
        if ended is not None:
            self._ended(ended, now)

    def _settle(self, run: Run, now: Instant) -> None:
        """Give a run that waits what it waits for, or a timer."""
        if run.cancelling and run.status in ("WAITING", "RETRYING"):
            self._cancel(run, "cancel requested", now, recorded=True)
        elif run.waits == "decision":
            if self._has_turn(run, now):
                self._ledger.queue_again(run, now)
        elif run.waits == "timer" and run.due <= now:
            self._ledger.queue_again(run, now)
        elif run.waits == "timer":
            self._wheel.add(run.due, run)

    def _has_turn(self, run: Run, now: Instant) -> bool:
        """Whether a run that somebody asked for may begin: a wave only when its workflow's others have ended."""
        if run.trigger != "now" or run.parent is not None:
            return True
        known = self._ledger.definition(run)
        if known is None or not isinstance(known.spec.task, Workflow):
            return True
        return self._taking.take_turn(run, known.spec, now)

    def _stop(self, executor_id: str | None, run_id: str, reason: str) -> None:
        self._ledger.open.stops.append((executor_id, StopRequest(run_id=run_id, reason=reason)))

    def _ended(self, ended: Ended, now: Instant) -> None:
        run = ended.run
        if run.parts:
            self._waves.forget(run.run_id)
            self._expansions.forget(run.run_id)
        if self._is_done_with(run):
            self._ledger.unlearn(run)
        limit = run.pause_after
        if limit is not None and self.state.failures.get(run.job_id, 0) >= limit:
            self._ledger.open.pauses.append((run.job_id, f"paused after {limit} failed runs in a row"))
        if run.blocks:
            self._release(run.job_id, now)
        if run.parent in self.state.backfills:
            self._backfills.advance(self.state.backfills[run.parent], now)

    def _is_done_with(self, run: Run) -> bool:
        """Whether its job is a one-shot, as far as is known here: neither scheduled, nor waiting for another, nor a
        part. Millions of them pass through, and each brings a definition."""
        job_id = run.job_id
        return not (
            run.parent
            or job_id in self._ledger.by_job
            or job_id in self.schedules.armed
            or job_id in self.state.dependencies
        )

    def _release(self, job_id: str, now: Instant) -> None:
        """Queue the oldest run that waits for the ones before it, if they have all ended."""
        runs = self._ledger.active(job_id)
        if not runs:
            return
        waiting = [run for run in runs if run.waits == "overlap"]
        if waiting and len(waiting) == len(runs) and self._dependents.let_pass(waiting[0], now):
            self._ledger.queue_again(waiting[0], now)
