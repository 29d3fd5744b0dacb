"""One moment at which a schedule fires."""

from typing import Literal

from msgspec import Struct

Note = Literal["dst_gap", "dst_overlap"]


class Fire(Struct, frozen=True, gc=False):
    scheduled: int
    note: Note | None = None
    """The daylight-saving rule that had a say in this fire.

    `dst_gap`: a local time that did not exist was moved to this instant (also if the schedule fires then anyway).
    `dst_overlap`: the local time comes twice, and this is the one that counts or one of both. A cron whose hour
    is a wildcard follows elapsed time, under neither rule: its fires carry no note.
    """
