"""The short way to the row of a run that is queued first gives what the general way does."""

from hypothesis import given
from hypothesis import strategies as st

from projector_rig.builders import T0, queued
from waterclock.core.domain.ids import job_of, member_run, node_run, run_id
from waterclock.core.domain.readmodel.rows import RunRow
from waterclock.core.domain.readmodel.run_fold import new_run_row
from waterclock.core.domain.readmodel.run_steps import write_step
from waterclock.core.domain.run.states import transition
from waterclock.proto.events import RunQueued, Trigger

WHOLE = run_id("job", T0)
IDS: dict[str, tuple[str, Trigger]] = {
    WHOLE: ("job", "schedule"),
    "job@now-c1": ("job", "now"),
    node_run(WHOLE, "load"): ("job~load", "workflow"),
    member_run(WHOLE, 7): ("job~member", "fan_out"),
    member_run(node_run(WHOLE, "load"), 7, 2): ("job~load~member", "fan_out"),
}
"""Which job each run is listed under."""


@st.composite
def firsts(draw: st.DrawFn) -> RunQueued:
    name = draw(st.sampled_from(sorted(IDS)))
    return queued(
        run_id=name,
        at=T0 + draw(st.integers(0, 9)),
        due=T0 + draw(st.integers(0, 9)),
        version=draw(st.integers(1, 9)),
        attempt=draw(st.integers(1, 3)),
        crash_count=draw(st.integers(0, 3)),
        trigger=IDS[name][1],
        queue=draw(st.sampled_from(("default", "slow"))),
        tier=draw(st.sampled_from(("light", "heavy"))),
        priority=draw(st.integers(-5, 5)),
        handler=draw(st.sampled_from((None, "mail"))),
        parent=draw(st.sampled_from((None, WHOLE))),
        epoch=draw(st.sampled_from((None, 3))),
        again=draw(st.booleans()),
    )


@given(firsts(), st.integers(1, 9))
def test_both_ways_give_the_same_row(event: RunQueued, sequence: int) -> None:
    row = RunRow(
        run_id=event.run_id,
        job_id=IDS[event.run_id][0],
        namespace="research",
        workflow_run_id=event.parent,
        epoch=event.epoch,
        status="WAITING",
        trigger=event.trigger,
        version=event.version,
        scheduled_time=event.scheduled,
        due_time=event.due,
        modified_time=event.at,
        first_sequence=sequence,
        last_sequence=sequence,
        created_at=event.at,
    )
    write_step(row, event)
    status = transition(None, event)
    assert status is not None
    row.status = status
    assert new_run_row(event, sequence, "research") == (row, None)
    assert row.job_id.startswith(job_of(event.run_id))
