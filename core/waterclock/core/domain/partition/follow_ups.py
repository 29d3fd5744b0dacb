"""What follows from an event: the next run of a job, the wave a node belongs to, a stop for what was cancelled."""

from waterclock.core.domain.partition.backfills import Backfills
from waterclock.core.domain.partition.dependencies import Dependents
from waterclock.core.domain.partition.fan_out import Expansions
from waterclock.core.domain.partition.fires import Taking
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.schedules import Schedules
from waterclock.core.domain.partition.state import Backfill, Ended, Run
from waterclock.core.domain.partition.timing_index import Scheduled
from waterclock.core.domain.partition.timing_wheel import Wheel
from waterclock.core.domain.partition.workflows import Waves
from waterclock.proto.events import Instant, NodeMarked, RunCancelRequested, RunEvent, RunStarted
from waterclock.proto.spec import Workflow
from waterclock.proto.work import StopRequest

_PASS_EVENTS = 2000
"""What follows for waves and fan-outs is left to the next pass when one has grown to this."""


class Aftermath:
    def __init__(
        self,
        ledger: Ledger,
        wheel: Wheel[Scheduled | Run],
        schedules: Schedules,
        backfills: Backfills,
        dependents: Dependents,
        taking: Taking,
    ) -> None:
        self.expansions = Expansions(ledger, self.emit)
        self._waves = Waves(ledger, self.emit)
        self._ledger = ledger
        self._state = ledger.state
        self._wheel = wheel
        self._schedules = schedules
        self._backfills = backfills
        self._dependents = dependents
        self._taking = taking

    def emit(self, event: RunEvent, now: Instant) -> None:
        """Decide on an event, and on what follows from it."""
        ended = self._ledger.emit(event)
        if ended is not None:
            self._ended(ended, now)

    def cancel(
        self, run: Run, reason: str, now: Instant, at_once: bool = False, recorded: bool = False
    ) -> None:
        ended = self._ledger.cancel(run, reason, now, at_once=at_once, recorded=recorded)
        if ended is not None:
            self._ended(ended, now)

    def stop(self, executor_id: str | None, run_id: str, reason: str) -> None:
        self._ledger.open.stops.append((executor_id, StopRequest(run_id=run_id, reason=reason)))

    def of_news(self, event: RunEvent, ended: Ended | None, now: Instant) -> None:
        """Somebody else wrote an event, which has been applied."""
        if isinstance(event, NodeMarked):
            self._marked(event, ended, now)
        if ended is not None:
            self._ended(ended, now)
        elif event.run_id in self._state.dependencies:
            self._dependents.advance(event.run_id, now)
        elif event.run_id in self._state.backfills:
            self._steer(self._state.backfills[event.run_id], now)
        else:
            self._react(event, now)

    def of_what_stirred(self, now: Instant) -> None:
        """Advance the waves and fan-outs that something happened to."""
        ledger = self._ledger
        while ledger.stirred and len(ledger.open.events) < _PASS_EVENTS:
            run_id = next(iter(ledger.stirred))
            del ledger.stirred[run_id]
            run = self._state.runs.get(run_id)
            if run is None or not ledger.is_sure(run_id):
                continue
            if run_id in self._state.waves:
                self._waves.advance(run, now)
            elif run_id in self._state.expansions:
                self.expansions.advance(run, now)

    def settle(self, run: Run, now: Instant) -> None:
        """Give a run that waits what it waits for, or a timer."""
        if run.cancelling and run.status in ("WAITING", "RETRYING"):
            self.cancel(run, "cancel requested", now, recorded=True)
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

    def release(self, job_id: str, now: Instant) -> None:
        """Queue the oldest run that waits for the ones before it, if they have all ended."""
        runs = self._ledger.active(job_id)
        if not runs:
            return
        waiting = [run for run in runs if run.waits == "overlap"]
        if waiting and len(waiting) == len(runs) and self._dependents.let_pass(waiting[0], now):
            self._ledger.queue_again(waiting[0], now)

    def _marked(self, event: NodeMarked, ended: Ended | None, now: Instant) -> None:
        """Somebody said how a node ended: what it was doing is stopped."""
        if ended is None:
            return
        if not ended.run.parts:
            self._ledger.withdraw(ended.run, "marked by hand")
        for part in list(self._ledger.by_job.get(ended.run.job_id, {}).values()):
            if part.parent == event.run_id:
                self.cancel(part, "its node was marked by hand", now)

    def _steer(self, backfill: Backfill, now: Instant) -> None:
        if backfill.cancelled:
            for run in list(self._ledger.by_job.get(backfill.job_id, {}).values()):
                if run.parent == backfill.backfill_id and not run.cancelling:
                    self.cancel(run, "backfill cancelled", now)
        self._backfills.advance(backfill, now)

    def _react(self, event: RunEvent, now: Instant) -> None:
        run = self._state.runs.get(event.run_id)
        if run is None:
            reason = self._ledger.withdrawn.get(event.run_id)
            if isinstance(event, RunStarted) and reason is not None:
                self.stop(event.executor_id, event.run_id, reason)
        elif isinstance(event, RunCancelRequested):
            reason = event.reason or f"cancelled by {event.actor or 'somebody'}"
            self.cancel(run, reason, now, event.now, recorded=True)
        elif run.cancelling and isinstance(event, RunStarted):
            self.stop(run.executor_id, run.run_id, "cancel requested")
        else:
            self.settle(run, now)

    def _ended(self, ended: Ended, now: Instant) -> None:
        run = ended.run
        if run.parts:
            self._waves.forget(run.run_id)
            self.expansions.forget(run.run_id)
        if self._is_done_with(run):
            self._ledger.unlearn(run)
        limit = run.pause_after
        if limit is not None and self._state.failures.get(run.job_id, 0) >= limit:
            self._ledger.open.pauses.append((run.job_id, f"paused after {limit} failed runs in a row"))
        if run.blocks:
            self.release(run.job_id, now)
        if run.parent in self._state.backfills:
            self._backfills.advance(self._state.backfills[run.parent], now)

    def _is_done_with(self, run: Run) -> bool:
        """Whether its job is a one-shot, as far as is known here: neither scheduled, nor waiting for another, nor a
        part. Millions of them pass through, and each brings a definition."""
        job_id = run.job_id
        return not (
            run.parent
            or job_id in self._ledger.by_job
            or job_id in self._schedules.armed
            or job_id in self._state.dependencies
        )
