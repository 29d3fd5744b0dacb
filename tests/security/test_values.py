"""F5: a value from outside is within one bound, or is refused; what a user wrote fails that user's run and no other."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from waterclock.api import decoding, request_bodies
from waterclock.api.errors import Refused
from waterclock.core.domain.job.parse import define_body
from waterclock.core.domain.job.validate import InvalidDefinition
from waterclock.core.domain.workflow.conditions import Unusable, expression_of
from waterclock.core.domain.workflow.node_specs import filled
from waterclock.core.domain.workflow.shape import shape_of
from waterclock.executor.perform.results import InvalidOutput, encode_output, parse_output
from waterclock.proto.codec import decode_frame, encode
from waterclock.proto.commands import RunNow
from waterclock.proto.events import Frame, RunSucceeded
from waterclock.proto.spec import Argv, JobRequest, JobSpec, Node, Schedule, Shell, Workflow
from waterclock.proto.values import MAX_DEPTH, MAX_DIGITS, UnfitValue, decode_value

DEEP = b"[" * 966 + b"]" * 966
HIDDEN = b'["]",' * 200 + b"1" + b"]" * 200
"""As deep, but its brackets look balanced to whoever counts those in texts too."""
LONG = b"9" * 4_000
LONGER = b"9" * 5_000
UNFIT = {"deep": DEEP, "hidden": HIDDEN, "long": LONG, "longer": LONGER, "minus": b"-" + LONG}
FIT = [
    b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    b"9" * MAX_DIGITS,
    b'"' + b"[" * 500 + b'"',
    json.dumps("9" * 500).encode(),
    json.dumps([[1]] * 500).encode(),
]

NOW = 1_700_000_000_000_000


@pytest.mark.parametrize("name", UNFIT)
@pytest.mark.parametrize("field", ["payload", "metadata"])
def test_a_definition_with_an_unfit_value_is_refused(field: str, name: str) -> None:
    value = UNFIT[name] if field == "payload" else b'{"a":' + UNFIT[name] + b"}"
    body = b'{"name":"a","command":"true","' + field.encode() + b'":' + value + b"}"
    with pytest.raises(InvalidDefinition):
        define_body(body, NOW)
    with pytest.raises(Refused) as refused:
        request_bodies.read(body, JobRequest)
    assert refused.value.problem.status in (400, 422)


@pytest.mark.parametrize("value", FIT)
def test_a_definition_with_a_fit_value_is_taken(value: bytes) -> None:
    spec = define_body(b'{"name":"a","command":"true","payload":' + value + b"}", NOW)
    assert spec.payload == json.loads(value)


@pytest.mark.parametrize("name", UNFIT)
def test_parameters_of_a_run_are_bounded(name: str) -> None:
    body = b'{"job_id":"a","parameters":{"x":' + UNFIT[name] + b"}}"
    with pytest.raises(Refused) as refused:
        decoding.decode(body, RunNow)
    assert refused.value.problem.status in (400, 422)


@pytest.mark.parametrize("name", UNFIT)
def test_an_unfit_last_line_is_text_and_no_value(name: str) -> None:
    assert parse_output(UNFIT[name]) is None


@pytest.mark.parametrize("value", FIT)
def test_a_fit_last_line_is_a_value(value: bytes) -> None:
    assert parse_output(value) == json.loads(value)


@pytest.mark.parametrize("name", UNFIT)
def test_a_handler_that_returns_an_unfit_value_is_told(name: str) -> None:
    with pytest.raises(InvalidOutput):
        encode_output(msgspec.Raw(UNFIT[name]))


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_deep_output_of_the_version_before_is_shown_as_a_text_and_its_neighbours_as_they_are() -> None:
    def succeeded(run: str, output: Any) -> RunSucceeded:
        return RunSucceeded(run_id=run, at=1, attempt=1, executor_id="e", started=1, output=output)

    frame = Frame(writer="e", events=(succeeded("a@1", {"rows": 1}), succeeded("b@1", _nested(900))))
    first, second = decode_frame(encode(frame)).events
    assert isinstance(first, RunSucceeded)
    assert first.output == {"rows": 1}
    assert isinstance(second, RunSucceeded)
    assert second.output == "(not shown: it is nested too deeply)"


SCOPE = {
    "parameters": {"big": "x" * 64_000, "deep": _nested(60), "number": 10**90, "list": [1]},
    "nodes": {},
    "run_id": "a@1",
}
ATTACKS = [
    "{{ parameters.list[" + "9" * 5_000 + "] }}",
    "{{ parameters.list[-" + "9" * 5_000 + "] }}",
    "{{ parameters.list." + "9" * 5_000 + " }}",
    "{{ nodes[" + "9" * 20 + "] }}",
    "{{ parameters.big }}" * 1_000,
    "{{ parameters.missing }}",
    "{{ " + "a." * 5_000 + "b }}",
]


@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("where", ["shell", "argument", "payload", "key"])
def test_a_template_that_cannot_be_filled_is_unusable_and_nothing_else(text: str, where: str) -> None:
    task = (
        Shell(command=text)
        if where == "shell"
        else Argv(command=("echo", text if where == "argument" else "x"))
    )
    payload = {"payload": [text], "key": {text: 1}}.get(where)
    spec = JobSpec(name="a", task=task, schedule=Schedule(), payload=payload)
    with pytest.raises(Unusable):
        filled(spec, SCOPE)


def test_a_template_cannot_nest_values_beyond_the_bound() -> None:
    payload = json.loads("[" * 20 + '"{{ parameters.deep }}"' + "]" * 20)
    with pytest.raises(Unusable, match="nested too deeply"):
        filled(JobSpec(name="a", task=Shell(command="x"), schedule=Schedule(), payload=payload), SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5_000 + " == 1",
        "parameters.list[" + "9" * 5_000 + "] == 1",
        "(" * 5_000 + "1" + ")" * 5_000,
        "[" * 5_000 + "1" + "]" * 5_000,
        "not " * 5_000 + "parameters.missing",
        "parameters.number < 'a'",
        "parameters.number in parameters.number",
        "'" + "x" * 100_000,
    ],
)
def test_a_condition_that_cannot_be_told_is_unusable_and_nothing_else(text: str) -> None:
    with pytest.raises(Unusable):
        expression_of(text).holds(SCOPE)


@pytest.mark.parametrize("text", ATTACKS[:3])
def test_a_workflow_of_the_version_before_with_such_a_text_can_still_be_read(text: str) -> None:
    """It was accepted and is in the log: its owner must come up, and only the node fails."""
    bad = Node(id="bad", task=Shell(command=text))
    good = Node(id="good", task=Shell(command="echo {{ nodes.first.output }}"), depends_on=("first",))
    shape = shape_of(Workflow(nodes=(Node(id="first", task=Shell(command="true")), bad, good)))
    assert shape.reads == {"first": frozenset(), "bad": frozenset(), "good": frozenset(("first",))}


@pytest.mark.parametrize("text", ATTACKS[:2])
def test_a_new_workflow_with_such_a_text_is_refused(text: str) -> None:
    body = {"name": "w", "nodes": [{"id": "bad", "command": text}]}
    with pytest.raises(InvalidDefinition) as refused:
        define_body(json.dumps(body).encode(), NOW)
    assert refused.value.errors[0].field == "nodes[0]"


@given(text=some.text(alphabet="{}[]().,'\" 0123456789abnotinparametersd_-<>=!&|\\", max_size=200))
@settings(max_examples=500)
def test_no_text_does_anything_but_hold_or_be_unusable(text: str) -> None:
    try:
        expression_of(text).holds(SCOPE)
    except Unusable:
        pass
    spec = JobSpec(name="a", task=Shell(command=text), schedule=Schedule(), payload={text: [text]})
    try:
        filled(spec, SCOPE)
    except Unusable:
        pass


@given(
    data=some.binary(max_size=300)
    | some.text(alphabet='[]{}",:0123456789.eE-\\u', max_size=300).map(str.encode)
)
@settings(max_examples=500)
def test_any_bytes_are_a_value_or_unfit(data: bytes) -> None:
    try:
        value = decode_value(data)
    except UnfitValue:
        return
    assert decode_value(msgspec.json.encode(value)) == value
