"""Untrusted input ends in a struct or in a refusal that names the field, never in anything else."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.api import decoding, request_bodies
from waterclock.api.errors import Invalid, Malformed, Refused
from waterclock.proto.commands import JobBatch
from waterclock.proto.queries import JobsQuery
from waterclock.proto.spec import JobRequest


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        (b"{", Malformed, ""),
        (b"nonsense", Malformed, ""),
        (b'{"name": "\xff"}', Malformed, ""),
        (b'{"payload": ' + b"[" * 100_000, Malformed, ""),
        (b'{"name": "\\ud800"}', Malformed, ""),
        (b"[]", Malformed, ""),
        (b"null", Malformed, ""),
        (b'"text"', Malformed, ""),
        (b'{"surprise": 1}', Invalid, "surprise"),
        (b'{"retry": {"surprise": 1}}', Invalid, "retry.surprise"),
        (b'{"max_retries": "three"}', Invalid, "max_retries"),
        (b'{"nodes": [{"command": "x"}]}', Invalid, "nodes[0].id"),
        (b'{"schedule_time": "tomorrow"}', Invalid, "schedule_time"),
        (b'{"payload": 1e999}', Invalid, "payload"),
    ],
)
def test_bad_input_names_the_field(body: bytes, kind: type[Refused], field: str) -> None:
    with pytest.raises(kind) as refused:
        decoding.decode(body, JobRequest)
    assert [error.field for error in refused.value.problem.errors] == [field]
    assert refused.value.problem.errors[0].reason


def _status(body: bytes) -> int | None:
    """With what the body is refused; None if it is taken."""
    try:
        decoding.decode(body, JobRequest)
    except Refused as refused:
        return refused.problem.status
    return None


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_request_or_a_refusal(body: bytes) -> None:
    assert _status(body) in (None, 400, 422)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_ends_in_a_request_or_a_refusal(value: object) -> None:
    assert _status(msgspec.json.encode(value)) in (None, 400, 422)


def test_text_becomes_numbers_where_a_query_has_only_text() -> None:
    assert decoding.convert({"limit": "7"}, JobsQuery, text=True).limit == 7
    with pytest.raises(Invalid) as refused:
        decoding.convert({"limit": "many"}, JobsQuery, text=True)
    assert refused.value.problem.errors[0].field == "limit"


DEEP = b'{"payload":' + b"[" * 200 + b"]" * 200 + b"}"
LONG = b'{"payload":' + b"9" * 5_000 + b"}"


@pytest.mark.parametrize(
    "odd", [DEEP, LONG, b'{"payload":1e400}', b'{"name":"\xff"}', b'{"name":"\\u0000"}', b"1"]
)
def test_one_odd_part_of_a_bulk_call_is_for_its_reader_to_refuse(odd: bytes) -> None:
    body = b'{"jobs":[%b,{"name":"good"}],"idempotency_key":"k"}' % odd
    read = request_bodies.read(body, JobBatch)
    assert ([bytes(line) for line in read.jobs], read.idempotency_key) == ([odd, b'{"name":"good"}'], "k")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"jobs":1}',
        b'{"jobs":[{]}',
        b'{"jobs":[],"more":1}',
        b'{"jobs":[],"idempotency_key":"\\u0000"}',
        b'{"jobs":[],"idempotency_key":"\xff"}',
        b'{"jobs":[' + b"[" * 100_000,
    ],
)
def test_what_is_wrong_with_the_whole_of_a_bulk_call_is_said_as_of_any_other(body: bytes) -> None:
    with pytest.raises(Refused) as wanted:
        decoding.decode(body, JobBatch)
    with pytest.raises(Refused) as found:
        request_bodies.read(body, JobBatch)
    assert found.value.problem == wanted.value.problem
