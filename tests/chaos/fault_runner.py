"""One fault, under load, judged: the runner of the whole table."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from chaos.checkers import judge, run_again
from chaos.effect_store import CheckingStore
from chaos.history import History
from chaos.installation import Installation
from chaos.load import loaded
from chaos.observer import Observer

Inject = Callable[[Installation], AbstractAsyncContextManager[None]]
"""Entering it injects the fault, leaving it heals."""


BEFORE = 1.5
AFTER = 2.0
"""Seconds of load before and after it."""


class Bounds(Struct, frozen=True, kw_only=True):
    recovered: float
    """Seconds from the healing until a job asked for after it has had its effect."""
    held: float = 0.0
    """The share of the jobs offered while it lasted that were accepted within a second."""
    tolerated: tuple[str, ...] = ()
    """Checkers whose complaints are a known limit."""
    settled: float = 60.0
    """Seconds until everything accepted has ended."""


class Fault(Protocol):
    """A row of the table."""

    @property
    def name(self) -> str: ...

    @property
    def inject(self) -> Inject: ...

    @property
    def seconds(self) -> float: ...

    @property
    def per_second(self) -> float: ...

    @property
    def bounds(self) -> Bounds: ...


class Verdict(Struct, kw_only=True):
    fault: str
    offered: int
    held: float
    lost: int
    doubled: int
    again: int
    recovered: float | None
    lasted: float
    complaints: dict[str, list[str]]


async def strike(installation: Installation, fault: Fault, *, prefix: str) -> tuple[Verdict, History]:
    """Load, inject, heal, wait for the end of everything, judge."""
    history = History()
    async with installation.log() as log, CheckingStore.open(history) as store:
        observer = Observer(installation, log)
        await observer.look_before()
        load = loaded(installation, store, history, prefix=prefix, per_second=fault.per_second)
        async with load:
            await asyncio.sleep(BEFORE)
            began = time.monotonic()
            async with fault.inject(installation):
                await asyncio.sleep(fault.seconds)
                ended = time.monotonic()
            healed = time.monotonic()
            recovered = await _recovered(history, healed, fault.bounds.recovered + 30)
            await asyncio.sleep(AFTER)
        await observer.settle(history, prefix, fault.bounds.settled)
    complaints = {name: said for name, said in judge(history).items() if name not in fault.bounds.tolerated}
    held = _held(history, began, ended)
    if recovered is None or recovered > fault.bounds.recovered:
        complaints["recovered"] = [f"{recovered} s, allowed are {fault.bounds.recovered:g}"]
    if held < fault.bounds.held:
        complaints["held"] = [f"{held:.0%} of the load was taken, at least {fault.bounds.held:.0%} should be"]
    verdict = Verdict(
        fault=fault.name,
        offered=len(history.submitted),
        held=held,
        lost=len(complaints.get("lost", [])) + len(complaints.get("unended", [])),
        doubled=len(complaints.get("doubled", [])) + sum('"decided_twice"' in line for line in history.audit),
        again=run_again(history),
        recovered=recovered,
        lasted=ended - began,
        complaints=complaints,
    )
    return verdict, history


async def _recovered(history: History, healed: float, within: float) -> float | None:
    """When the first job asked for after the healing had its effect, in seconds from then."""
    while time.monotonic() < healed + within:
        new = {job.job_id for job in history.submitted if job.asked >= healed and job.kind == "handler"}
        for effect in history.effects:
            if effect.kind == "handler" and effect.key.partition("@")[0] in new:
                return effect.at - healed
        await asyncio.sleep(0.02)
    return None


def _held(history: History, began: float, ended: float) -> float:
    offered = [job for job in history.submitted if began <= job.asked < ended]
    taken = [job for job in offered if job.accepted is not None and job.accepted - job.asked <= 1.0]
    return len(taken) / len(offered) if offered else 1.0
