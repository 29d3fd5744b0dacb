"""A schedule in memory: which fire is its next, when that is due, and how it is kept small while it waits."""

from msgspec import Struct

from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.due.timing_index import IndexEntry, decode_entry, encode_entry
from waterclock.core.domain.partition.room import Lane, lane_of
from waterclock.core.domain.schedule.fires import Fires, jittered
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.events import Instant
from waterclock.proto.names import timing_bucket, timing_hot
from waterclock.proto.spec import JobSpec


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
    unsettled: bool = False
    """It was due when its definition was read, so nothing but the definition says that it is to be decided."""
    paused: tuple[Instant, Instant] | None = None
    """The pause it was resumed from, if what was missed in it is wanted."""

    def pack(self, entry: bytes = b"") -> None:
        """`entry`: of the index, if it is at hand."""
        self.packed, self.spec, self.fires = entry or self.entry(), None, None

    def unpack(self) -> tuple[JobSpec, Fires]:
        if self.spec is None:
            self.spec = decode_entry(self.packed).spec
            self.packed = b""
        if self.fires is None:
            self.fires = compile_schedule(self.spec.schedule, self.spec.name)
        return self.spec, self.fires

    def entry(self) -> bytes:
        """As it stands in the timing index."""
        spec, _ = self.unpack()
        return encode_entry(IndexEntry(job_id=self.job_id, version=self.version, spec=spec, since=self.since))

    def key(self, partition: int) -> str:
        """Where it stands there."""
        if self.hot:
            return timing_hot(partition, self.job_id, self.version)
        return timing_bucket(partition, self.scheduled // MINUTE, self.job_id, self.version)

    def due_at(self, scheduled: Instant) -> Instant:
        """When the fire of that time is due: jitter puts it later."""
        spec, fires = self.unpack()
        if not spec.schedule.jitter_seconds:
            return scheduled
        following = fires.after(scheduled)
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
    item.due = item.due_at(fire.scheduled)
    return item
