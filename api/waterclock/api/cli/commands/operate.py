"""Commands that operate: executors, queues, partitions, status."""

from collections.abc import Sequence

from waterclock.api.cli import text
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, Json, Watch
from waterclock.api.cli.output import marked, print_json, table
from waterclock.api.cli.session import connected
from waterclock.proto import methods
from waterclock.proto.answers import Executor, Partition, Queue
from waterclock.proto.queries import Nothing


def executors(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List executors, and what each is doing."""
    with connected(data) as wire:
        _EXECUTORS.show(lambda: wire.call(methods.EXECUTORS_LIST, Nothing()), json=json, watch=watch)


def queues(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List queues: what waits and what runs."""
    with connected(data) as wire:
        _QUEUES.show(lambda: wire.call(methods.QUEUES_LIST, Nothing()), json=json, watch=watch)


def partitions(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List partitions: their owners and how far these are."""
    with connected(data) as wire:
        _PARTITIONS.show(lambda: wire.call(methods.PARTITIONS_LIST, Nothing()), json=json, watch=watch)


def status(json: Json = False, data: Data = None) -> int:
    """Say in five lines whether all is well. Exit 1 if not."""
    with connected(data) as wire:
        found = wire.call(methods.SYSTEM_STATUS, Nothing())
    if json:
        print_json(found)
    else:
        for check in found.checks:
            print(f"{marked(check.ok)} {check.name:<12} {check.detail}")
    return 0 if found.ok else 1


def _executor_table(executors: Sequence[Executor]) -> str:
    rows = [
        (
            executor.executor_id,
            executor.status,
            executor.tier,
            ",".join(executor.queues),
            f"{executor.busy}/{executor.slots}",
            ",".join(executor.handlers),
            text.ago(executor.started_at),
        )
        for executor in executors
    ]
    heads = ("EXECUTOR", "STATUS", "TIER", "QUEUES", "BUSY", "HANDLERS", "STARTED")
    return table(heads, rows) if rows else "no executors: nothing will run"


def _queue_table(queues: Sequence[Queue]) -> str:
    rows = [
        (
            queue.queue,
            queue.handler or "",
            queue.tier,
            str(queue.priority),
            str(queue.waiting),
            str(queue.running),
            "" if queue.pulls or queue.running else "nobody serves it",
        )
        for queue in queues
        if queue.waiting or queue.running
    ]
    heads = ("QUEUE", "HANDLER", "TIER", "PRIORITY", "WAITING", "RUNNING", "")
    return table(heads, rows) if rows else f"{len(queues)} queues, all empty"


def _partition_table(partitions: Sequence[Partition]) -> str:
    rows = [
        (
            str(partition.partition),
            partition.owner or "nobody",
            text.text(partition.lease),
            text.stamp(partition.cursor),
            text.duration(partition.lag_seconds),
            text.text(partition.active_runs),
            text.text(partition.armed),
        )
        for partition in partitions
    ]
    return table(("PARTITION", "OWNER", "LEASE", "DECIDED UNTIL", "LAG", "ACTIVE", "ARMED"), rows)


_EXECUTORS = Listing[Executor](key=lambda executor: executor.executor_id, text=_executor_table)
_QUEUES = Listing[Queue](key=lambda q: (q.queue, q.handler, q.tier, q.priority), text=_queue_table)
_PARTITIONS = Listing[Partition](key=lambda partition: partition.partition, text=_partition_table)
