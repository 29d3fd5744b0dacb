"""What a fire does while earlier runs are on: one table, every policy."""

from typing import get_args

import pytest

from waterclock.core.domain.partition.due.overlap import QUEUE_LIMIT, decide_overlap
from waterclock.core.domain.partition.state import Run, Waits
from waterclock.proto.policies import Overlap
from waterclock.proto.verdicts import RunStatus


def run(number: int, status: RunStatus = "RUNNING", waits: Waits = "") -> Run:
    return Run(
        run_id=f"job@{number}",
        job_id="job",
        version=1,
        scheduled=number,
        due=number,
        status=status,
        waits=waits,
    )


RUNNING = [run(1)]
ONE_WAITS = [run(1), run(2, "WAITING", "overlap")]
FULL = [run(0), *(run(number, "WAITING", "overlap") for number in range(1, QUEUE_LIMIT + 1))]


TABLE: list[tuple[Overlap, list[Run], bool, str]] = [
    ("allow", RUNNING, False, "queue"),
    ("skip", [], False, "queue"),
    ("skip", RUNNING, False, "skip"),
    ("skip", [run(1, "RETRYING", "timer")], False, "skip"),
    ("skip", RUNNING, True, "wait"),
    ("queue_one", RUNNING, False, "wait"),
    ("queue_one", ONE_WAITS, False, "skip"),
    ("queue_all", ONE_WAITS, False, "wait"),
    ("queue_all", FULL, False, "skip"),
    ("cancel_previous", RUNNING, False, "wait"),
    ("terminate_previous", RUNNING, False, "queue"),
]


@pytest.mark.parametrize(("policy", "active", "caught_up", "verdict"), TABLE)
def test_policies(policy: Overlap, active: list[Run], caught_up: bool, verdict: str) -> None:
    decision = decide_overlap(policy, active, caught_up=caught_up)
    assert decision.verdict == verdict
    if verdict != "queue":
        assert decision.because_of is not None
        assert decision.reason


def test_the_table_has_every_policy() -> None:
    assert {row[0] for row in TABLE} == set(get_args(Overlap))


@pytest.mark.parametrize("policy", ["skip", "queue_one", "queue_all"])
def test_no_policy_drops_a_run_that_a_user_asked_for(policy: Overlap) -> None:
    assert decide_overlap(policy, ONE_WAITS, requested=True).verdict == "wait"


def test_previous_runs_are_stopped_only_where_the_policy_says_so() -> None:
    assert decide_overlap("cancel_previous", ONE_WAITS).cancel == ("job@1", "job@2")
    assert decide_overlap("terminate_previous", ONE_WAITS).terminate == ("job@1", "job@2")
    for policy in ("allow", "skip", "queue_one", "queue_all"):
        decision = decide_overlap(policy, ONE_WAITS)
        assert not decision.cancel
        assert not decision.terminate
