"""One fire that has come due: queued, made to wait, skipped or missed, each with its reason."""

from msgspec import Struct

from waterclock.core.domain import ids
from waterclock.core.domain.partition.dependency_state import missing, waits_for
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.overlap import OverlapDecision, decide_overlap
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.run.deadlines import too_late
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

    @property
    def shown_trigger(self) -> Trigger:
        """A fire that does not run is the schedule's, caught up or not."""
        return "schedule" if self.trigger == "catch_up" else self.trigger


class Taking:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def take(self, fire: DueFire, now: Instant) -> None:
        """Decide a fire. One that was decided before, and has not ended, is left as it is."""
        ledger, spec = self._ledger, fire.spec
        run_id = ids.run_id(fire.job_id, fire.scheduled)
        if run_id in ledger.state.runs:
            return
        if (unwanted := ledger.state.skips.get(run_id)) is not None:
            self._skip(fire, run_id, unwanted, None, now)
            return
        if (late := too_late(spec, fire.due, now)) is not None:
            self._miss(fire, run_id, late, now)
            return
        number: int | None = None
        if (limit := spec.schedule.max_fires) is not None:
            number = ledger.state.taken.get(fire.job_id, 0) + 1
            if number > limit:
                return
        active = [] if spec.overlap == "allow" else ledger.active(fire.job_id)
        overlap = decide_overlap(spec.overlap, active, caught_up=fire.trigger == "catch_up")
        if overlap.verdict == "skip":
            self._skip(fire, run_id, overlap.reason, overlap.because_of, now)
            return
        self._make_room(overlap, run_id, now)
        if overlap.verdict == "wait" and ledger.active(fire.job_id):
            ledger.emit(self._waiting(fire, run_id, overlap.reason, number, now))
        else:
            self._queue(fire, run_id, number, now)

    def take_turn(self, wave: Run, spec: JobSpec, now: Instant) -> bool:
        """Whether a wave that somebody asked for may begin. Where a fire would be skipped it waits: it is wanted."""
        ledger = self._ledger
        policy = "queue_all" if spec.overlap in ("skip", "queue_one") else spec.overlap
        overlap = decide_overlap(policy, ledger.active(wave.job_id))
        self._make_room(overlap, wave.run_id, now)
        if overlap.verdict == "queue" or not ledger.active(wave.job_id):
            return True
        ledger.emit(
            RunWaiting(
                run_id=wave.run_id,
                at=now,
                version=wave.version,
                scheduled=wave.scheduled,
                due=wave.due,
                reason=overlap.reason,
                trigger=wave.trigger,
                epoch=wave.epoch or ledger.epoch_after(wave.job_id),
            )
        )
        return False

    def _make_room(self, overlap: OverlapDecision, run_id: str, now: Instant) -> None:
        ledger = self._ledger
        for other in overlap.terminate:
            ledger.cancel(ledger.state.runs[other], f"terminated for {run_id}", now, at_once=True)
        for other in overlap.cancel:
            ledger.cancel(ledger.state.runs[other], f"cancelled for {run_id}", now)

    def _queue(self, fire: DueFire, run_id: str, number: int | None, now: Instant) -> None:
        """Hand it to the executors, once the jobs it depends on have completed."""
        ledger = self._ledger
        if fire.trigger != "dependency" and fire.job_id in ledger.state.dependencies:
            lacking = missing(ledger.state.dependencies, fire.job_id, fire.scheduled)
            if lacking:
                reason = waits_for(lacking)
                ledger.emit(self._waiting(fire, run_id, reason, number, now, for_dependency=True))
                return
            ledger.emit(DependenciesUsed(run_id=fire.job_id, at=now, scheduled=fire.scheduled))
        ledger.queue(
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
            epoch=self._ledger.epoch_after(fire.job_id) if is_workflow else None,
            waits_for="dependency" if for_dependency else "overlap",
        )

    def _skip(self, fire: DueFire, run_id: str, reason: str, because_of: str | None, now: Instant) -> None:
        self._ledger.emit(
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
        self._ledger.emit(
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
