"""Which attempts share a message: the same ones whoever makes it, of one line, not too many, and only what may."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.parcels import MOST, may_travel_with_others
from waterclock.core.domain.partition.room import UnlimitedRoom
from waterclock.core.domain.partition.state import PartitionState, Run
from waterclock.core.domain.timing_index import HORIZON
from waterclock.core.jetstream.publisher import Message
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_work, encode
from waterclock.proto.events import (
    Cursor,
    Frame,
    RunCancelRequested,
    RunEvent,
    RunLost,
    RunQueued,
    RunReturned,
)
from waterclock.proto.spec import Argv, Handler, JobSpec, Task
from waterclock.proto.work import ClaimRequest, WorkItem
from waterclock.scheduler.jetstream.work_queue import work_message
from waterclock.scheduler.ports import WorkMessage
from waterclock.scheduler.work_items import _with_their_parcels, packed, recovered_item, work_item

NOW = 1_790_000_000_000_000

tasks: st.SearchStrategy[Task] = st.sampled_from(
    [Handler(handler="a"), Handler(handler="b"), Argv(command=("true",))]
)
specs = st.builds(
    JobSpec,
    name=st.just("job"),
    task=tasks,
    tier=st.sampled_from(["light", "heavy"]),
    priority=st.sampled_from([0, 5, 95]),
    slots=st.sampled_from([1, 1, 1, 2]),
    concurrency_key=st.sampled_from([None, None, None, "key"]),
    payload=st.sampled_from([None, {"small": 1}, "large" * 2_000]),
)


class PackedRoom(UnlimitedRoom):
    def __init__(self, size: int) -> None:
        self.size = size

    def parcel_size(self, route: str) -> int:
        return self.size


def decide(wanted: Sequence[JobSpec], size: int) -> list[tuple[RunQueued, JobSpec]]:
    """What a pass queues."""
    decisions = Decisions(PartitionState(), PackedRoom(size))
    dispatch = Dispatch(decisions, Definitions())
    for number, spec in enumerate(wanted):
        dispatch.queue(f"job{number}@now-1", 1, spec, scheduled=NOW, due=NOW, now=NOW)
    return decisions.take_pass().queued


def messages_of(queued: Sequence[tuple[RunQueued, JobSpec]]) -> list[WorkMessage]:
    return packed((event.parcel, work_item(event, spec)) for event, spec in queued)


def line_of(item: WorkItem) -> tuple[str, str | None, str, int]:
    handler = item.spec.task.handler if isinstance(item.spec.task, Handler) else None
    return item.spec.queue, handler, item.spec.tier, item.spec.priority


@given(wanted=st.lists(specs, max_size=60), size=st.sampled_from([1, 2, 7, 64, 1000]))
def test_all_is_packed_once_by_line_and_bounded(wanted: list[JobSpec], size: int) -> None:
    messages = messages_of(decide(wanted, size))
    run_ids = [item.run_id for message in messages for item in message.items]
    assert sorted(run_ids) == sorted(f"job{number}@now-1" for number in range(len(wanted)))
    for message in messages:
        assert len({line_of(item) for item in message.items}) == 1, "lines are never mixed"
        assert len(message.items) <= min(size, MOST)
        if message.parcel:
            assert message.parcel == message.items[0].run_id
            assert all(may_travel_with_others(item.spec) for item in message.items)
        else:
            assert len(message.items) == 1
            assert size == 1 or not may_travel_with_others(message.items[0].spec)
    sent = [work_message(message) for message in messages]
    assert len({message.subject for message in sent}) == len(sent), "each has a subject of its own"


@given(
    wanted=st.lists(specs, min_size=1, max_size=40),
    size=st.sampled_from([2, 7, 64]),
    data=st.data(),
)
def test_whoever_takes_over_makes_the_same_parcels_of_the_frame(
    wanted: list[JobSpec], size: int, data: st.DataObject
) -> None:
    """From the log as it is stored, whichever of the runs are in doubt: the queue refuses what it still holds."""
    queued = decide(wanted, size)
    first = {message.subject: message for message in map(work_message, messages_of(queued))}
    events: tuple[RunEvent, ...] = tuple(event for event, _ in queued)
    owner = Owner(3, PartitionState(), NOW)
    frame = Frame(writer="w", events=events, cursor=Cursor(jobs=1, time=NOW))
    owner.replay(decode_frame(encode(frame)), 17)
    spec_of = {event.run_id: spec for event, spec in queued}
    doubts = data.draw(st.lists(st.sampled_from([event.run_id for event in events]), unique=True))
    found = _with_their_parcels(owner, doubts)
    again = [
        work_message(message)
        for message in packed((run.parcel, recovered_item(run, spec_of[run.run_id])) for run in found)
    ]
    assert {run.run_id for run in found} >= set(doubts)
    for message in again:
        assert _run_ids(message) == _run_ids(first[message.subject]), "whole parcels, under the same subject"


def _run_ids(message: Message) -> list[str]:
    return [item.run_id for item in decode_work(message.data)]


def test_a_message_of_the_version_before_is_read() -> None:
    spec = JobSpec(name="job", task=Handler(handler="a"))
    item = WorkItem(run_id="job@now-1", job_id="job", version=1, spec=spec, scheduled=1, due=1, queued=1)
    assert decode_work(encode(item)) == (item,)


@pytest.mark.parametrize("queue", ["default", "parcel"])
def test_only_a_parcel_is_taken_for_one(queue: str) -> None:
    line = names.work_line(names.route_of(queue, "parcel"), "light", "0")
    assert names.is_parcel(names.parcel_in(line, "parcel@now-1", 1))
    assert not names.is_parcel(names.work_in(line, "parcel@now-1", 1))


# -- an owner whose runs travel in a parcel --------------------------------------------------------------


def owner_of_parcel(count: int = 3) -> Owner:
    queued = decide([JobSpec(name="job", task=Handler(handler="a"))] * count, 64)
    owner = Owner(3, PartitionState(), NOW)
    events: tuple[RunEvent, ...] = tuple(event for event, _ in queued)
    owner.replay(Frame(writer="w", events=events), 1)
    return owner


def claim_of(run: Run, **fields: object) -> ClaimRequest:
    request = ClaimRequest(
        run_id=run.run_id, attempt=1, queued=run.queued_at, executor_id="b", delivered=2, in_parcel=True
    )
    return msgspec.structs.replace(request, **fields)


def test_what_has_not_begun_of_a_parcel_that_comes_back_is_queued_again_by_itself() -> None:
    """So whatever killed its executor does so alone."""
    owner = owner_of_parcel()
    run = owner.state.runs["job1@now-1"]
    assert owner.claim(claim_of(run), False, NOW + 1).verdict == "drop"
    assert [type(event) for event in owner.take_pass().events] == [RunLost, RunReturned]
    assert (run.status, run.waits, run.crash_count) == ("WAITING", "timer", 0)
    owner.remember_definition("job1", 1, JobSpec(name="job", task=Handler(handler="a")))
    owner.loaded(NOW + HORIZON)
    owner.tick(NOW + SECOND)
    (again,) = owner.take_pass().events
    assert isinstance(again, RunQueued)
    assert (again.attempt, again.parcel) == (1, "")


def test_a_parcel_that_is_recovered_runs_as_it_is() -> None:
    owner = owner_of_parcel()
    run = owner.state.runs["job1@now-1"]
    assert owner.claim(claim_of(run, delivered=1), False, NOW + 1).verdict == "run"
    assert not owner.take_pass().events


def test_a_cancelled_run_is_recalled_and_its_parcel_stays() -> None:
    owner = owner_of_parcel()
    run = owner.state.runs["job1@now-1"]
    frame = Frame(writer="api", events=(RunCancelRequested(run_id=run.run_id, at=NOW + 1, actor="user"),))
    owner.observe_frame(frame, 2)
    owner.follow_up(NOW + 1)
    decided = owner.take_pass()
    assert decided.recalled == [(run.run_id, run.queued_at)]
    assert decided.withdrawn == []
    assert [stop.run_id for _, stop in decided.stops] == [run.run_id]
    assert run.run_id not in owner.state.runs
