"""Whether an executor has a run, by its heartbeat."""

from typing import Any, cast

import msgspec
import pytest

from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.connection import Connection
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.scheduler.jetstream.executors import ExecutorLink


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
