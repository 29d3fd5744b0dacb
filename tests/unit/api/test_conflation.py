"""Many changes become one message: the newest of each, and how many there were."""

from datetime import UTC, datetime
from typing import Any

import pytest

from waterclock.api.errors import Invalid
from waterclock.api.queries.changes import Conflation, Selection, read_interval
from waterclock.proto.answers import Change


def change(run_id: str | None, type: str = "queued", status: Any = "QUEUED", job_id: str = "job") -> Change:
    return Change(position="", type=type, at=datetime.now(UTC), job_id=job_id, run_id=run_id, status=status)


def test_the_newest_of_each_run_is_shown_and_all_are_counted() -> None:
    pending = Conflation()
    for each in (
        change("job@1"),
        change("job@2"),
        change("job@1", "succeeded", "SUCCESS"),
        change(None, "job_paused", "PAUSED"),
    ):
        pending.add(each)
    message = pending.take("3-4")
    assert (message.type, message.position, message.counts, message.left_out) == (
        "conflated",
        "3-4",
        {"QUEUED": 2, "SUCCESS": 1},
        0,
    )
    assert [(each.run_id, each.type) for each in message.changes or ()] == [
        ("job@2", "queued"),
        ("job@1", "succeeded"),
        (None, "job_paused"),
    ]
    assert not pending


def test_a_change_without_a_status_leaves_it_as_it_was() -> None:
    pending = Conflation()
    pending.add(change("job@1", "started", "RUNNING"))
    pending.add(change("job@1", "cancel_requested", None))
    (newest,) = pending.take("").changes or [change(None)]
    assert (newest.type, newest.status) == ("cancel_requested", "RUNNING")


def test_what_is_too_much_is_said_and_not_kept() -> None:
    pending = Conflation()
    for number in range(5000):
        pending.add(change(f"job@{number}"))
    message = pending.take("")
    assert (len(message.changes or ()), message.left_out, message.counts) == (1000, 4000, {"QUEUED": 5000})


@pytest.mark.parametrize(("text", "seconds"), [("200ms", 0.2), ("1s", 1.0), ("1m", 60.0)])
def test_how_often_is_a_duration(text: str, seconds: float) -> None:
    assert read_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1ms", "2h", "often"])
def test_what_is_none_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_interval(text)
    assert [error.field for error in refused.value.problem.errors] == ["conflate"]


def test_a_workflow_run_is_watched_with_its_parts() -> None:
    selection = Selection(namespace="default", workflow_run="flow@1")
    wanted = [
        id
        for id in ("flow@1", "flow@1~a", "flow@1~a~7", "flow@11", "flow@11~a", "other@1")
        if selection.wants(change(id, job_id="flow"))
    ]
    assert wanted == ["flow@1", "flow@1~a", "flow@1~a~7"]
    some = Selection(namespace="default", ids=frozenset({"job", "flow@2"}))
    assert [
        some.wants(change(id, job_id=job))
        for id, job in (("job@1", "job"), ("flow@2", "flow"), ("flow@3", "flow"))
    ] == [
        True,
        True,
        False,
    ]
