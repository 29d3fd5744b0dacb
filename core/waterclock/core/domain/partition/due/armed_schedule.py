"""A schedule in memory: which fire is its next, when that is due, and how it is kept small while it waits."""

from msgspec import Struct

from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.partition.room import Lane, lane_of
from waterclock.core.domain.schedule.fires import Fires, is_plainly_sparse, jittered, only_time
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.timing_index import IndexEntry, decode_entry, encode_entry, is_hot
from waterclock.proto.events import Instant, JobCreated
from waterclock.proto.spec import JobSpec, Schedule

_LOG_BEHIND = 10 * MINUTE
"""Whoever takes over reads the index from where the log is, which may be so far behind the owner that was."""
_MOST_FIRES = 1_000
"""Looked at to find an entry. One that fires so often is hot, and found by its key."""


class ArmedSchedule(Struct, kw_only=True, gc=False):
    """A schedule in memory, armed for its next fire. Where there are many of them they are packed: what is known of the
    definition is then only its index entry, until it fires."""

    job_id: str
    version: int
    lane: Lane
    since: Instant
    after: Instant
    """Fires up to this instant are decided, or not this definition's to take."""
    scheduled: Instant
    due: Instant
    spec: JobSpec | None
    fires: Fires | None
    packed: bytes = b""
    hot: bool = False
    waiting: bool = False
    """It is due and in the backlog."""
    waited: bool = False
    """It is, or was."""
    start_within: int | None = None
    """How long after it is due it may start, in microseconds; None: at any time."""
    unsettled: bool = False
    """It was due when its definition was read, so nothing but the definition says that it is to be decided."""
    paused: tuple[Instant, Instant] | None = None
    """The pause it was resumed from, if what was missed in it is wanted."""

    def pack(self, entry: bytes = b"") -> None:
        """`entry`: of the index, if it is at hand."""
        if self.spec is None:
            return
        self.packed, self.spec, self.fires = entry or self.entry(), None, None

    def unpack(self) -> JobSpec:
        if self.spec is None:
            self.spec = decode_entry(self.packed).spec
            self.packed = b""
        return self.spec

    def compiled(self) -> Fires:
        """All its fires; of a one-shot nobody asks for them, but where it is bounded."""
        if self.fires is None:
            spec = self.unpack()
            self.fires = compile_schedule(spec.schedule, spec.name)
        return self.fires

    def entry(self) -> bytes:
        """As it stands in the timing index."""
        spec = self.unpack()
        return encode_entry(IndexEntry(job_id=self.job_id, version=self.version, spec=spec, since=self.since))

    def is_too_late(self, now: Instant) -> bool:
        """Whether its next fire must not start any more."""
        return self.start_within is not None and now > self.due + self.start_within

    def due_at(self, scheduled: Instant) -> Instant:
        """When the fire of that time is due: jitter puts it later."""
        spec = self.unpack()
        if not spec.schedule.jitter_seconds:
            return scheduled
        following = self.compiled().after(scheduled)
        return jittered(
            spec.schedule,
            run_id(self.job_id, scheduled),
            scheduled,
            None if following is None else following.scheduled,
        )


def arm_next(
    job_id: str, version: int, spec: JobSpec, *, since: Instant, after: Instant
) -> ArmedSchedule | None:
    """A schedule armed for its first fire after an instant; None: it has none. `since`: its earlier fires are not its
    own to take."""
    fires: Fires | None = None
    scheduled = plain_time(spec.schedule)
    if scheduled is None:
        fires = compile_schedule(spec.schedule, spec.name)
        fire = fires.after(after)
        if fire is None:
            return None
        scheduled = fire.scheduled
    elif scheduled <= after:
        return None
    item = ArmedSchedule(
        job_id=job_id,
        version=version,
        lane=lane_of(spec),
        since=since,
        after=after,
        scheduled=scheduled,
        due=scheduled,
        spec=spec,
        fires=fires,
        start_within=_start_within(spec),
    )
    if fires is not None:
        item.due = item.due_at(scheduled)
    return item


def arm_first(event: JobCreated, version: int, after: Instant) -> ArmedSchedule | None:
    """A new schedule armed for the fire that its definition names, if that is the first after an instant, nothing puts
    it off, and it is surely not hot. So it need not be compiled: most wait for a day or a year."""
    first, spec = event.first_fire, event.spec
    if (
        first is None
        or not event.at <= after < first
        or spec.schedule.jitter_seconds
        or not is_plainly_sparse(spec.schedule)
    ):
        return None
    return armed_for(event.job_id, version, spec, since=after, at=first)


def armed_for(job_id: str, version: int, spec: JobSpec, *, since: Instant, at: Instant) -> ArmedSchedule:
    """A schedule armed for a fire whose time is known, and is when it is due."""
    return ArmedSchedule(
        job_id=job_id,
        version=version,
        lane=lane_of(spec),
        since=since,
        after=since,
        scheduled=at,
        due=at,
        spec=spec,
        fires=None,
        start_within=_start_within(spec),
    )


def _start_within(spec: JobSpec) -> int | None:
    deadline = spec.start_deadline_seconds
    return None if deadline is None else int(deadline * SECOND)


def filed_under(item: ArmedSchedule) -> tuple[Instant, ...]:
    """The instants under which the index has it. Where jitter puts the fire into a later minute it is there, too: until
    then it is not decided, and whoever takes over begins to read at the minute that the log has reached."""
    if item.scheduled // MINUTE == item.due // MINUTE:
        return (item.due,)
    return (item.scheduled, item.due)


def may_be_filed_under(job_id: str, spec: JobSpec, decided: Instant, now: Instant) -> set[Instant]:
    """Where the entry of a definition that is not in memory may be: of a fire that may not be decided, or the first
    that is still to come."""
    after = decided - int(spec.schedule.jitter_seconds * SECOND) - _LOG_BEHIND
    found: set[Instant] = set()
    for _ in range(_MOST_FIRES):
        item = arm_next(job_id, 0, spec, since=0, after=after)
        if item is None:
            break
        if not item.lane.recurring or not is_hot(item.compiled(), item.scheduled):
            found.update(filed_under(item))
        if item.scheduled > max(now, decided):
            break
        after = item.scheduled
    return found


def plain_time(schedule: Schedule) -> Instant | None:
    """When a one-shot is due, where nothing but its time says so. None: its schedule has to be compiled."""
    return None if schedule.jitter_seconds else only_time(schedule)
