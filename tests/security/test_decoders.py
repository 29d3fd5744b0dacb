"""Any bytes, in any place where one of us reads what another wrote: a message, or `Undecodable`. Nothing else may come
out of a decoder, as whoever reads has one way only to put aside what cannot be read."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from waterclock.core.domain import timing_index
from waterclock.core.jetstream import lease, objects
from waterclock.executor.attempt import stop_requests
from waterclock.executor.intake import redelivery
from waterclock.projector.read import messages
from waterclock.proto.codec import Undecodable, decode_frame, decode_job_frame, decode_work
from waterclock.proto.heartbeats import (
    ApiHeartbeat,
    ExecutorHeartbeat,
    ProjectorHeartbeat,
    SchedulerHeartbeat,
    read_heartbeat,
)
from waterclock.scheduler.jetstream import executors, snapshot_bucket

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "RUNS": decode_frame,
    "JOBS": decode_job_frame,
    "WORK": decode_work,
    "KV timing": timing_index.decode_entry,
    "lease": lease._decode,
    "object": objects._decode,
    "claim": executors._decode,
    "claim reply": redelivery._decode,
    "stop": stop_requests._decode,
    "snapshot": snapshot_bucket._decode_state,
    "manifest": snapshot_bucket._decode_manifest,
    "projector envelope": messages._decode_envelope,
    "projector run event": lambda data: messages._decode_run_event(msgspec.Raw(data)),
}
HEARTBEATS = (ApiHeartbeat, ExecutorHeartbeat, ProjectorHeartbeat, SchedulerHeartbeat)

HOSTILE = [
    b"",
    b"null",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 100_000,
    b'{"v":1e999}',
    b"\xff\xfe",
    b'"\\ud800"',
    b'{"writer":"x","events":[{"type":"succeeded"}]}',
    b'{"writer":"x","events":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
]

json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=20),
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=20,
)
any_bytes = some.binary(max_size=400) | json_values.map(lambda value: msgspec.json.encode(value))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_undecodable(name: str, data: bytes) -> None:
    try:
        DECODERS[name](data)
    except Undecodable:
        pass


@pytest.mark.parametrize("name", DECODERS)
def test_any_bytes_are_a_message_or_undecodable(name: str) -> None:
    @given(data=any_bytes)
    @settings(max_examples=200, database=None)
    def reads(data: bytes) -> None:
        try:
            DECODERS[name](data)
        except Undecodable:
            pass

    reads()


@pytest.mark.parametrize("kind", HEARTBEATS)
def test_any_bytes_are_a_heartbeat_or_none(kind: type[msgspec.Struct]) -> None:
    @given(data=any_bytes | some.sampled_from(HOSTILE))
    @settings(max_examples=200, database=None)
    def reads(data: bytes) -> None:
        found = read_heartbeat(data, kind)
        assert found is None or isinstance(found, kind)

    reads()
