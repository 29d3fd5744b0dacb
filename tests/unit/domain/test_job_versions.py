"""The versions of a job: who, when, what; and in what two definitions differ."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from waterclock.core.domain.job.aggregate import (
    CancelJob,
    CreateJob,
    Job,
    JobCommand,
    PauseJob,
    ResumeJob,
    UpdateJob,
    decide,
    evolve,
)
from waterclock.core.domain.job.difference import field_changes
from waterclock.core.domain.job.parse import define_body
from waterclock.core.domain.job.versions import Version, version_of
from waterclock.proto.events import JobEvent

NOW = 1_794_816_000_000_000


def spec(**fields: Any) -> Any:
    return define_body({"name": "job", "command": "true", "cron": "0 3 * * *", **fields}, NOW)


def history(*commands: JobCommand) -> list[Version]:
    """The versions that commands make, each a second after the one before."""
    found: list[Version] = []
    job: Job | None = None
    before: JobEvent | None = None
    for number, command in enumerate(commands, 1):
        for event in decide(job, command, NOW + number):
            found.append(version_of(number, event, before))
            job, before = evolve(job, event), event
    return found


def test_each_change_says_what_it_did() -> None:
    first, second = spec(), spec(cron="0 4 * * *", priority=3)
    found = history(
        CreateJob(job_id="a", spec=first, actor="token:ann"),
        UpdateJob(spec=second, actor="token:bob"),
        PauseJob(note="lunch", actor="token:ann"),
        UpdateJob(spec=first, restores=1, actor="token:ann"),
        ResumeJob(),
        PauseJob(),
        ResumeJob(missed=True),
        CancelJob(note="done with it"),
        UpdateJob(spec=second, revive=True),
    )
    assert [(one.change, one.fields, one.status) for one in found] == [
        ("created", (), "SCHEDULED"),
        ("updated", ("priority", "cron_expression"), "SCHEDULED"),
        ("paused", (), "PAUSED"),
        ("rollback to version 1", ("priority", "cron_expression"), "PAUSED"),
        ("resumed", (), "SCHEDULED"),
        ("paused", (), "PAUSED"),
        ("resumed with what was missed", (), "SCHEDULED"),
        ("cancelled", (), "CANCELLED"),
        ("revived", ("priority", "cron_expression"), "SCHEDULED"),
    ]
    assert [one.actor for one in found[:3]] == ["token:ann", "token:bob", "token:ann"]
    assert [one.note for one in found] == ["", "", "lunch", "", "", "", "", "done with it", ""]


def test_a_workflow_s_nodes_are_one_of_its_fields() -> None:
    nodes = [{"id": "a", "command": "true"}]
    graph = define_body({"name": "w", "nodes": nodes}, NOW)
    longer = define_body({"name": "w", "nodes": [*nodes, {"id": "b", "command": "true"}]}, NOW)
    [_, second] = history(CreateJob(job_id="w", spec=graph), UpdateJob(spec=longer))
    assert second.fields == ("nodes",)
    [_, third] = history(CreateJob(job_id="w", spec=graph), UpdateJob(spec=spec(name="w")))
    assert set(third.fields) >= {"nodes", "task", "cron_expression"}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"env": {"A": "1", "B": "2"}}, {"env": {"A": "1"}}, [("env.B", "2", UNSET)]),
        ({}, {"env": {"A": "1"}}, [("env", UNSET, {"A": "1"})]),
        ({"ok": [1, 2]}, {"ok": [2, 1]}, [("ok", [1, 2], [2, 1])]),
        (
            {"nodes": [{"id": "a", "x": 1}, {"id": "b", "x": 1}]},
            {"nodes": [{"id": "b", "x": 2}, {"id": "c", "x": 1}]},
            [
                ("nodes[a]", {"id": "a", "x": 1}, UNSET),
                ("nodes[b].x", 1, 2),
                ("nodes[c]", UNSET, {"id": "c", "x": 1}),
            ],
        ),
        ({"nodes": [{"id": "a"}, {"id": "b"}]}, {"nodes": [{"id": "b"}, {"id": "a"}]},
         [("nodes", ["a", "b"], ["b", "a"])]),
        ({"over": [{"id": 1}]}, {"over": [{"id": 2}]}, [("over", [{"id": 1}], [{"id": 2}])]),
    ],
)  # fmt: skip
def test_a_difference_is_named_by_its_path(before: Any, after: Any, changes: list[Any]) -> None:
    found = [(one.field, one.before, one.after) for one in field_changes(before, after)]
    assert found == changes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from("xy"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", "b"]), inner),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from("abcd"), json_values)


@given(objects, objects)
def test_what_differs_is_found_and_nothing_else(before: Any, after: Any) -> None:
    found = list(field_changes(before, after))
    assert bool(found) == (before != after)
    assert list(field_changes(after, after)) == []
    assert len({one.field for one in found}) == len(found)
