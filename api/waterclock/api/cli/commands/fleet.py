"""Commands that show who is there and how they do: executors, queues, partitions, status, top."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from waterclock.api.cli import output
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, Json, Watch
from waterclock.api.cli.output import marked, print_json, progress, table
from waterclock.api.cli.session import connected
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import methods
from waterclock.proto.answers import (
    Consistency,
    Diagnosis,
    Diagnostic,
    Executor,
    Load,
    Partition,
    Queue,
    SystemStatus,
)
from waterclock.proto.queries import ConsistencyQuery, Nothing

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 15


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
    """Say in six lines whether all is well. Exit 1 if not."""
    with connected(data) as wire:
        found = wire.call(methods.SYSTEM_STATUS, Nothing())
    if json:
        print_json(found)
    else:
        for check in found.checks:
            print(f"{marked(check.ok)} {check.name:<12} {check.detail}")
    return 0 if found.ok else 1


def doctor(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Compare every job and run, and not only a few. It reads the whole log."),
    ] = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Say what protects this installation, what is missing, and what to do about it; and whether REST, SQL, why and the
    queues say what the log says. Exit 1 if there is a problem."""
    with connected(data) as wire:
        found = wire.call(methods.SYSTEM_DOCTOR, Nothing())
        if everything:
            found = _with_all_compared(found, wire)
    if json:
        print_json(found)
    else:
        for finding in found.findings:
            print(f"{marked(finding.verdict == 'ok')} {finding.check:<28} {finding.detail}")
            if finding.advice:
                print(f"  {'':<28} -> {finding.advice}")
    return 0 if found.ok else 1


def _with_all_compared(found: Diagnosis, wire: BlockingWire) -> Diagnosis:
    """Instead of a few."""
    result = Consistency(read=0.0, note="there was no result")
    for result in wire.follow(methods.SYSTEM_CONSISTENCY, lambda: ConsistencyQuery(all=True)):
        if result.read < 1:
            progress(f"comparing: {result.read:.0%}")
    progress("")
    told = [
        Diagnostic(check="consistency", verdict="problem", detail=str(each)) for each in result.disagreements
    ]
    if not told:
        told = [Diagnostic(check="consistency", verdict="ok" if result.ok else "problem", detail=result.note)]
    findings = [*(each for each in found.findings if each.check != "consistency"), *told]
    return Diagnosis(ok=all(each.verdict != "problem" for each in findings), findings=findings)


def _executor_table(executors: Sequence[Executor]) -> str:
    rows = [
        (
            executor.executor_id,
            executor.status,
            executor.tier,
            ",".join(executor.queues),
            f"{executor.busy}/{executor.slots}",
            ",".join(executor.handlers),
            output.ago(executor.started_at),
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
            f"{queue.due:,}" if queue.due else "",
            queue.missing or "",
        )
        for queue in queues
        if queue.waiting or queue.running or queue.due
    ]
    heads = ("QUEUE", "HANDLER", "TIER", "PRIORITY", "WAITING", "RUNNING", "MORE DUE", "")
    return table(heads, rows) if rows else f"{len(queues)} queues, all empty"


def _partition_table(partitions: Sequence[Partition]) -> str:
    rows = [
        (
            str(partition.partition),
            partition.owner or "nobody",
            output.text(partition.lease),
            output.stamp(partition.cursor),
            output.duration(partition.lag_seconds),
            output.text(partition.active_runs),
            output.text(partition.armed),
            output.text(partition.backlog),
            output.text(partition.unread),
        )
        for partition in partitions
    ]
    heads = ("PARTITION", "OWNER", "LEASE", "DECIDED UNTIL", "LAG", "ACTIVE", "ARMED", "BACKLOG", "UNREAD")
    return table(heads, rows)


_EXECUTORS = Listing[Executor](key=lambda executor: executor.executor_id, text=_executor_table)
_QUEUES = Listing[Queue](key=lambda q: (q.queue, q.handler, q.tier, q.priority), text=_queue_table)
_PARTITIONS = Listing[Partition](key=lambda partition: partition.partition, text=_partition_table)


def top(
    every: Annotated[float, typer.Option("--every", help="Seconds between looks.", min=0.2)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    data: Data = None,
) -> None:
    """Watch the system. Ctrl-C ends it. Where nobody watches, on a pipe, it looks once."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with connected(data) as wire:
        if once or not console.is_terminal:
            console.print(_screen(wire))
            return
        with Live(_screen(wire), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(_screen(wire), refresh=True)


def _screen(wire: BlockingWire) -> "RenderableType":
    from rich.console import Group

    status = wire.call(methods.SYSTEM_STATUS, Nothing())
    executors = wire.call(methods.EXECUTORS_LIST, Nothing()).items
    queues = wire.call(methods.QUEUES_LIST, Nothing()).items
    partitions = wire.call(methods.PARTITIONS_LIST, Nothing()).items
    return Group(
        _head(status.load),
        _health(status),
        _queues(queues),
        _executors(executors),
        _running(executors),
        _lag(partitions),
    )


def _head(load: Load) -> "RenderableType":
    """Whether it keeps up, in the first line."""
    from rich.text import Text

    accepted = f"{load.accepted_per_second:,.0f}/s accepted"
    if not load.saturated:
        return Text(f"waterclock keeps up: {accepted}")
    since = f" since {output.stamp(load.since)}" if load.since else ""
    text = f"waterclock is saturated{since}: {load.behind_seconds:.0f} s behind, {load.drain_seconds:.0f} s to drain"
    return Text(
        f"{text}, callers are slowed down; {accepted}, {load.ended_per_second:,.0f}/s done", style="bold red"
    )


def _health(status: SystemStatus) -> "RenderableType":
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    for check in status.checks:
        table.add_row("[green]✓[/]" if check.ok else "[red]✗[/]", check.name, check.detail)
    return table


def _queues(queues: list[Queue]) -> "RenderableType":
    from rich.table import Table

    table = Table(title="queues", title_justify="left", box=None, pad_edge=False)
    for head in ("queue", "handler", "tier", "priority", "waiting", "running", "more due", ""):
        table.add_column(head)
    busy = [queue for queue in queues if queue.waiting or queue.running or queue.due]
    for queue in sorted(busy, key=lambda queue: (queue.missing is None, -queue.waiting))[:_ROWS]:
        row = (queue.queue, queue.handler or "", queue.tier, queue.priority, queue.waiting, queue.running)
        table.add_row(*map(str, row), f"{queue.due:,}" if queue.due else "", f"[red]{queue.missing or ''}[/]")
    return table


def _executors(executors: list[Executor]) -> "RenderableType":
    from rich.table import Table

    table = Table(title="executors", title_justify="left", box=None, pad_edge=False)
    for head in ("executor", "state", "tier", "busy", "queues"):
        table.add_column(head)
    for executor in executors[:_ROWS]:
        busy = f"{executor.busy}/{executor.slots}"
        table.add_row(executor.executor_id, executor.status, executor.tier, busy, ",".join(executor.queues))
    return table


def _running(executors: list[Executor]) -> "RenderableType":
    from rich.table import Table

    table = Table(title="running", title_justify="left", box=None, pad_edge=False)
    table.add_column("run")
    table.add_column("on")
    held = [(run_id, executor.executor_id) for executor in executors for run_id in executor.running]
    for run_id, executor_id in held[:_ROWS]:
        table.add_row(run_id, executor_id)
    return table


def _lag(partitions: list[Partition]) -> "RenderableType":
    from rich.text import Text

    unowned = [str(partition.partition) for partition in partitions if partition.owner is None]
    lag = max((partition.lag_seconds or 0 for partition in partitions), default=0)
    text = f"partitions: {len(partitions)}, {output.duration(lag)} behind at most"
    return Text(text + (f"; nobody owns {', '.join(unowned)}" if unowned else ""))
