"""A partition changes hands when its owner is dead, and never because something was slow."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from integration.jetstream.outage import hanging, restart
from integration.scheduler.rig import PARTITIONS, Rig, rig, scheduler
from servers.server import Server
from support.waiting import eventually
from waterclock.core.domain.rendezvous import owner_of
from waterclock.core.jetstream.lease import Lease, LeaseState
from waterclock.proto import names
from waterclock.proto.events import RunQueued
from waterclock.proto.spec import JobSpec, Schedule, Shell

EVERY_SECOND = JobSpec(
    name="tick",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="INTERVAL", interval_seconds=1),
    overlap="allow",
)


@asynccontextmanager
async def process(url: str) -> AsyncIterator[Process]:
    """A scheduler that can be stopped and killed."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "waterclock.api.cli", "scheduler", "--nats-url", url),
        env={**os.environ, "WATERCLOCK_PARTITIONS": str(PARTITIONS)},
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


Leases = dict[int, LeaseState]


async def leases(r: Rig) -> Leases:
    """Of the partitions that somebody holds."""
    found = {}
    for partition in range(PARTITIONS):
        lease = Lease(r.connection, r.publisher, names.RUNS, names.lease_subject(partition), holder="test")
        if (state := await lease.read()) is not None:
            found[partition] = state
    return found


async def owned_by(r: Rig, members: int, within: float = 20) -> Leases:
    """Wait until every partition has the owner that it should have among so many."""

    def settled(found: Leases) -> bool:
        everyone = holders(found)
        return (
            len(found) == PARTITIONS
            and len(everyone) == members
            and all(lease.holder == owner_of(partition, everyone) for partition, lease in found.items())
        )

    return await eventually(lambda: leases(r), f"{members} to own all", within, wanted=settled)


def holders(found: Leases) -> set[str]:
    return {lease.holder for lease in found.values()}


def tokens(found: Leases) -> set[int]:
    return {lease.token for lease in found.values()}


async def fires(r: Rig) -> list[RunQueued]:
    return [event for event in await r.events() if isinstance(event, RunQueued)]


async def one_more_fire(r: Rig) -> None:
    known = len(await fires(r))
    await eventually(lambda: fires(r), "another fire", wanted=lambda found: len(found) > known)


async def test_a_server_that_hangs_costs_nobody_a_partition(nats_server: Server, tmp_path: Path) -> None:
    url = nats_server.url
    async with rig(url) as r, scheduler(url, tmp_path), scheduler(url, tmp_path):
        await r.create("tick", EVERY_SECOND)
        before = await owned_by(r, 2)
        async with hanging(nats_server):
            await asyncio.sleep(3)  # the outage itself
        await one_more_fire(r)
        await one_more_fire(r)
        assert await leases(r) == before


async def test_a_server_that_crashes_costs_nobody_a_partition(nats_server: Server, tmp_path: Path) -> None:
    url = nats_server.url
    async with rig(url) as r, scheduler(url, tmp_path), scheduler(url, tmp_path):
        await r.create("tick", EVERY_SECOND)
        before = await owned_by(r, 2)
        for _ in range(3):
            await restart(nats_server)
            await one_more_fire(r)
        assert await leases(r) == before


async def test_the_only_scheduler_goes_on_where_it_was_after_it_was_stopped(nats_server: Server) -> None:
    async with rig(nats_server.url) as r, process(nats_server.url) as only:
        await r.create("tick", EVERY_SECOND)
        before = await owned_by(r, 1)
        await one_more_fire(r)
        only.send_signal(signal.SIGSTOP)
        await asyncio.sleep(5)  # the outage itself
        only.send_signal(signal.SIGCONT)
        await one_more_fire(r)
        assert await leases(r) == before


async def test_who_is_stopped_is_replaced_and_finds_out(nats_server: Server, tmp_path: Path) -> None:
    url = nats_server.url
    async with rig(url) as r, process(url) as stopped:
        await r.create("tick", EVERY_SECOND)
        before = await owned_by(r, 1)
        await one_more_fire(r)
        stopped.send_signal(signal.SIGSTOP)
        async with scheduler(url, tmp_path):
            taken = await eventually(
                lambda: leases(r),
                "all partitions to have the other owner",
                within=5,
                wanted=lambda found: not holders(found) & holders(before),
            )
            assert len(taken) == PARTITIONS
            await one_more_fire(r)
            stopped.send_signal(signal.SIGCONT)
            # It is a member again and gets its share, also of what it has nothing to do in; all with new tokens.
            shared = await owned_by(r, 2)
            assert not tokens(shared) & tokens(before)
            await one_more_fire(r)
        scheduled = [event.scheduled for event in await fires(r)]
        assert len(scheduled) == len(set(scheduled)), "no time was decided twice"


async def test_who_is_killed_is_replaced_within_three_seconds(nats_server: Server, tmp_path: Path) -> None:
    url = nats_server.url
    async with rig(url) as r, process(url) as killed, scheduler(url, tmp_path):
        await r.create("tick", EVERY_SECOND)
        await owned_by(r, 2)
        killed.kill()
        await owned_by(r, 1, within=3)
        await one_more_fire(r)


async def test_the_next_incarnation_of_who_is_killed_takes_over_within_three_seconds(
    nats_server: Server, tmp_path: Path
) -> None:
    url = nats_server.url
    async with rig(url) as r, process(url) as killed:
        before = await owned_by(r, 1)
        killed.kill()
        async with scheduler(url, tmp_path):
            await eventually(
                lambda: leases(r),
                "all to be taken again",
                within=3,
                wanted=lambda found: len(found) == PARTITIONS and not tokens(found) & tokens(before),
            )


async def test_who_leaves_hands_over_at_once(nats_server: Server, tmp_path: Path) -> None:
    url = nats_server.url
    async with rig(url) as r, scheduler(url, tmp_path):
        async with scheduler(url, tmp_path):
            await owned_by(r, 2)
        await owned_by(r, 1, within=1.4)  # sooner than anybody is taken for dead


async def test_a_scheduler_leaves_though_the_log_is_away(nats_server: Server, tmp_path: Path) -> None:
    url = nats_server.url
    async with rig(url) as r:
        async with scheduler(url, tmp_path):
            await r.create("tick", EVERY_SECOND)
            await one_more_fire(r)
            await asyncio.to_thread(nats_server.kill)
            began = time.monotonic()
        assert time.monotonic() - began < 10
        await asyncio.to_thread(nats_server.start)
