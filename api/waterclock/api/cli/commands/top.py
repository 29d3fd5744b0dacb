"""`waterclock top`: a live screen of queues, executors, lag and running jobs."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from waterclock.api.cli import text as words
from waterclock.api.cli.options import Data
from waterclock.api.cli.session import connected
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import methods
from waterclock.proto.answers import Executor, Partition, Queue, SystemStatus
from waterclock.proto.queries import Nothing

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 15


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
        _health(status), _queues(queues), _executors(executors), _running(executors), _lag(partitions)
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
    for head in ("queue", "handler", "tier", "priority", "waiting", "running"):
        table.add_column(head)
    busy = [queue for queue in queues if queue.waiting or queue.running]
    for queue in sorted(busy, key=lambda queue: -queue.waiting)[:_ROWS]:
        row = (queue.queue, queue.handler or "", queue.tier, queue.priority, queue.waiting, queue.running)
        table.add_row(*map(str, row))
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
    text = f"partitions: {len(partitions)}, {words.duration(lag)} behind at most"
    return Text(text + (f"; nobody owns {', '.join(unowned)}" if unowned else ""))
