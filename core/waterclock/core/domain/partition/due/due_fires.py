"""One fire that has come due: queued, made to wait, skipped or missed, each with its reason."""

from msgspec import Struct

from waterclock.core.domain import ids
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.dependency_state import missing_dependencies, waits_for
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.overlap import OverlapDecision, decide_overlap
from waterclock.core.domain.partition.room import no_executor, route_of_spec
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.run.deadlines import latest_start, shown_trigger, too_late
from waterclock.proto.events import (
    DependenciesUsed,
    Instant,
    RunSkipped,
    RunsMissed,
    RunWaiting,
    Trigger,
)
from waterclock.proto.spec import JobSpec, Workflow


class DueFire(Struct, frozen=True, kw_only=True, gc=False):
    job_id: str
    version: int
    spec: JobSpec
    scheduled: Instant
    due: Instant
    trigger: Trigger = "schedule"
    waited: bool = False
    """For room among the executors."""

    @property
    def shown_trigger(self) -> Trigger:
        return shown_trigger(self.trigger)


class FireDecider:
    def __init__(self, decisions: Decisions, dispatch: Dispatch) -> None:
        self._decisions = decisions
        self._dispatch = dispatch
        self._state = decisions.state

    def decide(self, fire: DueFire, now: Instant) -> None:
        """Decide a fire. One that was decided before, and has not ended, is left as it is."""
        decisions, state, spec = self._decisions, self._state, fire.spec
        run_id = ids.run_id(fire.job_id, fire.scheduled)
        if run_id in state.runs:
            return
        number: int | None = None
        if (limit := spec.schedule.max_fires) is not None:
            number = state.fires_taken.get(fire.job_id, 0) + 1
            if number > limit:
                return
        if (unwanted := state.skips.get(run_id)) is not None:
            self._skip(fire, run_id, unwanted, None, now)
            return
        if (late := too_late(spec, fire.due, now)) is not None:
            if fire.waited:
                late = f"{late}: {no_executor(decisions.room, route_of_spec(spec))}"
            self._miss(fire, run_id, late, now)
            return
        active = [] if spec.overlap == "allow" else decisions.overlapping(fire.job_id)
        overlap = decide_overlap(spec.overlap, active, caught_up=fire.trigger == "catch_up")
        if overlap.verdict == "skip":
            self._skip(fire, run_id, overlap.reason, overlap.because_of, now)
            return
        self._stop_others(overlap, run_id, now)
        if overlap.verdict == "wait" and decisions.overlapping(fire.job_id):
            decisions.emit(self._waiting(fire, run_id, overlap.reason, number, now))
        else:
            self._queue(fire, run_id, number, now)

    def begin_or_wait(self, run: Run, spec: JobSpec, now: Instant) -> bool:
        """Whether a run of a workflow that a user asked for may begin. Where a fire would be skipped it waits: it is
        wanted."""
        decisions = self._decisions
        overlap = decide_overlap(spec.overlap, decisions.overlapping(run.job_id), requested=True)
        self._stop_others(overlap, run.run_id, now)
        if overlap.verdict == "queue" or not decisions.overlapping(run.job_id):
            return True
        decisions.emit(
            RunWaiting(
                run_id=run.run_id,
                at=now,
                version=run.version,
                scheduled=run.scheduled,
                due=run.due,
                reason=overlap.reason,
                trigger=run.trigger,
                epoch=run.epoch or self._dispatch.next_epoch(run.job_id),
                start_by=None if run.parts else latest_start(spec, run.due, run.trigger),
            )
        )
        return False

    def _stop_others(self, overlap: OverlapDecision, run_id: str, now: Instant) -> None:
        """Cancel the runs that have to make room for this one."""
        runs = self._state.runs
        for other in overlap.terminate:
            self._dispatch.cancel(runs[other], f"terminated for {run_id}", now, at_once=True)
        for other in overlap.cancel:
            self._dispatch.cancel(runs[other], f"cancelled for {run_id}", now)

    def _queue(self, fire: DueFire, run_id: str, number: int | None, now: Instant) -> None:
        """Hand it to the executors, once the jobs it depends on have completed."""
        dependencies = self._state.dependencies
        if fire.trigger != "dependency" and fire.job_id in dependencies:
            missing = missing_dependencies(dependencies, fire.job_id, fire.scheduled)
            if missing:
                reason = waits_for(missing)
                self._decisions.emit(self._waiting(fire, run_id, reason, number, now, for_dependency=True))
                return
            self._decisions.emit(DependenciesUsed(run_id=fire.job_id, at=now, scheduled=fire.scheduled))
        self._dispatch.queue(
            run_id,
            fire.version,
            fire.spec,
            scheduled=fire.scheduled,
            due=fire.due,
            now=now,
            trigger=fire.trigger,
            fire=number,
        )

    def _waiting(
        self,
        fire: DueFire,
        run_id: str,
        reason: str,
        number: int | None,
        now: Instant,
        *,
        for_dependency: bool = False,
    ) -> RunWaiting:
        is_workflow = isinstance(fire.spec.task, Workflow)
        return RunWaiting(
            run_id=run_id,
            at=now,
            version=fire.version,
            scheduled=fire.scheduled,
            due=fire.due,
            reason=reason,
            trigger=fire.trigger,
            fire=number,
            epoch=self._dispatch.next_epoch(fire.job_id) if is_workflow else None,
            waits_for="dependency" if for_dependency else "overlap",
            start_by=latest_start(fire.spec, fire.due, fire.trigger),
        )

    def _skip(self, fire: DueFire, run_id: str, reason: str, because_of: str | None, now: Instant) -> None:
        self._decisions.emit(
            RunSkipped(
                run_id=run_id,
                at=now,
                version=fire.version,
                scheduled=fire.scheduled,
                due=fire.due,
                reason=reason,
                because_of=because_of,
                trigger=fire.shown_trigger,
            )
        )

    def _miss(self, fire: DueFire, run_id: str, reason: str, now: Instant) -> None:
        self._decisions.emit(
            RunsMissed(
                run_id=run_id,
                at=now,
                version=fire.version,
                scheduled=fire.scheduled,
                until=fire.scheduled,
                count=1,
                reason=reason,
                trigger=fire.shown_trigger,
            )
        )
