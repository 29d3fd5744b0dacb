"""What is run again, and how the rest of a wave stands."""

import pytest

from waterclock.core.domain.workflow.shape import outcomes, shape_of, to_run_again
from waterclock.proto.spec import Node, Shell, Workflow

TRUE = Shell(command="true")
SHAPE = shape_of(
    Workflow(
        nodes=(
            Node(id="a", task=TRUE),
            Node(id="b", task=TRUE, depends_on=("a",)),
            Node(id="c", task=TRUE, depends_on=("b",)),
            Node(id="d", task=TRUE, depends_on=("c",)),
            Node(id="side", task=TRUE, depends_on=("a",), condition="false"),
            Node(id="end", task=TRUE, depends_on=("d", "side"), trigger_rule="all_done"),
        )
    )
)
FAILED = {"a": "SUCCESS", "b": "FAILED", "c": "SKIPPED", "d": "SKIPPED", "side": "SKIPPED", "end": "SUCCESS"}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ((), {"b", "c", "d", "end"}),
        (("d",), {"d", "end"}),
        (("side",), {"side", "end"}),
        (("a",), {"a", "b", "c", "d", "side", "end"}),
    ],
)
def test_what_is_run_again(chosen: tuple[str, ...], expected: set[str]) -> None:
    assert to_run_again(SHAPE, FAILED, chosen) == expected


def test_nothing_is_run_again_after_a_success() -> None:
    assert to_run_again(SHAPE, dict.fromkeys(SHAPE.nodes, "SUCCESS")) == set()


def test_a_node_that_never_was_is_run_again() -> None:
    assert to_run_again(SHAPE, {"a": "SUCCESS", "b": "CANCELLED"}) == {"b", "c", "d", "side", "end"}


def test_a_skip_for_a_failure_is_told_from_a_skip_by_choice() -> None:
    assert outcomes(SHAPE, FAILED) == {
        "a": "success",
        "b": "failed",
        "c": "blocked",
        "d": "blocked",
        "side": "skipped",
        "end": "success",
    }
