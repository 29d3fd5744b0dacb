"""The schedules of a partition that are near: armed in the wheel, fired, and moved on in the index."""

from collections.abc import Iterable

from waterclock.core.domain import ids
from waterclock.core.domain.partition.catch_up import GRACE, CatchUpDecision, decide_catch_up
from waterclock.core.domain.partition.index import IndexEntry, Scheduled, encode_entry, place
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.overlap import decide_overlap
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.schedule.fires import jittered
from waterclock.core.domain.wheel import Wheel
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunSkipped,
    RunsMissed,
    RunWaiting,
    ScheduleEnded,
    Trigger,
)
from waterclock.proto.spec import JobSpec

_SECOND = 1_000_000
_RECURRING = ("CRON", "INTERVAL")


class Schedules:
    def __init__(self, partition: int, ledger: Ledger, wheel: Wheel[Scheduled | Run]) -> None:
        self._partition = partition
        self._ledger = ledger
        self._wheel = wheel
        self.armed: dict[str, Scheduled] = {}
        self.loaded_until: Instant = 0
        """The index is in memory up to this instant."""

    # -- definitions ------------------------------------------------------------------------------------

    def define(self, event: JobEvent, version: int, now: Instant) -> None:
        """Take a change of a definition. What the old one had due until then is still its own."""
        job_id, spec = event.job_id, event.spec
        old = self.armed.pop(job_id, None)
        if old is not None and old.scheduled <= event.at:
            self._fire_until(old, min(event.at, now), now)
        if not isinstance(event, JobCreated) and spec.schedule.schedule_type not in (
            "IMMEDIATE",
            "DEPENDENT",
        ):
            self._ledger.open.forgotten.append(job_id)
        match event:
            case JobCreated():
                self._ledger.learn(job_id, version, spec)
                if spec.schedule.schedule_type == "IMMEDIATE":
                    self._take(job_id, version, spec, event.at, event.at, now)
                else:
                    self._arm(job_id, version, spec, self._born(spec, event.at), now)
            case JobUpdated(paused_at=None):
                self._arm(job_id, version, spec, event.at, now)
            case JobResumed():
                after = event.at if event.missed_since is None else event.missed_since
                self._arm(job_id, version, spec, after, now)
            case JobUpdated() | JobPaused() | JobCancelled():
                pass

    def load(self, entries: Iterable[IndexEntry], until: Instant, now: Instant) -> None:
        """Take entries read from the index, which is then in memory up to `until`."""
        cursor = self._ledger.state.cursor
        for entry in entries:
            known = self.armed.get(entry.job_id)
            if entry.version > cursor.jobs or (known is not None and known.version >= entry.version):
                continue
            self._rearm(entry, cursor.time, now)
        self.loaded_until = max(self.loaded_until, until)

    # -- firing -----------------------------------------------------------------------------------------

    def fire(self, item: Scheduled, now: Instant) -> None:
        """An armed schedule has come due."""
        if self.armed.get(item.job_id) is not item:
            return
        del self.armed[item.job_id]
        self._fire_until(item, now, now)
        if item.spec.schedule.schedule_type in _RECURRING:
            self._move_on(item, now)

    def _fire_until(self, item: Scheduled, until: Instant, now: Instant) -> None:
        """Decide every fire of an armed schedule up to `until`, and leave `after` at what was decided."""
        following = item.fires.after(item.scheduled)
        single = following is None or following.scheduled > until
        if item.spec.schedule.schedule_type not in _RECURRING or (single and now - item.due <= GRACE):
            item.after = item.scheduled
            self._take(item.job_id, item.version, item.spec, item.scheduled, item.due, now)
            return
        decision = decide_catch_up(item.fires, item.scheduled - 1, until, item.spec.catch_up, now)
        item.after = until
        self._catch_up(item, decision, now)

    def _catch_up(self, item: Scheduled, decision: CatchUpDecision, now: Instant) -> None:
        for missed in decision.missed:
            self._ledger.emit(
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
            self._take(item.job_id, item.version, item.spec, scheduled, scheduled, now, decision.caught_up)

    def _take(
        self,
        job_id: str,
        version: int,
        spec: JobSpec,
        scheduled: Instant,
        due: Instant,
        now: Instant,
        caught_up: bool = False,
    ) -> None:
        """Decide one fire: queue it, let it wait, or say why not."""
        ledger = self._ledger
        trigger: Trigger = "catch_up" if caught_up else "schedule"
        run_id = ids.run_id(job_id, scheduled)
        if run_id in ledger.state.runs:
            return
        if spec.start_deadline_seconds is not None and now - due > spec.start_deadline_seconds * _SECOND:
            reason = f"start deadline of {spec.start_deadline_seconds:g} s passed"
            ledger.emit(
                RunsMissed(
                    run_id=run_id,
                    at=now,
                    version=version,
                    scheduled=scheduled,
                    until=scheduled,
                    count=1,
                    reason=reason,
                )
            )
            return
        number: int | None = None
        if (limit := spec.schedule.max_fires) is not None:
            number = ledger.state.taken.get(job_id, 0) + 1
            if number > limit:
                return
        overlap = decide_overlap(spec.overlap, ledger.active(job_id), caught_up)
        if overlap.verdict == "skip":
            ledger.emit(
                RunSkipped(
                    run_id=run_id,
                    at=now,
                    version=version,
                    scheduled=scheduled,
                    due=due,
                    reason=overlap.reason,
                    because_of=overlap.because_of,
                )
            )
            return
        for other in overlap.terminate:
            ledger.cancel(ledger.state.runs[other], f"terminated for {run_id}", now, at_once=True)
        for other in overlap.cancel:
            ledger.cancel(ledger.state.runs[other], f"cancelled for {run_id}", now)
        if overlap.verdict == "wait" and ledger.active(job_id):
            ledger.emit(
                RunWaiting(
                    run_id=run_id,
                    at=now,
                    version=version,
                    scheduled=scheduled,
                    due=due,
                    reason=overlap.reason,
                    trigger=trigger,
                    fire=number,
                )
            )
            return
        ledger.queue(
            run_id, version, spec, scheduled=scheduled, due=due, now=now, trigger=trigger, fire=number
        )

    # -- arming -----------------------------------------------------------------------------------------

    def _born(self, spec: JobSpec, at: Instant) -> Instant:
        """From when a new definition's fires count: a one-shot whose time has passed still fires, at once."""
        if spec.schedule.schedule_time is not None:
            return min(at, _micros(spec) - 1)
        return at

    def _arm(self, job_id: str, version: int, spec: JobSpec, after: Instant, now: Instant) -> None:
        """Find the next fire of a new definition, store it in the index, and arm it if it is near."""
        if spec.schedule.schedule_type in ("IMMEDIATE", "DEPENDENT"):
            return
        self._ledger.learn(job_id, version, spec)
        item = self._next(job_id, version, spec, after)
        if item is None:
            if spec.schedule.schedule_type in _RECURRING:
                self._end(job_id, version, "no further fire", now)
            return
        self._store(item, now)

    def _rearm(self, entry: IndexEntry, decided: Instant, now: Instant) -> None:
        """Arm a stored entry from where the log says that decisions stand."""
        spec = entry.spec
        slack = int(spec.schedule.jitter_seconds * _SECOND)
        after = max(entry.after, decided - slack)
        item = self._next(entry.job_id, entry.version, spec, after)
        while item is not None and item.due <= decided and item.scheduled > entry.after:
            item = self._next(entry.job_id, entry.version, spec, item.scheduled)
        if item is None:
            return
        item.key, item.hot = place(self._partition, item.job_id, item.fires, item.scheduled)
        self._ledger.learn(entry.job_id, entry.version, spec)
        self.armed[item.job_id] = item
        self._wheel.add(item.due, item)

    def _move_on(self, item: Scheduled, now: Instant) -> None:
        spec = item.spec
        limit = spec.schedule.max_fires
        if limit is not None and self._ledger.state.taken.get(item.job_id, 0) >= limit:
            self._end(item.job_id, item.version, f"max_fires of {limit} reached", now)
            self._ledger.open.forgotten.append(item.job_id)
            return
        following = self._next(item.job_id, item.version, spec, item.after)
        if following is None:
            self._end(item.job_id, item.version, "no further fire", now)
            self._ledger.open.forgotten.append(item.job_id)
            return
        if item.hot:
            following.key, following.hot = place(
                self._partition, following.job_id, following.fires, following.scheduled
            )
            if following.hot:
                self.armed[item.job_id] = following
                self._wheel.add(following.due, following)
                return
            self._ledger.open.index[item.key] = None
        self._store(following, now)

    def _store(self, item: Scheduled, now: Instant) -> None:
        item.key, item.hot = place(self._partition, item.job_id, item.fires, item.scheduled)
        if item.hot or item.due > now or item.scheduled >= self.loaded_until:
            entry = IndexEntry(job_id=item.job_id, version=item.version, spec=item.spec, after=item.after)
            self._ledger.open.index[item.key] = encode_entry(entry)
        if item.hot or item.scheduled < self.loaded_until:
            self.armed[item.job_id] = item
            self._wheel.add(item.due, item)

    def _next(self, job_id: str, version: int, spec: JobSpec, after: Instant) -> Scheduled | None:
        fires = compile_schedule(spec.schedule, spec.name)
        fire = fires.after(after)
        if fire is None:
            return None
        due = fire.scheduled
        if spec.schedule.jitter_seconds:
            following = fires.after(fire.scheduled)
            due = jittered(
                spec.schedule,
                ids.run_id(job_id, fire.scheduled),
                fire.scheduled,
                None if following is None else following.scheduled,
            )
        return Scheduled(
            job_id=job_id,
            version=version,
            spec=spec,
            fires=fires,
            after=after,
            scheduled=fire.scheduled,
            due=due,
        )

    def _end(self, job_id: str, version: int, reason: str, now: Instant) -> None:
        self._ledger.emit(ScheduleEnded(run_id=job_id, at=now, version=version, reason=reason))


def _micros(spec: JobSpec) -> Instant:
    time = spec.schedule.schedule_time
    assert time is not None
    return int(time.timestamp()) * _SECOND + time.microsecond
