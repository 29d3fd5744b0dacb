"""The schedules of a partition whose next fire is near: armed in the wheel, fired, and moved on in the index."""

from collections.abc import Iterable

from waterclock.core.domain import ids
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.catch_up import GRACE, CatchUpDecision, decide_catch_up
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.due_fires import DueFire, FireDecider
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.partition.timing_index import ArmedSchedule, IndexEntry, encode_entry, place
from waterclock.core.domain.partition.timing_wheel import Wheel
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.schedule.fires import counts_from, jittered
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunsMissed,
    ScheduleEnded,
)
from waterclock.proto.spec import JobSpec

_RECURRING = ("CRON", "INTERVAL")


class Schedules:
    def __init__(
        self,
        partition: int,
        decisions: Decisions,
        definitions: Definitions,
        wheel: Wheel[ArmedSchedule | Run],
        fires: FireDecider,
    ) -> None:
        self._partition = partition
        self._decisions = decisions
        self._definitions = definitions
        self._wheel = wheel
        self._fires = fires
        self.armed: dict[str, ArmedSchedule] = {}
        self.loaded_until: Instant = 0
        """The index is in memory up to this instant."""

    # -- definitions ------------------------------------------------------------------------------------

    def observe_job(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition changed. What the old one had due until then is still decided by it."""
        job_id, spec = event.job_id, event.spec
        old = self.armed.pop(job_id, None)
        decided = 0
        if old is not None:
            if old.scheduled <= min(event.at, now):
                self._fire_until(old, min(event.at, now), now, final=True)
            decided = old.after
        if not isinstance(event, JobCreated):
            self._decisions.void_index(job_id, version - 1)
        match event:
            case JobCreated():
                self._definitions.remember(job_id, version, spec)
                if spec.schedule.schedule_type == "IMMEDIATE":
                    fire = DueFire(
                        job_id=job_id, version=version, spec=spec, scheduled=event.at, due=event.at
                    )
                    self._fires.decide(fire, now)
                else:
                    self._arm(job_id, version, spec, counts_from(spec.schedule, event.at), now)
            case JobUpdated(paused_at=None):
                self._arm(job_id, version, spec, max(event.at, decided), now)
            case JobResumed():
                after = event.at if event.missed_since is None else event.missed_since
                self._arm(job_id, version, spec, max(after, decided), now)
            case JobUpdated() | JobPaused() | JobCancelled():
                pass

    def load(self, entries: Iterable[IndexEntry], until: Instant, now: Instant) -> None:
        """Take entries read from the index, which is then in memory up to `until`."""
        cursor = self._decisions.state.cursor
        for entry in entries:
            known = self.armed.get(entry.job_id)
            if entry.version > cursor.jobs or (known is not None and known.version >= entry.version):
                continue
            self._rearm(entry, cursor.time, now)
        self.loaded_until = max(self.loaded_until, until)

    # -- firing -----------------------------------------------------------------------------------------

    def fire(self, item: ArmedSchedule, now: Instant) -> None:
        """An armed schedule has come due."""
        if self.armed.get(item.job_id) is not item:
            return
        del self.armed[item.job_id]
        self._fire_until(item, now, now)
        if item.spec.schedule.schedule_type in _RECURRING:
            self._move_on(item, now)

    def _fire_until(self, item: ArmedSchedule, until: Instant, now: Instant, *, final: bool = False) -> None:
        """Decide every fire of an armed schedule up to `until`, and leave `after` at what was decided.

        `final`: the definition ends there, so a fire that jitter puts a little later is taken now.
        """
        if item.spec.schedule.schedule_type not in _RECURRING or (
            now - item.due <= GRACE and self._is_last(item, until)
        ):
            item.after = item.scheduled
            self._fires.decide(_due_fire(item, item.scheduled, item.due), now)
            return
        item.after = until if final else self._decidable(item, until)
        decision = decide_catch_up(item.fires, item.scheduled - 1, item.after, item.spec.catch_up, now)
        self._catch_up(item, decision, now)

    def _is_last(self, item: ArmedSchedule, until: Instant) -> bool:
        """Whether no further fire lies before `until`."""
        following = item.fires.after(item.scheduled)
        return following is None or following.scheduled > until

    def _decidable(self, item: ArmedSchedule, until: Instant) -> Instant:
        """Up to where fires may be decided: jitter can put the due time of the last one after `until`."""
        last = item.fires.previous(until)
        if last is not None and self._due(item, last.scheduled) > until:
            return max(last.scheduled - 1, item.scheduled)
        return until

    def _catch_up(self, item: ArmedSchedule, decision: CatchUpDecision, now: Instant) -> None:
        for missed in decision.missed:
            self._decisions.emit(
                RunsMissed(
                    run_id=ids.run_id(item.job_id, missed.first),
                    at=now,
                    version=item.version,
                    scheduled=missed.first,
                    until=missed.last,
                    count=missed.count,
                    reason=missed.reason,
                )
            )
        for scheduled in decision.taken:
            due = self._due(item, scheduled)
            self._fires.decide(_due_fire(item, scheduled, due, caught_up=decision.caught_up), now)

    # -- arming -----------------------------------------------------------------------------------------

    def _arm(self, job_id: str, version: int, spec: JobSpec, after: Instant, now: Instant) -> None:
        """Find the next fire of a new definition, store it in the index, and arm it if it is near."""
        if spec.schedule.schedule_type in ("IMMEDIATE", "DEPENDENT"):
            return
        self._definitions.remember(job_id, version, spec)
        if self._exhausted(job_id, spec):
            self._end(job_id, version, f"max_fires of {spec.schedule.max_fires} reached", now)
            return
        item = self._next(job_id, version, spec, after, after)
        if item is None:
            if spec.schedule.schedule_type in _RECURRING:
                self._end(job_id, version, "no further fire", now)
            return
        self._store(item, now)

    def _rearm(self, entry: IndexEntry, decided: Instant, now: Instant) -> None:
        """Arm a stored entry from where the log says that decisions stand."""
        spec = entry.spec
        if self._exhausted(entry.job_id, spec):
            return
        slack = int(spec.schedule.jitter_seconds * SECOND)
        after = max(entry.since, decided - slack)
        item = self._next(entry.job_id, entry.version, spec, entry.since, after)
        while item is not None and item.due <= decided:
            item = self._next(entry.job_id, entry.version, spec, entry.since, item.scheduled)
        if item is None:
            return
        last = item.fires.previous(item.scheduled - 1)
        item.after = entry.since if last is None else max(entry.since, last.scheduled)
        item.key, item.hot = place(self._partition, item.job_id, item.version, item.fires, item.scheduled)
        self._definitions.remember(entry.job_id, entry.version, spec)
        self.armed[item.job_id] = item
        self._wheel.add(item.due, item)

    def _move_on(self, item: ArmedSchedule, now: Instant) -> None:
        spec = item.spec
        if self._exhausted(item.job_id, spec):
            self._end(item.job_id, item.version, f"max_fires of {spec.schedule.max_fires} reached", now)
            self._decisions.void_index(item.job_id, item.version)
            return
        following = self._next(item.job_id, item.version, spec, item.since, item.after)
        if following is None:
            self._end(item.job_id, item.version, "no further fire", now)
            self._decisions.void_index(item.job_id, item.version)
            return
        if item.hot:
            following.key, following.hot = place(
                self._partition, following.job_id, following.version, following.fires, following.scheduled
            )
            if following.hot:
                self.armed[item.job_id] = following
                self._wheel.add(following.due, following)
                return
            self._decisions.write_index(item.job_id, item.key, None)
        self._store(following, now)

    def _store(self, item: ArmedSchedule, now: Instant) -> None:
        item.key, item.hot = place(self._partition, item.job_id, item.version, item.fires, item.scheduled)
        if item.hot or item.due > now or item.scheduled >= self.loaded_until:
            entry = IndexEntry(job_id=item.job_id, version=item.version, spec=item.spec, since=item.since)
            self._decisions.write_index(item.job_id, item.key, encode_entry(entry))
        if item.hot or item.scheduled < self.loaded_until:
            self.armed[item.job_id] = item
            self._wheel.add(item.due, item)

    def _next(
        self, job_id: str, version: int, spec: JobSpec, since: Instant, after: Instant
    ) -> ArmedSchedule | None:
        fires = compile_schedule(spec.schedule, spec.name)
        fire = fires.after(after)
        if fire is None:
            return None
        item = ArmedSchedule(
            job_id=job_id,
            version=version,
            spec=spec,
            fires=fires,
            since=since,
            after=after,
            scheduled=fire.scheduled,
            due=fire.scheduled,
        )
        item.due = self._due(item, fire.scheduled)
        return item

    def _due(self, item: ArmedSchedule, scheduled: Instant) -> Instant:
        if not item.spec.schedule.jitter_seconds:
            return scheduled
        following = item.fires.after(scheduled)
        return jittered(
            item.spec.schedule,
            ids.run_id(item.job_id, scheduled),
            scheduled,
            None if following is None else following.scheduled,
        )

    def _exhausted(self, job_id: str, spec: JobSpec) -> bool:
        limit = spec.schedule.max_fires
        return limit is not None and self._decisions.state.fires_taken.get(job_id, 0) >= limit

    def _end(self, job_id: str, version: int, reason: str, now: Instant) -> None:
        self._decisions.emit(ScheduleEnded(run_id=job_id, at=now, version=version, reason=reason))


def _due_fire(item: ArmedSchedule, scheduled: Instant, due: Instant, *, caught_up: bool = False) -> DueFire:
    return DueFire(
        job_id=item.job_id,
        version=item.version,
        spec=item.spec,
        scheduled=scheduled,
        due=due,
        trigger="catch_up" if caught_up else "schedule",
    )
