"""Answers of a bulk call: numbered through over several requests, and with ids as their owner knows them."""

from datetime import UTC, datetime

import msgspec

from waterclock.api.auth.namespaces import inward, outward
from waterclock.api.client.messages import batches, numbered_on
from waterclock.proto.answers import BatchResult
from waterclock.proto.commands import Redrive
from waterclock.proto.problem import FieldError

WHEN = datetime(2031, 1, 1, tzinfo=UTC)


def test_definitions_are_cut_into_requests_and_none_is_lost() -> None:
    lines = [b'{"name":"%d"}' % number for number in range(1_201)]
    cut = [*batches(lines)]
    assert [start for start, _ in cut] == [0, 500, 1_000]
    assert [bytes(line) for _, batch in cut for line in batch.jobs] == lines
    assert len({batch.idempotency_key for _, batch in cut}) == 3
    assert [*batches([])] == []


def test_large_definitions_go_in_smaller_requests() -> None:
    lines = [b'"%b"' % (b"x" * 200_000)] * 5
    assert [len(batch.jobs) for _, batch in batches(lines)] == [2, 2, 1]


def test_results_of_later_requests_go_on_counting() -> None:
    answer = msgspec.json.encode([{"line": n, "status": "SCHEDULED", "job_id": f"j{n}"} for n in (1, 2)])
    first, second = (
        numbered_on(msgspec.json.decode(answer, type=list[BatchResult]), start) for start in (0, 500)
    )
    assert [(result.line, result.job_id) for result in first + second] == [
        (1, "j1"),
        (2, "j2"),
        (501, "j1"),
        (502, "j2"),
    ]


def test_ids_lose_their_namespace_and_nothing_else_changes() -> None:
    refused = BatchResult(
        line=2, status=422, title="acme=t", errors=(FieldError(field="name", reason="acme=r"),)
    )
    made = BatchResult(
        line=1, status="SCHEDULED", job_id="acme=a~1", version=3, next_run_at=WHEN, created=True
    )
    shown = outward("acme", [made, refused])
    assert shown == [msgspec.structs.replace(made, job_id="a~1"), refused]
    assert outward("default", [made, refused]) == [made, refused]


def test_ids_of_a_request_get_their_namespace() -> None:
    asked = inward("acme", Redrive(run_ids=("a@1", "b@2")))
    assert asked == Redrive(run_ids=("acme=a@1", "acme=b@2"))
