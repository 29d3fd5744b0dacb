"""Commands that operate: executors, queues, partitions, status."""

from waterclock.api.cli import words
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.printing import print_json
from waterclock.api.cli.session import connected
from waterclock.api.cli.tables import marked, table
from waterclock.proto import methods
from waterclock.proto.queries import Nothing


def executors(json: Json = False, data: Data = None) -> None:
    """List executors, and what each is doing."""
    with connected(data) as wire:
        page = wire.call(methods.EXECUTORS_LIST, Nothing())
    if json:
        print_json(page)
        return
    rows = [
        (
            executor.executor_id,
            executor.status,
            executor.tier,
            ",".join(executor.queues),
            f"{executor.busy}/{executor.slots}",
            ",".join(executor.handlers),
            words.ago(executor.started_at),
        )
        for executor in page.items
    ]
    heads = ("EXECUTOR", "STATUS", "TIER", "QUEUES", "BUSY", "HANDLERS", "STARTED")
    print(table(heads, rows) if rows else "no executors: nothing will run")


def queues(json: Json = False, data: Data = None) -> None:
    """List queues: what waits and what runs."""
    with connected(data) as wire:
        page = wire.call(methods.QUEUES_LIST, Nothing())
    if json:
        print_json(page)
        return
    busy = [queue for queue in page.items if queue.waiting or queue.running]
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
        for queue in busy
    ]
    heads = ("QUEUE", "HANDLER", "TIER", "PRIORITY", "WAITING", "RUNNING", "")
    print(table(heads, rows) if rows else f"{len(page.items)} queues, all empty")


def partitions(json: Json = False, data: Data = None) -> None:
    """List partitions: their owners and how far these are."""
    with connected(data) as wire:
        page = wire.call(methods.PARTITIONS_LIST, Nothing())
    if json:
        print_json(page)
        return
    rows = [
        (
            str(partition.partition),
            partition.owner or "nobody",
            words.text(partition.lease),
            words.stamp(partition.cursor),
            words.duration(partition.lag_seconds),
            words.text(partition.active_runs),
            words.text(partition.armed),
        )
        for partition in page.items
    ]
    print(table(("PARTITION", "OWNER", "LEASE", "DECIDED UNTIL", "LAG", "ACTIVE", "ARMED"), rows))


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
