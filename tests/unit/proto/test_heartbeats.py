"""A heartbeat is what another process wrote: whatever it is, reading it raises nothing, and absurd figures count for
nothing."""

from typing import Any

import msgspec
import pytest

from waterclock.proto.heartbeats import ExecutorHeartbeat, SchedulerHeartbeat, read_heartbeat
from waterclock.scheduler.membership import _state_of

HELD = dict.fromkeys(("partition", "token", "jobs_cursor", "time_cursor", "active_runs", "armed"), 0)
SCHEDULER = {
    "instance": "s",
    "host": "h",
    "pid": 1,
    "started_at": 1,
    "at": 1,
    "state": "running",
    "partitions": [],
}
HUGE = int("9" * 400)


def executor(**fields: Any) -> bytes:
    return msgspec.json.encode({"instance": "e", "queues": ["default"], "slots": 4, **fields})


def scheduler(load: Any = None, held: Any = None, **fields: Any) -> bytes:
    partitions = [] if held is None else [HELD | {"lag_seconds": 0} | held]
    return msgspec.json.encode({**SCHEDULER, "partitions": partitions, "load": load, **fields})


UNREADABLE = [b"", b"null", b"[]", b"{", b'{"x":' + b"[" * 100_000, b'{"instance":"\xff","state":"\xff"}']
MANY = [str(number) for number in range(5_000)]


@pytest.mark.parametrize(
    "value",
    [
        *UNREADABLE,
        executor(slots=10**18),
        executor(slots=-1),
        executor(slots="many"),
        executor(slots=1.5),
        executor(used=-1),
        executor().replace(b":4", b":%d" % HUGE),
        executor(at=10**30),
        executor(started_at=-(10**30)),
        executor(pid=2**31),
        executor(host="a\0b"),
        executor(queues=MANY, handlers=MANY),
        executor(running=["r"] * 100_000),
    ],
)
def test_an_absurd_executor_counts_for_nothing(value: bytes) -> None:
    assert read_heartbeat(value, ExecutorHeartbeat) is None


@pytest.mark.parametrize(
    "value",
    [
        *UNREADABLE,
        scheduler({"to_drain": -1}),
        scheduler({"to_drain": 10**18}),
        scheduler({"to_drain": 7}).replace(b":7", b":%d" % HUGE),
        scheduler({"ended_per_second": -1e300}),
        scheduler({"ended_per_second": 1e300}),
        scheduler({"behind_seconds": 1e300}),
        scheduler({"saturated_since": 10**30}),
        scheduler(at=10**30),
        scheduler(held={"backlog": -(10**18)}),
        scheduler(held={"unread": 10**18}),
        scheduler(held={"partition": -1}),
        scheduler(held={"time_cursor": 10**30}),
        scheduler(held={"lag_seconds": -1}),
        scheduler(held={"waits_since": 10**30}),
        scheduler(state="nonsense"),
    ],
)
def test_an_absurd_scheduler_counts_for_nothing(value: bytes) -> None:
    assert read_heartbeat(value, SchedulerHeartbeat) is None


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_scheduler_that_cannot_be_read_lives(value: bytes) -> None:
    assert _state_of(value) == "running"


def test_a_plain_one_is_read() -> None:
    assert read_heartbeat(executor(), ExecutorHeartbeat) is not None
    assert read_heartbeat(scheduler({"to_drain": 5}, {"backlog": 5}), SchedulerHeartbeat) is not None
