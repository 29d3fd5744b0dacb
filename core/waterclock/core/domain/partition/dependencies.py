"""Jobs that wait for other jobs: run when all of those have completed."""

from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dependency_state import Dependencies, missing_dependencies, waits_for
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.due_fires import DueFire, FireDecider
from waterclock.core.domain.partition.state import Run
from waterclock.proto.events import (
    DependenciesChanged,
    DependenciesUsed,
    Instant,
    JobCancelled,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunWaiting,
)


class DependentJobs:
    def __init__(
        self, decisions: Decisions, definitions: Definitions, dispatch: Dispatch, fires: FireDecider
    ) -> None:
        self._decisions = decisions
        self._definitions = definitions
        self._dispatch = dispatch
        self._fires = fires
        self._state = decisions.state

    def observe_job(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition changed: say for whom the job waits, if it does or did."""
        spec = event.spec
        if not spec.dependencies and event.job_id not in self._state.dependencies:
            return
        on = () if isinstance(event, JobCancelled) else spec.dependencies
        paused = isinstance(event, JobPaused) or (
            isinstance(event, JobUpdated) and event.paused_at is not None
        )
        self._definitions.remember(event.job_id, version, spec)
        self._decisions.emit(
            DependenciesChanged(
                run_id=event.job_id,
                at=now,
                version=version,
                on=on,
                same_time=spec.dependency_rule == "same_time",
                paused=paused,
                reset=isinstance(event, JobResumed) and event.missed_since is None,
            )
        )
        self.advance(event.job_id, now)

    def advance_all(self, now: Instant) -> None:
        for job_id in list(self._state.dependencies):
            self.advance(job_id, now)

    def advance(self, job_id: str, now: Instant) -> None:
        """Run what waits for completions that have come."""
        job = self._state.dependencies.get(job_id)
        if job is None or job.paused:
            return
        if job.same_time:
            for scheduled in sorted(job.times):
                self._run_if_complete(job_id, job, scheduled, now)
        elif job.completed:
            self._run_if_complete(job_id, job, None, now)

    def may_go_on(self, run: Run, now: Instant) -> bool:
        """Whether a run whose turn has come may go on; if not, it is said for whom it waits."""
        if run.trigger in ("dependency", "now") or run.job_id not in self._state.dependencies:
            return True
        if missing := missing_dependencies(self._state.dependencies, run.job_id, run.scheduled):
            self._decisions.emit(
                RunWaiting(
                    run_id=run.run_id,
                    at=now,
                    version=run.version,
                    scheduled=run.scheduled,
                    due=run.due,
                    reason=waits_for(missing),
                    trigger=run.trigger,
                    epoch=run.epoch,
                    waits_for="dependency",
                    start_by=run.start_by,
                )
            )
            return False
        self._use(run.job_id, run.scheduled, now)
        return True

    def _run_if_complete(
        self, job_id: str, job: Dependencies, scheduled: Instant | None, now: Instant
    ) -> None:
        if missing_dependencies(self._state.dependencies, job_id, scheduled):
            return
        waiting = [
            run
            for run in self._decisions.by_job.get(job_id, {}).values()
            if run.waits == "dependency" and scheduled in (None, run.scheduled)
        ]
        if waiting:
            if self._dispatch.definition(waiting[0]) is not None:
                self._use(job_id, waiting[0].scheduled, now)
                self._dispatch.queue_again(waiting[0], now)
            return
        definition = self._definitions.get(job_id, job.version)
        if definition is None:
            self._dispatch.need_definition(job_id, job.version)
        elif definition.spec.schedule.schedule_type == "DEPENDENT":
            at = max(job.completed.values()) if scheduled is None else scheduled
            self._use(job_id, scheduled, now)
            fire = DueFire(
                job_id=job_id,
                version=job.version,
                spec=definition.spec,
                scheduled=at,
                due=now,
                trigger="dependency",
            )
            self._fires.decide(fire, now)

    def _use(self, job_id: str, scheduled: Instant | None, now: Instant) -> None:
        self._decisions.emit(DependenciesUsed(run_id=job_id, at=now, scheduled=scheduled))
