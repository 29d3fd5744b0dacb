"""The consumers of the work queue that an executor pulls from, and what is known about the work behind each."""

import time
from collections.abc import Callable, Iterable, Sequence

from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.work import WorkItem

_WARM_SECONDS = 1.0
_STORED_SECONDS = 0.05
"""So long after it was published, work is in the queue; or somebody else has it."""


def sources_of(routes: Iterable[str], tier: str) -> list["Source"]:
    """A route's work of this tier and of every lower one, never of a higher: the lines that are always there."""
    own = names.TIERS.index(tier)
    return [
        Source(route, lower, names.ALWAYS, own - index)
        for route in routes
        for index, lower in enumerate(names.TIERS[: own + 1])
    ]


class Source:
    """One consumer: of a route, tier and line."""

    def __init__(self, route: str, tier: str, line: str, tiers_below: int) -> None:
        self.route = route
        self.tier = tier
        self.line = line
        self.tiers_below = tiers_below
        self.lowest = names.priority_of(line)
        self.consumer = names.work_consumer(route, tier, line)
        self.subject = names.work_filter(route, tier, line)
        self.priority = self.lowest
        self.oldest_due: Instant | None = None
        self.last_served = 0.0
        self.pending = 0
        self.requested = 0
        """How many messages of the current pull are still to come."""
        self.per_message = 1
        """How many attempts are in one, by the last that came."""
        self.promised = 1
        """The same, when the current pull was made."""
        self.quiet = False
        """Known to be empty. A hint tells when that changes; and every source is pulled from now and then."""
        self.hinted_at: float | None = None
        """When something was published that has not come; at first it may not be stored yet."""
        self.was_tried = False
        """It was asked since."""
        self.expected = True
        """It may hold something: it was not just found empty."""
        self.is_decisive = False
        """Its current pull is answered at once, and until then it is not known whether a lower one has its turn."""
        self.end_listening: Callable[[], None] | None = None

    @property
    def is_warm(self) -> bool:
        """Nothing more is there now, but something was a moment ago."""
        return self.pending == 0 and time.monotonic() - self.last_served < _WARM_SECONDS

    @property
    def was_just_hinted(self) -> bool:
        return self.hinted_at is not None and time.monotonic() - self.hinted_at < _STORED_SECONDS

    def head_is(self, item: WorkItem) -> None:
        """The item is the next that this source will deliver."""
        self.priority = item.spec.priority
        self.oldest_due = item.due

    def brought(self, items: Sequence[WorkItem]) -> None:
        """These were delivered. The next probably has their priority; how old the next is is not known."""
        self.priority = items[0].spec.priority
        self.oldest_due = None
        count = len(items)
        self.per_message = count if count > self.per_message else (3 * self.per_message + count) // 4

    def is_empty(self) -> None:
        self.pending = 0
        self.expected = False
        self.priority = self.lowest
        self.oldest_due = None
