"""What follows from an event: the next run of a job, the next node of a workflow, a stop for what was cancelled."""

from waterclock.core.domain.partition.backfills import Backfills
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dependencies import DependentJobs
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.due_fires import FireDecider
from waterclock.core.domain.partition.due.schedules import Schedules
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.fan_out import FanOuts
from waterclock.core.domain.partition.state import Backfill, Ended, Run
from waterclock.core.domain.partition.workflows import WorkflowRuns
from waterclock.core.domain.run.states import is_stale
from waterclock.proto.events import (
    Instant,
    NodeMarked,
    RunCancelRequested,
    RunEvent,
    RunStarted,
    RunSucceeded,
)
from waterclock.proto.spec import Workflow

_PASS_EVENTS = 2000
"""Workflow runs and fan-outs are left to the next pass when one has grown to this."""


class FollowUps:
    def __init__(
        self,
        decisions: Decisions,
        definitions: Definitions,
        dispatch: Dispatch,
        wheel: Wheel[ArmedSchedule | Run],
        schedules: Schedules,
        backfills: Backfills,
        dependent_jobs: DependentJobs,
        fires: FireDecider,
    ) -> None:
        self.fan_outs = FanOuts(decisions, dispatch, self.emit)
        self._workflow_runs = WorkflowRuns(decisions, definitions, dispatch, wheel, self.emit)
        self._decisions = decisions
        self._definitions = definitions
        self._dispatch = dispatch
        self._state = decisions.state
        self._wheel = wheel
        self._schedules = schedules
        self._backfills = backfills
        self._dependent_jobs = dependent_jobs
        self._fires = fires

    def emit(self, event: RunEvent, now: Instant) -> None:
        """Decide on an event, and on what follows from it."""
        ended = self._decisions.emit(event)
        if ended is not None:
            self._ended(ended, now)

    def cancel(
        self, run: Run, reason: str, now: Instant, at_once: bool = False, recorded: bool = False
    ) -> None:
        ended = self._dispatch.cancel(run, reason, now, at_once=at_once, recorded=recorded)
        if ended is not None:
            self._ended(ended, now)

    def after_event(self, event: RunEvent, ended: Ended | None, now: Instant) -> None:
        """Somebody else wrote an event, which has been applied."""
        if type(event) is NodeMarked:
            self._node_marked(ended, now)
        if ended is not None:
            self._ended(ended, now)
        elif event.run_id in self._state.dependencies:
            self._dependent_jobs.advance(event.run_id, now)
        elif event.run_id in self._state.backfills:
            self._backfill_steered(self._state.backfills[event.run_id], now)
        else:
            self._react(event, now)

    def nothing_follows(self, event: RunSucceeded) -> bool:
        """Whether this success, which has not been applied yet, leaves nothing to decide: nobody waits for the run, as
        a part of something, as a dependency, or for its turn."""
        state = self._state
        run = state.runs.get(event.run_id)
        return (
            run is not None
            and run.has_work
            and run.parent is None
            and not run.cancelling
            and not is_stale(run.attempt, run.executor_id, event)
            and len(self._decisions.by_job[run.job_id]) == 1
            and run.job_id not in state.dependencies
            and run.job_id not in state.notices.dependents
        )

    def advance_parents(self, now: Instant) -> None:
        """Advance the workflow runs and fan-outs that something happened to."""
        decisions = self._decisions
        waiting, decisions.without_room = decisions.without_room, {}
        for run_id, wanted in waiting.items():
            if decisions.room.has(*wanted):
                decisions.to_advance[run_id] = None
            elif run_id in self._state.fan_outs:
                decisions.without_room[run_id] = wanted
        while decisions.to_advance and len(decisions.open.events) < _PASS_EVENTS:
            run_id = next(iter(decisions.to_advance))
            del decisions.to_advance[run_id]
            run = self._state.runs.get(run_id)
            if run is None or not decisions.ends_are_confirmed(run_id):
                continue
            if run_id in self._state.workflow_runs:
                self._workflow_runs.advance(run, now)
            elif run_id in self._state.fan_outs:
                self.fan_outs.advance(run, now)

    def continue_run(self, run: Run, now: Instant) -> None:
        """A run that waits goes on if what it waits for is there; else it gets a timer. One that is to be cancelled and
        that nobody executes ends, also if its executor was found dead before that was read."""
        if run.cancelling and run.status in ("WAITING", "RETRYING", "QUEUED"):
            self.cancel(run, "cancel requested", now, recorded=True)
        elif run.waits == "decision":
            if self._may_begin(run, now):
                self._dispatch.queue_again(run, now)
        elif run.waits == "timer":
            self._wheel.add(run.due, run)
            self._decisions.watch_start(run)

    def _may_begin(self, run: Run, now: Instant) -> bool:
        """Whether a run that a user asked for may begin: one of a workflow only when the others have ended."""
        if run.trigger != "now" or run.parent is not None:
            return True
        known = self._dispatch.definition(run)
        if known is None or not isinstance(known.spec.task, Workflow):
            return True
        return self._fires.begin_or_wait(run, known.spec, now)

    def release_next(self, job_id: str, now: Instant) -> None:
        """Queue the oldest run that waits for the ones before it, if they have all ended."""
        runs = self._decisions.overlapping(job_id)
        if not runs:
            return
        waiting = [run for run in runs if run.waits == "overlap"]
        if waiting and len(waiting) == len(runs) and self._dependent_jobs.may_go_on(waiting[0], now):
            self._dispatch.queue_again(waiting[0], now)

    def _node_marked(self, ended: Ended | None, now: Instant) -> None:
        """A user said how a node ended: what it was doing is stopped."""
        if ended is None:
            return
        if not ended.run.parts:
            self._dispatch.withdraw(ended.run, "marked by hand")
        for part in self._decisions.parts_of(ended.run):
            self.cancel(part, "its node was marked by hand", now)

    def _backfill_steered(self, backfill: Backfill, now: Instant) -> None:
        if backfill.cancelled:
            for run in list(self._decisions.by_job.get(backfill.job_id, {}).values()):
                if run.parent == backfill.backfill_id and not run.cancelling:
                    self.cancel(run, "backfill cancelled", now)
        self._backfills.advance(backfill, now)

    def _react(self, event: RunEvent, now: Instant) -> None:
        run = self._state.runs.get(event.run_id)
        if run is None:
            reason = self._decisions.withdrawn.get(event.run_id)
            if isinstance(event, RunStarted) and reason is not None:
                self._decisions.stop(event.executor_id, event.run_id, reason)
        elif isinstance(event, RunCancelRequested):
            reason = event.reason or f"cancelled by {event.actor or 'somebody'}"
            self.cancel(run, reason, now, event.now, recorded=True)
        elif run.cancelling and isinstance(event, RunStarted):
            self._decisions.stop(run.executor_id, run.run_id, "cancel requested")
        else:
            self.continue_run(run, now)

    def _ended(self, ended: Ended, now: Instant) -> None:
        run = ended.run
        if run.parts:
            self._workflow_runs.forget(run.run_id)
            self.fan_outs.forget(run.run_id)
        if self._is_done_with(run):
            self._definitions.forget(run.job_id, run.version)
        limit = run.pause_after
        if limit is not None and self._state.failures.get(run.job_id, 0) >= limit:
            self._decisions.open.pauses.append((run.job_id, f"paused after {limit} failed runs in a row"))
        if run.counts_for_overlap:
            self.release_next(run.job_id, now)
        if run.parent in self._state.backfills:
            self._backfills.advance(self._state.backfills[run.parent], now)

    def _is_done_with(self, run: Run) -> bool:
        """Whether its job is a one-shot, as far as is known here: neither scheduled, nor waiting for another, nor a
        part. Millions of them pass through, and each brings a definition."""
        job_id = run.job_id
        return not (
            run.parent
            or job_id in self._decisions.by_job
            or job_id in self._schedules.armed
            or job_id in self._state.dependencies
        )
