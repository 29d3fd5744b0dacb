"""An owner of today reaches from an earlier version's log the state that version had."""

import json
from typing import Any

import msgspec
import pytest

from stored_log.stored_log import PARTITIONS, VERSIONS, StoredLog, load
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.proto.codec import decode_frame
from waterclock.scheduler.jetstream.snapshot_bucket import Manifest


def _snapshot(log: StoredLog, partition: int) -> tuple[Manifest, PartitionState]:
    prefix = f"$KV.control.snapshot.{partition}"
    manifest = msgspec.json.decode(log.value(f"{prefix}.manifest"), type=Manifest)
    pieces = [log.value(f"{prefix}.{manifest.generation}.{number}") for number in range(manifest.chunks)]
    return manifest, msgspec.json.decode(b"".join(pieces), type=PartitionState)


def _replay(
    log: StoredLog, partition: int, *, after_snapshot: bool, until_snapshot: bool = False
) -> PartitionState:
    manifest, state = _snapshot(log, partition)
    owner = Owner(partition, state if after_snapshot else PartitionState(), 0)
    for message in log.stream("RUNS", f"wc.runs.{partition}"):
        frame = decode_frame(message.data)
        through = manifest.own_through if frame.writer == manifest.writer else manifest.consumed
        known = message.sequence <= through
        if (known and after_snapshot) or (not known and until_snapshot):
            continue
        owner.replay(frame, message.sequence)
    return owner.state


def _plain(state: PartitionState) -> Any:
    """What a snapshot and a replay must agree on. A live owner's cursor moves on between two frames, and it knows what
    work it has published; a replay knows only what the last frame said."""
    plain = json.loads(msgspec.json.encode(state))
    del plain["unpublished"], plain["cursor"], plain["ahead"]
    # the first release did not keep these
    plain["post"].pop("heard", None)
    plain["post"].pop("left", None)
    for run in plain["runs"].values():
        run.pop("route", None)
        run.pop("priority", None)
    return plain


@pytest.mark.parametrize("partition", range(PARTITIONS))
@pytest.mark.parametrize("name", ["killed", "stopped"])
@pytest.mark.parametrize("version", VERSIONS)
def test_replaying_reaches_the_state_of_the_snapshot(version: str, name: str, partition: int) -> None:
    """The snapshot was written by an owner that decided; replaying its frames must lead to the same state."""
    log = load(version, name)
    replayed = _replay(log, partition, after_snapshot=False, until_snapshot=True)
    assert _plain(replayed) == _plain(_snapshot(log, partition)[1])


@pytest.mark.parametrize("partition", range(PARTITIONS))
@pytest.mark.parametrize("name", ["killed", "stopped"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_snapshot_and_what_follows_lead_where_the_whole_log_leads(
    version: str, name: str, partition: int
) -> None:
    log = load(version, name)
    continued, whole = (_replay(log, partition, after_snapshot=after) for after in (True, False))
    assert _plain(continued) == _plain(whole)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_in_the_middle_when_everything_was_killed(version: str) -> None:
    log = load(version, "killed")
    runs: dict[str, str] = {}
    for partition in range(PARTITIONS):
        state = _replay(log, partition, after_snapshot=False)
        runs |= {run.job_id: run.status for run in state.runs.values()}
    assert {job_id: runs[job_id] for job_id in ("survivor", "survivor-once", "retried-on")} == {
        "survivor": "RUNNING",
        "survivor-once": "RUNNING",
        "retried-on": "RETRYING",
    }
    assert {"going", "spread-on", "backfilled-on", "waits"} <= runs.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_after_an_orderly_stop_only_what_waits_for_somebody_is_left(version: str) -> None:
    log = load(version, "stopped")
    left = {
        run.job_id
        for partition in range(PARTITIONS)
        for run in _replay(log, partition, after_snapshot=False).runs.values()
    }
    assert left <= {"beside"}
