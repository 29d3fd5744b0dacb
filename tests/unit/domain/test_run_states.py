"""The run state machine: every (state, event) pair, and the picture made from the same table."""

import itertools
from pathlib import Path

import pytest

from waterclock.core.domain.run import states
from waterclock.core.domain.run.states import picture
from waterclock.proto import events
from waterclock.proto.verdicts import ACTIVE, TERMINAL, RunStatus

ROOT = Path(__file__).parents[3]
KINDS = [kind for kind in events.RunEvent.__args__ if kind not in states.EVIDENCE]


@pytest.mark.parametrize(
    ("status", "kind"),
    list(itertools.product([None, *sorted(ACTIVE), *sorted(TERMINAL)], KINDS)),
)
def test_every_step_leads_to_a_state_of_the_table_or_nowhere(status: RunStatus | None, kind: type) -> None:
    target = states.TRANSITIONS[status].get(kind)
    reached = target if isinstance(target, tuple) else (target,)
    assert set(reached) <= {None, *ACTIVE, *TERMINAL}
    if status in TERMINAL:
        assert set(reached) <= {None, "WAITING"}, "an ended run changes only by being redriven"


def test_every_state_can_be_reached_and_every_active_one_can_end() -> None:
    reached: set[RunStatus | None] = {None}
    while True:
        more = {
            target
            for status in reached
            for step in states.TRANSITIONS[status].values()
            for target in (step if isinstance(step, tuple) else (step,))
        }
        if more <= reached:
            break
        reached |= more
    assert reached == {None, *ACTIVE, *TERMINAL}
    for status in ACTIVE:
        ends = {
            t
            for step in states.TRANSITIONS[status].values()
            for t in (step if isinstance(step, tuple) else (step,))
        }
        assert ends & TERMINAL


def test_evidence_changes_nothing() -> None:
    for status in states.TRANSITIONS:
        assert not set(states.EVIDENCE) & set(states.TRANSITIONS[status])


def test_the_picture_in_the_docs_is_the_table() -> None:
    stored = (ROOT / "docs" / "run-states.md").read_text()
    assert stored == picture(), "run: python -m waterclock.core.domain.run.states > docs/run-states.md"
