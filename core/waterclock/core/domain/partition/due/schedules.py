"""The schedules of a partition whose next fire is near: armed in the wheel, fired, and moved on in the index."""

from collections.abc import Iterable

from msgspec import Raw

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job.aggregate import is_due_at_once
from waterclock.core.domain.partition.decisions import Decisions, VoidEntries
from waterclock.core.domain.partition.due.armed_schedule import (
    ArmedSchedule,
    arm_first,
    arm_next,
    armed_for,
    filed_under,
    may_be_filed_under,
    plain_time,
)
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.due.near_schedules import NearSchedules
from waterclock.core.domain.partition.due.one_shots import OneShots
from waterclock.core.domain.partition.due.overdue_fires import Gap, OverdueFires
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.schedule.fires import counts_from
from waterclock.core.domain.timing_groups import Filed, Void
from waterclock.core.domain.timing_index import IndexEntry, is_hot
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    ScheduleEnded,
)
from waterclock.proto.names import timing_hot

_RECURRING = ("CRON", "INTERVAL")
_WITHOUT_CLOCK = ("IMMEDIATE", "DEPENDENT")
_AT_ONCE = 100
"""How many fires of one schedule are decided in a turn, while nothing else waits."""
_UNPACKED = 1_000
"""From so many armed schedules on, a partition packs those that are not to fire at once."""
_SOON = 2 * SECOND


class Schedules:
    def __init__(
        self,
        partition: int,
        decisions: Decisions,
        wheel: Wheel[ArmedSchedule | Run],
        backlog: Backlog,
        overdue: OverdueFires,
        one_shots: OneShots,
        near: NearSchedules,
    ) -> None:
        self._partition = partition
        self._decisions = decisions
        self._wheel = wheel
        self._backlog = backlog
        self._overdue = overdue
        self._one_shots = one_shots
        self._fresh: list[ArmedSchedule] = []
        """Due when their definition was read, just now. If there is room for them they need not stand in line."""
        self.near = near
        self.armed = near.by_job

    # -- definitions ------------------------------------------------------------------------------------

    def observe_job(self, event: JobEvent, version: int, now: Instant) -> None:
        """A definition changed. What the old one had due until then is still decided by it."""
        job_id = event.job_id
        old = self.near.disarm(job_id)
        if old is None and type(event) is JobCreated and self._arm_one_shot(event, version, now):
            return
        decided = 0
        if not isinstance(event, JobCreated):
            self._void(job_id, version - 1, old, now)
        if old is not None:
            self._backlog.drop(old)
            if old.scheduled <= (event.at if old.unsettled else min(event.at, now)):
                self._overdue.decide(old, min(event.at, now), now, final=True)
            decided = old.after
        after = _counts_after(event)
        if after is None:
            return
        if is_due_at_once(event):
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
            self._backlog.drop(old)
            self.near.disarm(job_id)
        mark = self._decisions.state.ahead.get(job_id)
        decided = 0 if mark is None else mark[0]
        after = _counts_after(event)
        if after is None or self._overdue.exhausted(job_id, spec):
            return
        if is_due_at_once(event):
            if decided < event.at:
                self._arm_now(event, version)
            return
        item = arm_next(job_id, version, spec, since=after, after=max(after, decided))
        if item is not None and item.due <= now:
            item.hot = _is_hot(item)
            item.paused = _pause_before(event)
            self._arm_unsettled(item)

    def recall(self, event: JobEvent, version: int) -> None:
        """A definition that is about to be replaced, of a job that is not in memory: something of it may be due that
        nobody has decided."""
        after = _counts_after(event)
        if event.job_id in self.armed or after is None or is_due_at_once(event):
            return
        entry = IndexEntry(job_id=event.job_id, version=version, spec=event.spec, since=after)
        item = self._next_undecided(entry)
        if item is not None:
            self.near.arm(item)

    def load(self, entries: Iterable[IndexEntry], now: Instant, before: Instant | None) -> None:
        """Take entries read from the index. `before`: what is due then or later has another place in it, and is read
        from there."""
        jobs = self._decisions.state.cursor.jobs
        for entry in entries:
            known = self.armed.get(entry.job_id)
            if entry.version > jobs or (known is not None and known.version >= entry.version):
                continue
            item = self._next_undecided(entry)
            if item is not None and (before is None or item.hot or item.due < before):
                self.near.arm(item)
                if item.lane.recurring and item.due > now + _SOON:  # one-shots are read shortly before
                    self._pack(item, self.armed)
                self._wheel.add(item.due, item)

    def unload(self, void: Iterable[Void]) -> None:
        """What was read from the index is void, as a later part of it says."""
        for mark in void:
            item = self.armed.get(mark.job_id)
            if item is not None and item.version <= mark.version:
                self._backlog.drop(item)
                self.near.disarm(mark.job_id)

    # -- firing -----------------------------------------------------------------------------------------

    def is_armed(self, item: ArmedSchedule) -> bool:
        """Whether it is still the one that counts for its job."""
        return self.armed.get(item.job_id) is item

    def take_fresh(self) -> list[ArmedSchedule]:
        """What was due when its definition was read, since the last time; a higher priority first."""
        if not self._fresh:
            return []
        fresh, self._fresh = self._fresh, []
        fresh.sort(key=_by_priority)
        return [item for item in fresh if self.is_armed(item)]

    def wait(self, item: ArmedSchedule) -> None:
        """It is due, and stands in line; but not for longer than it has to start."""
        item.waited = True
        if item.unsettled or item.lane.recurring:  # of stored one-shots there are never many in memory
            self._pack(item, self._backlog)
        self._backlog.add(item, item.lane)
        if item.start_within is not None:
            self._wheel.add(item.due + item.start_within + 1, item)

    def expire(self, item: ArmedSchedule, now: Instant) -> None:
        """It stands in line, and a timer of it has run out: what is too late is missed, room or not."""
        if not item.waiting or not item.is_too_late(now):
            return
        self._backlog.drop(item)
        for _ in range(_AT_ONCE):
            if self._overdue.decide(item, now, now, most=1):
                self._all_decided(item, now)
                return
            if not item.is_too_late(now):
                break
        self._wait_again(item)

    def fire(self, item: ArmedSchedule, now: Instant) -> None:
        """An armed schedule has come due and has room."""
        if not self.is_armed(item):
            return
        if self._one_shots.queue(item, now):
            self.near.disarm(item.job_id)
        elif self._overdue.decide(item, now, now, most=1 if self._backlog else _AT_ONCE):
            self._all_decided(item, now)
        else:
            self._wait_again(item)

    def _all_decided(self, item: ArmedSchedule, now: Instant) -> None:
        self.near.disarm(item.job_id)
        if item.lane.recurring:
            self._move_on(item, now)

    def _wait_again(self, item: ArmedSchedule) -> None:
        """For its next fire, which is due, too."""
        if not item.hot:  # it has left the minute under which the index has it
            self._write_index(item)
        self.wait(item)

    # -- arming -----------------------------------------------------------------------------------------

    def _arm_one_shot(self, event: JobCreated, version: int, now: Instant) -> bool:
        """A new job that runs once and at once, or at a time that nothing else narrows. False: it is another."""
        schedule = event.spec.schedule
        if schedule.schedule_type == "IMMEDIATE":
            self._arm_now(event, version)
            return True
        time = None if schedule.max_fires is not None else plain_time(schedule)
        if time is None:
            return False
        since = min(event.at, time - 1)
        self._store(armed_for(event.job_id, version, event.spec, since=since, at=time), now)
        return True

    def _arm_now(self, event: JobEvent, version: int) -> None:
        """A job that is due as soon as its definition is accepted."""
        self._arm_unsettled(armed_for(event.job_id, version, event.spec, since=event.at, at=event.at))

    def _arm(self, event: JobEvent, version: int, after: Instant, now: Instant) -> None:
        """Find the next fire of a new definition, store it in the index, and arm it if it is near."""
        job_id, spec = event.job_id, event.spec
        if spec.schedule.schedule_type in _WITHOUT_CLOCK:
            return
        if self._overdue.exhausted(job_id, spec):
            self._end(job_id, version, f"max_fires of {spec.schedule.max_fires} reached", now)
            return
        first = arm_first(event, version, after) if type(event) is JobCreated else None
        item = first or arm_next(job_id, version, spec, since=after, after=after)
        if item is None:
            if spec.schedule.schedule_type in _RECURRING:
                self._end(job_id, version, "no further fire", now)
            elif isinstance(event, JobResumed):
                self._end(job_id, version, "its time passed while it was paused", now)
            return
        item.hot = first is None and _is_hot(item)
        item.paused = _pause_before(event)
        self._store(item, now)

    def _arm_unsettled(self, item: ArmedSchedule) -> None:
        """It is due already: decided in this pass, or it stands in line."""
        item.unsettled = True
        self.near.arm(item)
        if len(self._fresh) < _UNPACKED:
            self._fresh.append(item)
        else:
            self.wait(item)

    def _next_undecided(self, entry: IndexEntry) -> ArmedSchedule | None:
        """A stored entry, armed from where the log says that decisions stand."""
        spec, cursor = entry.spec, self._decisions.state.cursor
        if self._overdue.exhausted(entry.job_id, spec):
            return None
        mark = self._decisions.state.ahead.get(entry.job_id)
        slack = int(spec.schedule.jitter_seconds * SECOND)
        after = max(entry.since, cursor.time - slack, 0 if mark is None else mark[0])
        item = arm_next(entry.job_id, entry.version, spec, since=entry.since, after=after)
        decided = (cursor.time + 1, cursor.through)
        while item is not None and (item.due, item.version) <= decided:
            item = arm_next(entry.job_id, entry.version, spec, since=entry.since, after=item.scheduled)
        if item is None:
            return None
        last = item.compiled().previous(item.scheduled - 1) if item.lane.recurring else None
        item.after = entry.since if last is None else max(entry.since, last.scheduled)
        item.hot = _is_hot(item)
        return item

    def _move_on(self, item: ArmedSchedule, now: Instant) -> None:
        spec = item.unpack()
        if self._overdue.exhausted(item.job_id, spec):
            self._end(item.job_id, item.version, f"max_fires of {spec.schedule.max_fires} reached", now)
            self._leave_index(item)
            return
        following = arm_next(item.job_id, item.version, spec, since=item.since, after=item.after)
        if following is None:
            self._end(item.job_id, item.version, "no further fire", now)
            self._leave_index(item)
            return
        following.hot = _is_hot(following)
        if item.hot:
            if following.hot:
                self.near.arm(following)
                self._pack(following, self.armed)
                self._wheel.add(following.due, following)
                return
            self._leave_index(item)
        self._store(following, now)

    def _leave_index(self, item: ArmedSchedule) -> None:
        """A minute is purged when it has passed; a hot entry stays until it is removed."""
        if item.hot:
            self._decisions.open.obsolete_keys.append(self._hot_key(item))

    def _void(self, job_id: str, version: int, old: ArmedSchedule | None, now: Instant) -> None:
        """What the index has of the definition before. Of an earlier fire of it, too, as the log may not be as far."""
        filed: set[Instant] | None = None
        if old is not None:
            filed = set() if old.hot else set(filed_under(old))
            if old.hot:
                self._decisions.open.void_keys.append(self._hot_key(old))
            if old.lane.recurring:
                decided = self._decisions.state.cursor.time
                filed |= may_be_filed_under(job_id, old.unpack(), decided, now)
        void = VoidEntries(job_id, version, None if filed is None else frozenset(filed))
        self._decisions.open.void_entries.append(void)

    def _write_index(self, item: ArmedSchedule) -> bytes:
        entry = item.entry()
        if item.hot:
            self._decisions.open.hot[self._hot_key(item)] = entry
        else:
            raw = Raw(entry)
            version, recurring = item.version, item.lane.recurring
            self._decisions.open.index += [Filed(at, raw, version, recurring) for at in filed_under(item)]
        return entry

    def _hot_key(self, item: ArmedSchedule) -> str:
        return timing_hot(self._partition, item.job_id, item.version)

    def _store(self, item: ArmedSchedule, now: Instant) -> None:
        """Write a schedule to the index, and arm it if its fire is near. What is due already need not be written: until
        it is decided, its definition is read again by whoever takes over. But where it is hot, its next fires follow
        from the entry."""
        entry = b""
        if item.hot or item.due > now:
            entry = self._write_index(item)
        if item.due <= now:
            self._arm_unsettled(item)
            return
        if not self.near.is_near(item):
            return
        self.near.arm(item)
        self._pack(item, self.armed, entry)
        self._wheel.add(item.due, item)

    def _pack(
        self, item: ArmedSchedule, others: "Backlog | dict[str, ArmedSchedule]", entry: bytes = b""
    ) -> None:
        if len(others) >= _UNPACKED:
            item.pack(entry)

    def _end(self, job_id: str, version: int, reason: str, now: Instant) -> None:
        self._decisions.emit(ScheduleEnded(run_id=job_id, at=now, version=version, reason=reason))


def _by_priority(item: ArmedSchedule) -> int:
    return -item.lane.priority


def _is_hot(item: ArmedSchedule) -> bool:
    return item.lane.recurring and is_hot(item.compiled(), item.scheduled)


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
