"""A frame that comes again after a break is not shown twice."""

from datetime import UTC, datetime

from waterclock.api.client.streams import Seen
from waterclock.proto.answers import Change

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_change_is_new_once() -> None:
    seen = Seen()
    queued = Change(position="0-1", type="queued", at=AT, job_id="a", run_id="a@x", attempt_number=1)
    again = Change(position="0-2", type="queued", at=AT, job_id="a", run_id="a@x", attempt_number=1)
    other = Change(position="0-2", type="queued", at=AT, job_id="a", run_id="a@x", attempt_number=2)
    assert [seen.is_new(change) for change in (queued, again, other, queued)] == [True, False, True, False]


def test_what_is_remembered_does_not_grow() -> None:
    seen = Seen()
    for number in range(5000):
        seen.is_new(Change(position="", type="queued", at=AT, run_id=f"a@{number}"))
    assert len(seen._keys) <= 2000
