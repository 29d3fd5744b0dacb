"""One consumer of the work queue, as the puller sees it.

Room for attempts.
"""

import time
from collections.abc import Callable

from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.work import WorkItem


class Slots:
    """`free` is what may still be promised: neither in use, nor asked for and not yet arrived."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.promised = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.promised

    def fits(self, cost: int) -> bool:
        return self.used + cost <= self.total

    def cost_of(self, wanted: int) -> int:
        """What asks for more than there is gets all there is."""
        return max(1, min(wanted, self.total))


_WARM_SECONDS = 1.0


class Source:
    def __init__(self, route: str, tier: str, band: int, tiers_below: int) -> None:
        self.route = route
        self.tier = tier
        self.tiers_below = tiers_below
        self.lowest = names.BANDS[band]
        self.consumer = names.work_consumer(route, tier, band)
        self.subject = names.work_filter(route, tier, band)
        self.priority = self.lowest
        self.oldest_due: Instant | None = None
        self.last_served = 0.0
        self.pending = 0
        self.asked = 0
        """How many messages of the current ask are still to come."""
        self.quiet = False
        """Known to be empty. A hint will tell when that changes, or a look now and then."""
        self.hinted = False
        """Something was just published; it may not be stored yet."""
        self.end_listening: Callable[[], None] | None = None

    @property
    def is_warm(self) -> bool:
        """Nothing more is there now, but something was a moment ago."""
        return self.pending == 0 and time.monotonic() - self.last_served < _WARM_SECONDS

    def saw(self, item: WorkItem) -> None:
        """The item is at the head of the line."""
        self.priority = item.spec.priority
        self.oldest_due = item.due

    def served(self, item: WorkItem) -> None:
        """The item was at the head of the line. The next is probably like it, but how old it is is not known."""
        self.priority = item.spec.priority
        self.oldest_due = None

    def is_empty(self) -> None:
        self.pending = 0
        self.priority = self.lowest
        self.oldest_due = None
