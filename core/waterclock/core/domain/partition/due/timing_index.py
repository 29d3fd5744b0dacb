"""Where a schedule lives in the timing index.

A schedule has one entry. If it fires again within the horizon it is hot: `<p>.hot.0.<id>.<version>`, always in
memory, never rewritten. Otherwise it is in the minute of its next fire, read into memory shortly before. Entries of
minutes that have passed are purged whole, so a fire costs no delete.
"""

import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.schedule.fires import Fires
from waterclock.proto.codec import decoder
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobSpec

HORIZON = 2 * MINUTE


class IndexEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form."""

    job_id: str
    version: int
    spec: JobSpec
    since: Instant
    """Fires up to this instant are not this definition's to take; how far they are decided, the log's cursor says."""


def is_hot(fires: Fires, scheduled: Instant) -> bool:
    """Whether a schedule whose next fire is at `scheduled` fires again within the horizon."""
    following = fires.after(scheduled)
    return following is not None and following.scheduled - scheduled < HORIZON


encode_entry = msgspec.json.Encoder().encode
decode_entry = decoder(IndexEntry)
