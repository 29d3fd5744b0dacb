"""What was seen from outside while a fault lasted: the one thing that the checkers judge."""

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

Kind = Literal["command", "handler", "http", "delayed", "retrying", "exactly_once", "interval", "cron"]
ENDED = ("SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED")


class Submitted(Struct, kw_only=True):
    """A job the client asked for. Until it is answered nobody knows whether it exists."""

    job_id: str
    kind: Kind
    asked: float
    accepted: float | None = None


class Held(Struct, kw_only=True):
    """An attempt that told the store it was at work, for as long as its connection to it lasted."""

    run_id: str
    attempt: int
    token: int
    began: float
    ended: float | None = None


class Effect(Struct, frozen=True, kw_only=True):
    """Something an attempt did to the world outside."""

    key: str
    kind: Kind
    token: int | None
    taken: bool
    """Whether the store took it: the key was new, and no later token had been seen for it."""
    at: float


class Outcome(Struct, frozen=True, kw_only=True):
    """A run as the API tells it."""

    run_id: str
    job_id: str
    status: str
    attempts: int = 0


class Leftovers(Struct, frozen=True, kw_only=True):
    """What is there when everything has ended."""

    queued: int = 0
    """Messages in the work queue."""
    unacked: int = 0
    leases: int = 0
    """Of exactly-once runs."""
    slots: int = 0
    processes: tuple[str, ...] = ()


class Memory(Struct, frozen=True, kw_only=True):
    process: str
    before_mb: float
    after_mb: float


class History(Struct, kw_only=True):
    submitted: list[Submitted] = []
    held: list[Held] = []
    effects: list[Effect] = []
    outcomes: list[Outcome] = []
    audit: list[str] = []
    """What `waterclock audit` complains of."""
    disagreements: list[str] = []
    """What `waterclock doctor --all` complains of: two doors that do not say the same."""
    leftovers: Leftovers = Leftovers()
    memory: list[Memory] = []

    def accepted(self) -> list[Submitted]:
        return [job for job in self.submitted if job.accepted is not None]

    def kind_of(self, job_id: str) -> Kind:
        return next(job.kind for job in self.submitted if job.job_id == job_id)

    def json(self) -> bytes:
        return msgspec.json.encode(self)


def by_key(effects: Iterable[Effect]) -> dict[str, list[Effect]]:
    found: dict[str, list[Effect]] = {}
    for effect in effects:
        found.setdefault(effect.key, []).append(effect)
    return found
