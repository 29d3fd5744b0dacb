"""What the scheduler reads in the heartbeats of executors: whether one has a run, and who serves what."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from waterclock.core.domain.partition.room import route_of
from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.connection import Connection
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.scheduler.credit import Credit
from waterclock.scheduler.jetstream.executors import ExecutorLink, follow_slots


class Heartbeats:
    def __init__(self, value: bytes | None) -> None:
        self._value = value

    async def get(self, key: str) -> Entry | None:
        return None if self._value is None else Entry(key=key, value=self._value, revision=1)


def written(**fields: Any) -> bytes:
    return msgspec.json.encode(ExecutorHeartbeat(**fields))


@pytest.mark.parametrize(
    ("heartbeat", "has"),
    [
        (None, False),
        (written(), False),
        (written(running=["job@now-1"]), True),
        (written(running=["job@now-2"], more=True), True),
        (b'{"running": [], "state": "a word of a later version"}', True),
        (b"not JSON", True),
    ],
)
async def test_who_cannot_be_understood_may_have_it(heartbeat: bytes | None, has: bool) -> None:
    link = ExecutorLink(cast(Connection, None), cast(Bucket, Heartbeats(heartbeat)), 3)
    assert await link.has_run("executor-1", "job@now-1") is has


class Members:
    """A control bucket in which an executor is found when it is looked into for the second time."""

    def __init__(self) -> None:
        self.looks = 0

    async def scan(self, pattern: str) -> list[Entry]:
        self.looks += 1
        heartbeat = ExecutorHeartbeat(instance="new", tier="light", queues=["default"], slots=3)
        return [Entry(key="member.executor.new", value=msgspec.json.encode(heartbeat), revision=1)][
            self.looks < 2 :
        ]


async def test_who_serves_work_is_looked_for_at_once_while_it_is_not_known() -> None:
    credit, wanted = Credit(1), asyncio.Event()
    credit.open().began(route_of("default", None, "light"))
    following = asyncio.create_task(follow_slots(cast(Bucket, Members()), credit, wanted))
    try:
        wanted.set()
        async with asyncio.timeout(3):  # else it is looked every five seconds
            while credit.lacks_slots:
                await asyncio.sleep(0)
            while wanted.is_set():
                await asyncio.sleep(0)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
