"""One moment at which a schedule fires, and the error for a schedule that makes no sense."""

from typing import Literal

from msgspec import Struct


class InvalidSchedule(ValueError):
    """Names the field of the schedule and what is wrong with it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


Note = Literal["dst_gap", "dst_overlap"]


class Fire(Struct, frozen=True, gc=False):
    scheduled: int
    note: Note | None = None
    """The daylight-saving rule that had a say in this fire.

    `dst_gap`: a local time that did not exist was moved to this instant (also if the schedule fires then anyway).
    `dst_overlap`: the local time comes twice, and this is the one that counts or one of both. A cron whose hour
    is a wildcard follows elapsed time, under neither rule: its fires carry no note.
    """
