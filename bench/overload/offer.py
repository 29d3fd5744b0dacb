"""What a crowd of callers is to offer, and what it was answered: both cross to a process of their own as JSON."""

from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from bench.jobs import PAYLOAD, at, immediate

Way = Literal["rest", "nats", "single"]
Kind = Literal["immediate", "spread", "recurring", "herd"]

_HOURLY = 10
"""One of so many recurring jobs is of every hour, the others are of every day."""


class Offer(Struct, frozen=True, kw_only=True):
    data: str
    """The data directory of the installation: it says where to call."""
    way: Way = "nats"
    """`rest` and `nats` send batches; `single` sends one job a request, over REST."""
    kind: Kind = "immediate"
    begin: float
    """Since the epoch."""
    seconds: float
    rate: float = 0.0
    """Jobs a second; 0: as fast as they are accepted."""
    count: int = 0
    """So many jobs and no more; 0: what the time allows."""
    callers: int = 16
    batch: int = 500
    token: str | None = None
    """Of a namespace; None: the administrator's."""
    patience: float = 5.0
    """So long after the end an answer is still waited for: who is accepted only then is no part of the flood."""
    first_fire: float = 0.0
    last_fire: float = 0.0
    every: int = 0
    """Of a herd: fires from the first to before the last, each job every so many seconds."""

    def job(self, number: int, now: float) -> dict[str, Any]:
        match self.kind:
            case "immediate":
                return immediate()
            case "spread":
                return at(max(now, self.first_fire + number / self.rate))
            case "recurring":
                return recurring(number)
            case "herd":
                return self._of_herd(number)

    @property
    def first_due(self) -> float:
        return self.begin if self.kind == "immediate" else self.first_fire

    @property
    def due_seconds(self) -> float:
        """From the first that is due to the last."""
        return self.last_fire - self.first_fire if self.kind == "herd" else self.seconds

    def runs(self, accepted: int) -> int:
        """How many runs so many jobs make."""
        return sum(map(self.fires, range(accepted))) if self.kind == "herd" else accepted

    def fires(self, number: int) -> int:
        """How often a job of a herd fires, unless it is stored too late."""
        return len(range(number % self.every, round(self.last_fire - self.first_fire), self.every))

    def _of_herd(self, number: int) -> dict[str, Any]:
        first = datetime.fromtimestamp(self.first_fire + number % self.every, UTC)
        return {
            "name": "noop",
            "job_type": "noop",
            "every": f"{self.every}s",
            "start_at": first.isoformat(),
            "end_at": datetime.fromtimestamp(self.last_fire, UTC).isoformat(),
            "overlap": "allow",
            "payload": PAYLOAD,
        }


class Answers(Struct, frozen=True, kw_only=True):
    offered: int
    """Jobs that were sent, each counted once however often it was sent again."""
    accepted: int
    """Jobs."""
    turned_away: int
    """Jobs that were refused until the end."""
    unanswered: int
    """Jobs whose last request had no answer: they may be there or not."""
    answers_accepted: int
    """Requests."""
    answers_503: int
    answers_other: int
    others: dict[str, int]
    """Answers that are neither, by what they said."""
    accepted_p50_ms: float | None
    accepted_p99_ms: float | None
    """From the first try of a request to its acceptance, waiting as told included."""
    seconds: float
    """Until the last answer."""


def recurring(number: int) -> dict[str, Any]:
    """Of every hour or of every day: a few of millions are due while the others are stored."""
    minute, hour = number // _HOURLY % 60, number // _HOURLY // 60 % 24
    cron = f"{minute} * * * *" if number % _HOURLY == 0 else f"{minute} {hour} * * *"
    return {
        "name": "noop",
        "job_type": "noop",
        "cron_expression": cron,
        "overlap": "allow",
        "payload": PAYLOAD,
    }
