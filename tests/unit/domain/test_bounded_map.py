"""The newest of many are kept, and no more than there is room for."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.bounded_map import BoundedMap
from waterclock.core.domain.instants import HOUR
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.proto.events import Cursor, Frame, JobCreated, RunFailed, RunQueued, RunSucceeded
from waterclock.proto.spec import JobSpec, Schedule, Shell

NOW = 1_800_000_000_000_000


@given(st.lists(st.integers(0, 20), max_size=200), st.integers(1, 8))
def test_the_last_ones_are_known_with_their_newest_value(keys: list[int], room: int) -> None:
    kept = BoundedMap[int, int](room)
    for place, key in enumerate(keys):
        kept[key] = place
    newest = {key: place for place, key in enumerate(keys)}
    for key in keys[-room:]:
        assert kept.get(key) == newest[key]
    assert sum(kept.get(key) is not None for key in newest) <= 2 * room


def test_what_is_forgotten_is_gone_from_both_generations() -> None:
    kept = BoundedMap[str, int](1)
    kept["old"] = 1
    kept["young"] = 2
    for key in ("old", "young", "unknown"):
        kept.forget(key)
    assert (kept.get("old"), kept.get("young")) == (None, None)


def owner_of(schedule: Schedule) -> tuple[Owner, RunQueued]:
    owner = Owner(0, PartitionState(cursor=Cursor(jobs=0, time=NOW)), NOW)
    owner.loaded(NOW + HOUR)
    spec = JobSpec(name="x", task=Shell(command="true"), schedule=schedule, max_retries=1)
    owner.observe_job(JobCreated(job_id="x", spec=spec, at=NOW, created_at=NOW), 1, NOW)
    owner.tick(NOW + 1_000_000)
    queued = owner.take_pass().events[0]
    assert isinstance(queued, RunQueued)
    owner.appended(1, [queued])
    owner.observe_own_frame(1)
    return owner, queued


def known_after(owner: Owner, queued: RunQueued, *, retried: bool) -> bool:
    """Whether the definition is in memory once the attempt has ended."""
    run = owner.state.runs[queued.run_id]
    if retried:
        end: RunFailed | RunSucceeded = RunFailed(
            run_id=queued.run_id,
            at=NOW,
            attempt=1,
            executor_id="e",
            started=NOW,
            reason="no",
            retry_at=NOW + HOUR,
        )
    else:
        end = RunSucceeded(run_id=queued.run_id, at=NOW, attempt=1, executor_id="e", started=NOW)
    owner.observe_frame(Frame(writer="e", events=(end,)), 2)
    owner.follow_up(NOW)
    return owner.spec_of(run) is not None


def test_a_one_shot_that_has_ended_leaves_no_definition_behind() -> None:
    assert not known_after(*owner_of(Schedule()), retried=False)


def test_a_one_shot_that_is_tried_again_keeps_its_definition() -> None:
    assert known_after(*owner_of(Schedule()), retried=True)


def test_a_schedule_keeps_its_definition() -> None:
    schedule = Schedule(schedule_type="INTERVAL", interval_seconds=1)
    assert known_after(*owner_of(schedule), retried=False)
