"""The fires of a schedule that have come due: each is decided, however late. Those of a time without an owner are up to
the job's catch-up policy."""

from collections import deque

from waterclock.core.domain.ids import run_id
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.catch_up import GRACE, CatchUpDecision, decide_catch_up
from waterclock.core.domain.partition.due.due_fires import DueFire, FireDecider
from waterclock.core.domain.schedule.fires import Fires
from waterclock.proto.events import Instant, RunsMissed
from waterclock.proto.spec import JobSpec

_GAPS = 8

Gap = tuple[Instant, Instant]
"""A time in which nobody owned the partition."""


class OverdueFires:
    def __init__(self, decisions: Decisions, definitions: Definitions, fires: FireDecider) -> None:
        self._decisions = decisions
        self._definitions = definitions
        self._fires = fires
        self._gaps: deque[Gap] = deque(maxlen=_GAPS)

    def nobody_decided(self, since: Instant, until: Instant) -> None:
        """There was no owner: what came due then is up to the jobs' catch-up policies."""
        if until - since > GRACE:
            self._gaps.append((since, until))

    def decide(
        self,
        item: ArmedSchedule,
        until: Instant,
        now: Instant,
        *,
        final: bool = False,
        most: int | None = None,
    ) -> bool:
        """Decide the fires of an armed schedule up to `until`, and leave `after` at what was decided. Whether that were
        all; else it is armed for the next of them.

        `final`: the definition ends there, so a fire that jitter puts a little later is taken now.
        """
        spec = item.unpack()
        self._definitions.remember(item.job_id, item.version, spec)
        if not item.lane.recurring:
            item.after = item.scheduled
            self._fires.decide(_due_fire(item, spec, item.scheduled, item.due), now)
            return True
        fires = item.compiled()
        end = until if final else self._decidable(item, fires, until)
        while item.scheduled <= end and (most is None or most > 0):
            if self.exhausted(item.job_id, spec):
                item.after = max(item.after, end)
                return True
            gap = self._gap_at(item)
            if gap is not None:
                item.after = min(end, gap[1])
                decision = decide_catch_up(fires, item.scheduled - 1, item.after, spec.catch_up, gap[1])
                self._catch_up(item, spec, decision, now)
            else:
                item.after = item.scheduled
                self._fires.decide(_due_fire(item, spec, item.scheduled, item.due), now)
            if most is not None:
                most -= 1
            following = fires.after(item.after)
            if following is None or following.scheduled > end:
                item.after = max(item.after, end)
                return True
            item.scheduled = following.scheduled
            item.due = item.due_at(item.scheduled)
        return item.scheduled > end

    def _gap_at(self, item: ArmedSchedule) -> Gap | None:
        """The time without an owner, or the pause, in which the next fire of a schedule came due."""
        if item.paused is not None and item.scheduled <= item.paused[1]:
            return item.paused
        return next((gap for gap in self._gaps if gap[0] < item.scheduled <= gap[1]), None)

    def _decidable(self, item: ArmedSchedule, fires: Fires, until: Instant) -> Instant:
        """Up to where fires may be decided: jitter can put the due time of the last one after `until`."""
        spec = item.unpack()
        if not spec.schedule.jitter_seconds:
            return until
        last = fires.previous(until)
        if last is not None and item.due_at(last.scheduled) > until:
            return max(last.scheduled - 1, item.scheduled)
        return until

    def _catch_up(self, item: ArmedSchedule, spec: JobSpec, decision: CatchUpDecision, now: Instant) -> None:
        for missed in decision.missed:
            self._decisions.emit(
                RunsMissed(
                    run_id=run_id(item.job_id, missed.first),
                    at=now,
                    version=item.version,
                    scheduled=missed.first,
                    until=missed.last,
                    count=missed.count,
                    reason=missed.reason,
                )
            )
        for scheduled in decision.taken:
            due = item.due_at(scheduled)
            self._fires.decide(_due_fire(item, spec, scheduled, due, caught_up=decision.caught_up), now)

    def exhausted(self, job_id: str, spec: JobSpec) -> bool:
        """Whether a job has had all the fires it may have."""
        limit = spec.schedule.max_fires
        return limit is not None and self._decisions.state.fires_taken.get(job_id, 0) >= limit


def _due_fire(
    item: ArmedSchedule, spec: JobSpec, scheduled: Instant, due: Instant, *, caught_up: bool = False
) -> DueFire:
    return DueFire(
        job_id=item.job_id,
        version=item.version,
        spec=spec,
        scheduled=scheduled,
        due=due,
        trigger="catch_up" if caught_up else "schedule",
        waited=item.waited,
    )
