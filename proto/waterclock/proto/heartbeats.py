"""What the components put into the control bucket about themselves.

An entry expires soon after its instance stops renewing it. Every field of the executor's has a default, because
alerts and tables are to get by with what an older executor wrote.

Whoever reads one reads what another process wrote: by `read_heartbeat`, to which a figure that cannot be is no figure.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from waterclock.proto.events import Instant
from waterclock.proto.verdicts import InstanceState

Count = Annotated[int, Meta(ge=0, le=10**12)]
Amount = Annotated[float, Meta(ge=0, le=10**12)]
"""Of seconds, or a second."""
Moment = Annotated[Instant, Meta(ge=-62_135_596_800_000_000, le=253_402_300_799_999_999)]
"""Of a year that a calendar has."""
Names = Annotated[list[str], Meta(max_length=10_000)]

DRAIN_LIMIT_SECONDS = 10.0
"""Above this, callers are slowed down to what is done."""
_SLOWEST = 500.0
"""Runs a second that any system is taken to do: a few thousand jobs that have just come in, or a rate measured while
there was little to do, are no reason to refuse anybody."""
MOST_CROWDED = 100

_MOST_ROUTES = 10_000
"""That one executor can serve. Each is a consumer for each tier and priority: nobody has a hundredth of it."""


class PartitionStatus(Struct, frozen=True, kw_only=True):
    partition: Count
    token: Count
    jobs_cursor: Count
    time_cursor: Moment
    active_runs: Count
    armed: Count
    lag_seconds: Amount
    backlog: Count = 0
    """Fires that are due and not yet decided: there is no room for them among the executors."""
    unread: Count = 0
    """Definitions that are in the log and have not been read."""
    settled: Annotated[int, Meta(ge=-1, le=10**12)] = -1
    """As in the cursor of a frame. -1: a scheduler that does not say."""
    waits_since: Moment | None = None
    """When the first was due of what is not decided, whatever it waits for. None: nothing waits."""


class SchedulerHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str
    host: str
    pid: Count
    started_at: Moment
    at: Moment
    state: InstanceState
    partitions: list[PartitionStatus]
    load: "SchedulerLoad | None" = None
    """None: a scheduler that does not say."""
    due: Annotated[dict[str, Count], Meta(max_length=10_000)] = {}
    """What is due and not decided, by the work queue that it has no room in; the longest ones."""
    packed: Annotated[dict[str, Count], Meta(max_length=10_000)] = {}
    """How many more runs than messages there are in a work queue, where several travel in one."""
    unserved: Annotated[dict[str, Count], Meta(max_length=10_000)] = {}
    """What is queued in work queues of which no executor takes work, as far as is known here; the longest ones. A queue
    that nobody ever served has no consumer, and the broker does not count it."""
    failing: Annotated[list[Count], Meta(max_length=4096)] = []
    """Partitions that have failed again and again lately, and were rebuilt each time."""


class SchedulerLoad(Struct, frozen=True, kw_only=True):
    """How far behind a scheduler is, over all of its partitions."""

    to_drain: Count = 0
    """What is to be done before it is on time again: definitions unread, and fires due and not decided. Not what waits
    for the slots of slow work: that is a queue, and no lack of the scheduler."""
    ended_per_second: Amount = 0.0
    """How many runs a second end while there is a backlog: what it can do. Without a backlog what it could at last."""
    behind_seconds: Amount = 0.0
    """The age of the oldest fire that is due and not decided."""
    saturated_since: Moment | None = None
    """Since when draining takes longer than the limit."""

    crowded: Annotated[dict[str, Count], Meta(max_length=MOST_CROWDED)] = {}
    """Namespaces of which so much is due and waits for the slots of slow work that no more is accepted: how much."""


def drain_seconds(to_drain: int, ended_per_second: float) -> float:
    """How long it takes to be on time again."""
    return to_drain / max(ended_per_second, _SLOWEST)


class ApiHeartbeat(Struct, frozen=True, kw_only=True):
    """Only while an api slows callers down: then several of them share what may be accepted."""

    instance: str
    at: Moment
    accepted_per_second: Amount = 0.0


class Progress(Struct, frozen=True, kw_only=True):
    """How far an attempt says it has come."""

    done: float
    """From 0 to 1."""
    note: str = ""


class ExecutorHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str = ""
    host: str = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    tier: str = "heavy"
    queues: Names = []
    handlers: Names = []
    slots: Annotated[int, Meta(ge=0, le=10**6)] = 0
    used: Annotated[int, Meta(ge=0, le=10**6)] = 0
    running: Names = []
    """Run ids; the first few hundred."""
    more: bool = False
    """It runs more than it lists."""
    progress: dict[str, Progress] = {}
    """Of the listed runs that have reported any."""
    parcels: Names = []
    """Handlers that it takes many attempts of in one message. An executor of the version before takes none."""
    lines: bool = False
    """It takes work from the lines of exactly one priority. An executor of the version before does not."""
    state: InstanceState = "running"
    started_at: Moment = 0
    at: Moment = 0
    protections: Annotated[dict[str, str], Meta(max_length=100)] = {}
    """What protects its machine from jobs: each with nothing, or with why it does not. Empty for one that runs none,
    and for one of the version before."""


class ProjectorHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str
    host: str
    pid: int
    started_at: Instant
    at: Instant
    partitions: list[int]


H = TypeVar("H", bound=Struct)


def read_heartbeat(value: bytes, kind: type[H]) -> H | None:
    """None: it cannot be read, or says what cannot be. Who wrote it may be of another version, or mean harm: it counts
    for nothing, and ends no reader."""
    if b"\\u0000" in value:
        return None  # no name has that, and Postgres takes no text with it
    try:
        found = msgspec.json.decode(value, type=kind)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors; so is what is not UTF-8
        return None
    if isinstance(found, ExecutorHeartbeat) and len(found.queues) * (1 + len(found.handlers)) > _MOST_ROUTES:
        return None
    return found
