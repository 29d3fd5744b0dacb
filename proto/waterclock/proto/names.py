"""Every stream, bucket and subject name, and how ids map to partitions. Nothing else spells one."""

import re
from bisect import bisect_right
from zlib import crc32

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""What a user may choose as an id. `~` and `@` are ours: `<frame>~<n>`, `<workflow>~<node>`, `<job>@<time>`."""

_ID = re.compile(ID_PATTERN)

JOBS = "JOBS"
RUNS = "RUNS"
WORK = "WORK"
TIMING = "timing"
CONTROL = "control"
ARTIFACTS = "artifacts"
LOGS = "logs"
SECRETS = "secrets"
ACCESS = "ACCESS"
JETSTREAM_API = "$JS.API"
EXECUTORS_API = "wc.api"
"""The same for executors. Under its own name they have it too, but from an account without streams."""

QUARANTINE = "QUARANTINE"
"""What could not be read, copied out of the other streams."""

ALERTS_KEY = "alerts.state"
"""In the control bucket: how far alerts have read, and what they have still to tell."""

HANDOVER = "wc.handover"
"""A hint among schedulers that a lease was released. Nothing depends on it."""

FRESHNESS_WANTED = "wc.fresh"
"""A hint to the projectors that somebody waits for what is in the log already. Without it they only take longer."""

SERVICE = "waterclock"
SERVICE_PREFIX = "waterclock.v1"

BANDS = (0, 1, 10, 50, 90)
"""The lowest priority of each range of them that had one line, in the first releases. The first has only 0 in it."""
HIGHEST_PRIORITY = 100

LINES_MADE = "wc.lines"
"""A hint to executors that there are new lines to take work from, with the names of their consumers. Without it they
learn of them when they ask the next time."""

TIERS = ("light", "medium", "heavy")


def is_user_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def is_route(text: str) -> bool:
    queue, equals, handler = text.partition("=")
    return is_user_id(queue) and (not equals or is_user_id(handler))


def partition_of(job_id: str, partitions: int) -> int:
    """The partition of a job, or of anything named after one: members, nodes and runs stay with their owner."""
    root = job_id.partition("@")[0].partition("~")[0]
    return crc32(root.encode()) % partitions


def job_subject(partition: int, job_id: str) -> str:
    return f"wc.jobs.{partition}.{job_id}"


def jobs_of_partition(partition: int | str = "*") -> str:
    return f"wc.jobs.{partition}.>" if partition != "*" else "wc.jobs.>"


def runs_subject(partition: int | str = "*") -> str:
    return f"wc.runs.{partition}"


def lease_subject(partition: int | str = "*") -> str:
    return f"wc.lease.{partition}"


def line_of(priority: int, exact: bool) -> str:
    """The line of a route and tier in which work of a priority waits. Each priority has one; but not in the first
    releases, whose work may still be there, nor where it is taken by an executor of those."""
    if not priority:
        return "0"
    return f"p{priority}" if exact and priority > 0 else str(max(0, bisect_right(BANDS, priority) - 1))


ALWAYS = line_of(0, True)
"""The line that is there as soon as somebody serves a route. The others are made when there is work for them."""
LINES = (*(str(band) for band in range(len(BANDS))), *(f"p{n}" for n in range(1, HIGHEST_PRIORITY + 1)))
_PRIORITIES = {line: BANDS[int(line)] if line.isdigit() else int(line[1:]) for line in LINES}


def is_line(text: str) -> bool:
    return text in _PRIORITIES


def priority_of(line: str) -> int:
    """The lowest priority that waits there, which is the only one unless it is a line of the first releases."""
    return _PRIORITIES[line]


def work_line(route: str, tier: str, line: str) -> str:
    """Where the work of one consumer stands in line."""
    return f"wc.work.{route}.{tier}.{line}"


def work_in(line: str, run_id: str, queued: int) -> str:
    """One subject for each time an attempt is queued, so that the queue can refuse the same one twice."""
    return f"{line}.{run_id}.{queued}"


def parcel_in(line: str, run_id: str, queued: int) -> str:
    """A parcel, named after its first run. No run is called `parcel`: a run's id has an `@`."""
    return f"{line}.parcel.{run_id}.{queued}"


def is_parcel(subject: str) -> bool:
    return subject.split(".", 6)[5] == "parcel"


def work_subject(route: str, tier: str, line: str, run_id: str, queued: int) -> str:
    return work_in(work_line(route, tier, line), run_id, queued)


def work_filter(route: str, tier: str, line: str) -> str:
    return f"{work_line(route, tier, line)}.>"


def work_consumer(route: str, tier: str, line: str) -> str:
    return f"{route}_{tier}_{line}"


def parts_of_consumer(name: str) -> tuple[str, str, str] | None:
    """The route, tier and line of a consumer of the work queue; None: it is none of ours."""
    parts = name.rsplit("_", 2)
    if len(parts) != 3 or parts[1] not in TIERS or not is_line(parts[2]):
        return None
    return parts[0], parts[1], parts[2]


def route_of(queue: str, handler: str | None) -> str:
    """Handlers have a queue of their own each, so that no worker is handed what it cannot run."""
    return queue if handler is None else f"{queue}={handler}"


def kv_stream(bucket: str) -> str:
    return f"KV_{bucket}"


def kv_subject(bucket: str, key: str) -> str:
    return f"$KV.{bucket}.{key}"


def object_stream(bucket: str) -> str:
    return f"OBJ_{bucket}"


def timing_hot(partition: int, job_id: str, version: int) -> str:
    return f"{partition}.hot.0.{job_id}.{version}"


def timing_group(partition: int, slot: str, writer: str, number: int, label: str = "") -> str:
    """Entries that were written together. No id of a job begins like the writer here. `label`: what is in it."""
    return f"{partition}.{slot}._{writer}.{number}" + (f"-{label}" if label else "")


def is_timing_group(key: str) -> bool:
    """Else it is an entry by itself, as in the first releases: `<p>.<slot>.<job id>.<version>`."""
    return key.split(".", 4)[3].startswith("_")


def timing_slot(partition: int, slot: str) -> str:
    """All that is in a slot."""
    return f"{partition}.{slot}.*.*"


def timing_all_hot(partition: int) -> str:
    return f"{partition}.hot.0.*.*"


def timing_hot_of_job(partition: int, job_id: str) -> str:
    return f"{partition}.hot.0.{job_id}.*"


def timing_hour(partition: int, hour: int) -> str:
    """All minutes of an hour."""
    return f"{partition}.{hour}.*.*.*"


def timing_fence(partition: int) -> str:
    """Written by each new owner of the partition, and expected by everything it writes to the index."""
    return f"{partition}.fence"


HALT_KEY = "halt"
"""In the control bucket while nobody may go on with the log, with the reason."""


def member_key(kind: str, instance: str) -> str:
    return f"member.{kind}.{instance}"


def run_lease_key(run_id: str) -> str:
    return f"run.{run_id}"


def cancel_key(run_id: str) -> str:
    """Says that a run is cancelled that travels in a parcel: a parcel cannot be taken back for one of many."""
    return f"cancel.{run_id}"


def key_place(digest: str, place: int | str = "*") -> str:
    """One of the places that runs with the same concurrency key share."""
    return f"key.{digest}.{place}"


def rate_state(digest: str) -> str:
    """When the next run with this rate key may start."""
    return f"rate.{digest}"


def secret_key(namespace: str, name: str) -> str:
    """In the bucket of secrets."""
    return f"{namespace}.{name}"


def access_subject(kind: str, namespace: str) -> str:
    """Who did what (`change`), and who was not let in (`denied`), by the namespace that it concerns."""
    return f"wc.access.{kind}.{namespace}"


def claim_subject(partition: int | str = "*") -> str:
    """Request/reply to the owner of a partition: may this redelivered attempt still run?"""
    return f"wc.claim.{partition}"


def waiting_subject(partition: int | str = "*") -> str:
    """Request/reply to the owner of a partition: which of the jobs that this one waits for have completed?"""
    return f"wc.waiting.{partition}"


def stop_subject(executor_id: str = "all") -> str:
    """Owner to one executor, or to all: stop this run. Who does not run it yet, but pulls it later, drops it."""
    return f"wc.stop.{executor_id}"


def log_chunk_subject(run_id: str, attempt: int, offset: int) -> str:
    """Live output of an attempt, from a byte of it on: a listener who joins late sees what it lacks."""
    return f"wc.log.{run_id}.{attempt}.{offset}"


def log_filter(run_id: str) -> str:
    return f"wc.log.{run_id}.>"


def tell_subject(executor_id: str) -> str:
    """Request/reply to an executor: what has this run (the request's body) said until now? A number in a second line is
    the byte to begin at."""
    return f"wc.tell.{executor_id}"


def serve_subject(route: str, tier: str) -> str:
    """Request/reply to a scheduler: make the consumers for this route and tier, for somebody wants to serve them."""
    return f"wc.serve.{route}.{tier}"


def quarantine_subject(component: str, stream: str = "*", sequence: int | str = "*") -> str:
    """What a component could not read."""
    return f"wc.quarantine.{component}.{stream}.{sequence}"
