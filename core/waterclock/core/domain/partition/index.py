"""Where a schedule lives in the timing index.

A schedule has one entry. If it fires again within the horizon it is hot: `<p>.hot.<id>`, always in memory, never
rewritten. Otherwise it is in the minute of its next fire, read into memory shortly before. Entries of minutes that
have passed are purged whole, so a fire costs no delete.
"""

import msgspec
from msgspec import Struct

from waterclock.core.domain.schedule.fires import Fires
from waterclock.proto.events import Instant
from waterclock.proto.names import timing_bucket, timing_hot
from waterclock.proto.spec import JobSpec

MINUTE = 60_000_000
HORIZON = 2 * MINUTE


class IndexEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form."""

    job_id: str
    version: int
    spec: JobSpec
    after: Instant
    """Fires up to this instant are decided, or not this definition's to take."""


class Scheduled(Struct, kw_only=True):
    """A schedule in memory, armed for its next fire."""

    job_id: str
    version: int
    spec: JobSpec
    fires: Fires
    after: Instant
    scheduled: Instant
    due: Instant
    key: str = ""
    hot: bool = False


def place(partition: int, job_id: str, fires: Fires, scheduled: Instant) -> tuple[str, bool]:
    """The key of a schedule whose next fire is at `scheduled`, and whether it is hot."""
    following = fires.after(scheduled)
    if following is not None and following.scheduled - scheduled < HORIZON:
        return timing_hot(partition, job_id), True
    return timing_bucket(partition, scheduled // MINUTE, job_id), False


encode_entry = msgspec.json.Encoder().encode
decode_entry = msgspec.json.Decoder(IndexEntry).decode
