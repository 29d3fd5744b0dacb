"""Snapshots keep the names of the first release, whatever the code calls their fields."""

from pathlib import Path

import msgspec

from waterclock.core.domain.partition.state import PartitionState

WRITTEN_BEFORE = Path(__file__).parent / "data" / "snapshot.json"

SINCE = {"ahead"}
"""Fields that came after the first release. They are empty in what it wrote."""
SINCE_IN_CURSOR = {"settled", "alive"}


def test_a_snapshot_of_an_earlier_version_is_read_whole_and_written_alike() -> None:
    stored = WRITTEN_BEFORE.read_bytes()
    state = msgspec.json.decode(stored, type=PartitionState)
    for field in msgspec.structs.fields(PartitionState):
        assert getattr(state, field.name) or field.name in SINCE, f"{field.name} was not read"
    written = msgspec.json.decode(msgspec.json.encode(state))
    for name in SINCE:
        assert not written.pop(name)
    for name in SINCE_IN_CURSOR:
        del written["cursor"][name]
    assert written == msgspec.json.decode(stored)


def test_what_a_snapshot_says_is_where_it_belongs() -> None:
    state = msgspec.json.decode(WRITTEN_BEFORE.read_bytes(), type=PartitionState)
    run = state.runs["flow@20270115T080000Z"]
    assert run.parts == "wave"
    assert state.workflow_runs[run.run_id].nodes["b"].status == "TIMED_OUT"
    assert state.fan_outs[f"{run.run_id}~c"].results == {0: "x"}
    assert state.fires_taken == {"tick": 3}
    assert [notice.to for notice in state.notices.outbox.values()] == ["after", "tick"]
    assert state.notices.succeeded == {"once": ("once@now-0", 1_800_000_000_000_000)}
