"""Where a schedule lives in the timing index.

A schedule has one entry. If it fires again within the horizon it is hot: `<p>.hot.0.<id>.<version>`, always in
memory, never rewritten. Otherwise it is in the minute of its next fire, read into memory shortly before. Entries of
minutes that have passed are purged whole, so a fire costs no delete.
"""

import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.room import Lane
from waterclock.core.domain.schedule.fires import Fires
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.events import Instant
from waterclock.proto.names import timing_bucket, timing_hot
from waterclock.proto.spec import JobSpec

HORIZON = 2 * MINUTE


class IndexEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form."""

    job_id: str
    version: int
    spec: JobSpec
    since: Instant
    """Fires up to this instant are not this definition's to take; how far they are decided, the log's cursor says."""


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

    def pack(self, entry: bytes) -> None:
        self.packed, self.spec, self.fires = entry, None, None

    def unpack(self) -> tuple[JobSpec, Fires]:
        if self.spec is None:
            self.spec = decode_entry(self.packed).spec
            self.packed = b""
        if self.fires is None:
            self.fires = compile_schedule(self.spec.schedule, self.spec.name)
        return self.spec, self.fires


def is_hot(fires: Fires, scheduled: Instant) -> bool:
    """Whether a schedule whose next fire is at `scheduled` fires again within the horizon."""
    following = fires.after(scheduled)
    return following is not None and following.scheduled - scheduled < HORIZON


def key_of(partition: int, item: ArmedSchedule) -> str:
    if item.hot:
        return timing_hot(partition, item.job_id, item.version)
    return timing_bucket(partition, item.scheduled // MINUTE, item.job_id, item.version)


encode_entry = msgspec.json.Encoder().encode
decode_entry = msgspec.json.Decoder(IndexEntry).decode
