"""The schedules of a partition whose next fire is near: armed in the wheel, fired, and moved on in the index."""

from collections import deque
from collections.abc import Iterable

from waterclock.core.domain import ids
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.due.catch_up import GRACE, CatchUpDecision, decide_catch_up
from waterclock.core.domain.partition.due.due_fires import DueFire, FireDecider
from waterclock.core.domain.partition.due.timing_index import (
    ArmedSchedule,
    IndexEntry,
    encode_entry,
    is_hot,
    key_of,
)
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.room import lane_of
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.schedule.fires import Fires, counts_from, jittered
from waterclock.core.domain.schedule.fires import compile as compile_schedule
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
_WITHOUT_CLOCK = ("IMMEDIATE", "DEPENDENT")
_AT_ONCE = 100
"""How many fires of one schedule are decided in a turn, while nothing else waits."""
_UNPACKED = 1_000
"""From so many armed schedules on, a partition packs those that are not to fire at once."""
_SOON = 2 * SECOND
_GAPS = 8

Gap = tuple[Instant, Instant]
"""A time in which nobody owned the partition."""


class Schedules:
    def __init__(
        self,
        partition: int,
        decisions: Decisions,
        definitions: Definitions,
        wheel: Wheel[ArmedSchedule | Run],
        backlog: Backlog,
        fires: FireDecider,
    ) -> None:
        self._partition = partition
        self._decisions = decisions
        self._definitions = definitions
        self._wheel = wheel
        self._backlog = backlog
        self._fires = fires
        self._gaps: deque[Gap] = deque(maxlen=_GAPS)
        self.armed: dict[str, ArmedSchedule] = {}
        self.loaded_until: Instant = 0
        """The index is in memory up to this instant."""

    # -- definitions ------------------------------------------------------------------------------------

    def observe_job(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition changed. What the old one had due until then is still decided by it."""
        job_id = event.job_id
        old = self.armed.pop(job_id, None)
        decided = 0
        if old is not None:
            old.waiting = False
            if old.scheduled <= min(event.at, now):
                self._fire_until(old, min(event.at, now), now, final=True)
            decided = old.after
        if not isinstance(event, JobCreated):
            self._decisions.void_index(job_id, version - 1)
        after = _counts_after(event)
        if after is None:
            return
        if isinstance(event, JobCreated) and event.spec.schedule.schedule_type == "IMMEDIATE":
            self._arm_now(event, version)
        else:
            self._arm(event, version, max(after, decided), now)

    def observe_again(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition that an earlier owner has read, but may not have decided all of that was due then. Changes no
        index: that was written when it was first read."""
        job_id, spec = event.job_id, event.spec
        old = self.armed.get(job_id)
        if old is not None and old.version > version:
            return  # a later one was read, and what this one had due until then was decided
        if old is not None and old.unsettled:
            old.waiting = False
            del self.armed[job_id]
        mark = self._decisions.state.ahead.get(job_id)
        decided = 0 if mark is None else mark[0]
        after = _counts_after(event)
        if after is None or self._exhausted(job_id, spec):
            return
        if spec.schedule.schedule_type == "IMMEDIATE":
            if isinstance(event, JobCreated) and decided < event.at:
                self._arm_now(event, version)
            return
        item = self._next(job_id, version, spec, after, max(after, decided))
        if item is not None and item.due <= now:
            item.hot = is_hot(item.unpack()[1], item.scheduled)
            item.paused = _pause_before(event)
            self._arm_unsettled(item)

    def load(self, entries: Iterable[IndexEntry], now: Instant) -> None:
        """Take entries read from the index."""
        cursor = self._decisions.state.cursor
        for entry in entries:
            known = self.armed.get(entry.job_id)
            if entry.version > cursor.jobs or (known is not None and known.version >= entry.version):
                continue
            self._rearm(entry, cursor.time, now)

    def loaded(self, until: Instant) -> None:
        """The index is in memory up to here."""
        self.loaded_until = max(self.loaded_until, until)

    # -- firing -----------------------------------------------------------------------------------------

    def nobody_decided(self, since: Instant, until: Instant) -> None:
        """There was no owner: what came due then is up to the jobs' catch-up policies."""
        if until - since > GRACE:
            self._gaps.append((since, until))

    def is_armed(self, item: ArmedSchedule) -> bool:
        """Whether it is still the one that counts for its job."""
        return self.armed.get(item.job_id) is item

    def fire(self, item: ArmedSchedule, now: Instant) -> None:
        """An armed schedule has come due and has room."""
        if not self.is_armed(item):
            return
        if self._fire_until(item, now, now, most=1 if self._backlog else _AT_ONCE):
            del self.armed[item.job_id]
            if item.lane.recurring:
                self._move_on(item, now)
        else:
            if not item.hot:  # it has left the minute under which the index has it
                self._decisions.write_index(key_of(self._partition, item), self._entry(item))
            self._pack(item, self._backlog)
            self._backlog.add(item, item.lane)

    def _fire_until(
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
        spec, fires = item.unpack()
        self._definitions.remember(item.job_id, item.version, spec)
        if not item.lane.recurring:
            item.after = item.scheduled
            self._fires.decide(_due_fire(item, spec, item.scheduled, item.due), now)
            return True
        end = until if final else self._decidable(item, fires, until)
        while item.scheduled <= end and (most is None or most > 0):
            if self._exhausted(item.job_id, spec):
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
            if following is None:
                item.after = end
                return True
            if following.scheduled > end:
                item.after = max(item.after, end)
                return True
            item.scheduled = following.scheduled
            item.due = self._due(item, spec, fires, item.scheduled)
        return item.scheduled > end

    def _gap_at(self, item: ArmedSchedule) -> Gap | None:
        """The time without an owner, or the pause, in which the next fire of a schedule came due."""
        if item.paused is not None and item.scheduled <= item.paused[1]:
            return item.paused
        return next((gap for gap in self._gaps if gap[0] < item.scheduled <= gap[1]), None)

    def _decidable(self, item: ArmedSchedule, fires: Fires, until: Instant) -> Instant:
        """Up to where fires may be decided: jitter can put the due time of the last one after `until`."""
        spec, _ = item.unpack()
        if not spec.schedule.jitter_seconds:
            return until
        last = fires.previous(until)
        if last is not None and self._due(item, spec, fires, last.scheduled) > until:
            return max(last.scheduled - 1, item.scheduled)
        return until

    def _catch_up(self, item: ArmedSchedule, spec: JobSpec, decision: CatchUpDecision, now: Instant) -> None:
        _, fires = item.unpack()
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
            due = self._due(item, spec, fires, scheduled)
            self._fires.decide(_due_fire(item, spec, scheduled, due, caught_up=decision.caught_up), now)

    # -- arming -----------------------------------------------------------------------------------------

    def _arm_now(self, event: JobCreated, version: int) -> None:
        """A job that is due as soon as it is accepted."""
        self._arm_unsettled(
            ArmedSchedule(
                job_id=event.job_id,
                version=version,
                lane=lane_of(event.spec),
                since=event.at,
                after=event.at,
                scheduled=event.at,
                due=event.at,
                spec=event.spec,
                fires=None,
            )
        )

    def _arm(self, event: JobEvent, version: int, after: Instant, now: Instant) -> None:
        """Find the next fire of a new definition, store it in the index, and arm it if it is near."""
        job_id, spec = event.job_id, event.spec
        if spec.schedule.schedule_type in _WITHOUT_CLOCK:
            return
        if self._exhausted(job_id, spec):
            self._end(job_id, version, f"max_fires of {spec.schedule.max_fires} reached", now)
            return
        item = self._next(job_id, version, spec, after, after)
        if item is None:
            if spec.schedule.schedule_type in _RECURRING:
                self._end(job_id, version, "no further fire", now)
            return
        item.paused = _pause_before(event)
        self._store(item, now)

    def _arm_unsettled(self, item: ArmedSchedule) -> None:
        """It is due already. It waits in the backlog, for a moment or for longer."""
        item.unsettled = True
        self.armed[item.job_id] = item
        self._pack(item, self._backlog)
        self._backlog.add(item, item.lane)

    def _rearm(self, entry: IndexEntry, decided: Instant, now: Instant) -> None:
        """Arm a stored entry from where the log says that decisions stand."""
        spec = entry.spec
        if self._exhausted(entry.job_id, spec):
            return
        mark = self._decisions.state.ahead.get(entry.job_id)
        slack = int(spec.schedule.jitter_seconds * SECOND)
        after = max(entry.since, decided - slack, 0 if mark is None else mark[0])
        item = self._next(entry.job_id, entry.version, spec, entry.since, after)
        while item is not None and item.due <= decided:
            item = self._next(entry.job_id, entry.version, spec, entry.since, item.scheduled)
        if item is None:
            return
        _, fires = item.unpack()
        last = fires.previous(item.scheduled - 1)
        item.after = entry.since if last is None else max(entry.since, last.scheduled)
        item.hot = is_hot(fires, item.scheduled)
        self.armed[item.job_id] = item
        if item.due > now + _SOON:
            self._pack(item, self.armed)
        self._wheel.add(item.due, item)

    def _move_on(self, item: ArmedSchedule, now: Instant) -> None:
        spec, fires = item.unpack()
        if self._exhausted(item.job_id, spec):
            self._end(item.job_id, item.version, f"max_fires of {spec.schedule.max_fires} reached", now)
            self._leave_index(item)
            return
        following = self._next(item.job_id, item.version, spec, item.since, item.after)
        if following is None:
            self._end(item.job_id, item.version, "no further fire", now)
            self._leave_index(item)
            return
        if item.hot:
            following.hot = is_hot(fires, following.scheduled)
            if following.hot:
                self.armed[item.job_id] = following
                self._pack(following, self.armed)
                self._wheel.add(following.due, following)
                return
            self._leave_index(item)
        self._store(following, now)

    def _leave_index(self, item: ArmedSchedule) -> None:
        """A minute is purged when it has passed; a hot entry stays until it is removed."""
        if item.hot:
            self._decisions.open.obsolete_keys.append(key_of(self._partition, item))

    def _store(self, item: ArmedSchedule, now: Instant) -> None:
        """Write a schedule to the index, and arm it if its fire is near. What is due already need not be written: until
        it is decided, its definition is read again by whoever takes over. But where it recurs, its next fires follow
        from the entry."""
        _, fires = item.unpack()
        item.hot = is_hot(fires, item.scheduled)
        entry = b""
        if item.hot or item.due > now or item.scheduled >= self.loaded_until:
            entry = self._entry(item)
            self._decisions.write_index(key_of(self._partition, item), entry)
        if not item.hot and item.scheduled >= self.loaded_until:
            return
        if item.due <= now:
            self._arm_unsettled(item)
            return
        self.armed[item.job_id] = item
        self._pack(item, self.armed, entry)
        self._wheel.add(item.due, item)

    def _pack(
        self, item: ArmedSchedule, others: "Backlog | dict[str, ArmedSchedule]", entry: bytes = b""
    ) -> None:
        if len(others) >= _UNPACKED:
            item.pack(entry or self._entry(item))

    def _entry(self, item: ArmedSchedule) -> bytes:
        spec, _ = item.unpack()
        return encode_entry(IndexEntry(job_id=item.job_id, version=item.version, spec=spec, since=item.since))

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
            lane=lane_of(spec),
            since=since,
            after=after,
            scheduled=fire.scheduled,
            due=fire.scheduled,
            spec=spec,
            fires=fires,
        )
        item.due = self._due(item, spec, fires, fire.scheduled)
        return item

    def _due(self, item: ArmedSchedule, spec: JobSpec, fires: Fires, scheduled: Instant) -> Instant:
        if not spec.schedule.jitter_seconds:
            return scheduled
        following = fires.after(scheduled)
        return jittered(
            spec.schedule,
            ids.run_id(item.job_id, scheduled),
            scheduled,
            None if following is None else following.scheduled,
        )

    def _exhausted(self, job_id: str, spec: JobSpec) -> bool:
        limit = spec.schedule.max_fires
        return limit is not None and self._decisions.state.fires_taken.get(job_id, 0) >= limit

    def _end(self, job_id: str, version: int, reason: str, now: Instant) -> None:
        self._decisions.emit(ScheduleEnded(run_id=job_id, at=now, version=version, reason=reason))


def _counts_after(event: JobEvent) -> Instant | None:
    """The fires of a definition after this instant are its own to take; None: none are."""
    match event:
        case JobCreated():
            return counts_from(event.spec.schedule, event.at)
        case JobUpdated(paused_at=None):
            return event.at
        case JobResumed():
            return event.at if event.missed_since is None else event.missed_since
        case JobUpdated() | JobPaused() | JobCancelled():
            return None


def _pause_before(event: JobEvent) -> Gap | None:
    """The pause that a job was resumed from, if what came due in it is wanted."""
    if isinstance(event, JobResumed) and event.missed_since is not None:
        return event.missed_since, event.at
    return None


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
    )
