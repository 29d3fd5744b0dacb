"""Templates and conditions: what they give, what they refuse, and that a shell never runs a value."""

import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.core.domain.job.parse import InvalidDefinition, define_body
from waterclock.core.domain.workflow.conditions import Unusable, expression_of
from waterclock.core.domain.workflow.template import render, render_shell

SCOPE: dict[str, Any] = {
    "nodes": {
        "fetch": {"status": "SUCCESS", "output": {"rows": 3, "names": ["a", "b"], "deep": {"x-y": None}}},
        "load-2": {"status": "FAILED", "output": None},
    },
    "parameters": {"day": "2026-11-16", "full": False, "n": 3},
    "scheduled_time": "2026-11-16T03:00:00Z",
    "epoch": 7,
    "run_id": "w@now-1",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ nodes.fetch.output.rows }}", 3),
        ("{{nodes.fetch.output}}", SCOPE["nodes"]["fetch"]["output"]),
        ("{{ nodes.fetch.output.names[1] }}", "b"),
        ("{{ nodes.fetch.output.names.0 }}", "a"),
        ("{{ nodes.fetch.output.deep.x-y }}", None),
        ("{{ nodes.load-2.status }}", "FAILED"),
        ("rows={{ nodes.fetch.output.rows }};", "rows=3;"),
        ("{{ nodes.fetch.output.names }}!", '["a","b"]!'),
        ("day {{ parameters.day }} of {{ epoch }}", "day 2026-11-16 of 7"),
        ("{{ .Names }} and {{ json . }} and {{", "{{ .Names }} and {{ json . }} and {{"),
        (
            {"at": "{{ scheduled_time }}", "list": ["{{ epoch }}"]},
            {"at": SCOPE["scheduled_time"], "list": [7]},
        ),
    ],
)
def test_templates(text: Any, expected: Any) -> None:
    assert render(text, SCOPE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ nodes.fetch.output.lost }}",
        "{{ nodes.fetch.output.names[5] }}",
        "{{ item }}",
        "{{ nodes.x.output }}",
    ],
)
def test_a_template_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(Unusable):
        render(text, SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes.fetch.output.rows > 2", True),
        ("{{ nodes.fetch.output.rows }} >= 4", False),
        ("nodes.fetch.output.rows == 3 and not parameters.full", True),
        ("parameters.full or nodes.load-2.status == 'FAILED'", True),
        ('parameters.day in ["2026-11-15", "2026-11-16"]', True),
        ("'c' not in nodes.fetch.output.names", True),
        ("'{{ parameters.n }}' == '3'", True),
        ("!(parameters.full || epoch < 7) && true", True),
        ("{{ parameters.full }}", False),
        ("nodes.load-2.output == null", True),
        ("-1 < 0 and 1.5 > 1", True),
        ("not not parameters.n", True),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert expression_of(text).holds(SCOPE) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nodes.fetch.output.rows >",
        "(epoch",
        "epoch epoch",
        "env.HOME == ''",
        "__import__('os')",
        "epoch = 7",
        "epoch + 1 > 2",
        "(" * 60 + "epoch" + ")" * 60,
        "parameters.day > 3",
    ],
)
def test_a_condition_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(Unusable):
        expression_of(text).holds(SCOPE)


@given(st.text(alphabet="{}[]()'\"nodesepch.<>=! -01andort,\\", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        expression_of(text).holds(SCOPE)
    except Unusable:
        pass


@pytest.mark.parametrize("quoted", ["{{ parameters.v }}", '"{{ parameters.v }}"', "'{{ parameters.v }}'"])
@settings(max_examples=15)
@given(value=st.text(alphabet="ab '\"$(){};`\\|&<>\n*~", min_size=1, max_size=20))
def test_a_shell_gets_values_as_they_are_in_any_quotes(quoted: str, value: str) -> None:
    command, variables = render_shell(f"printf %s {quoted}", {"parameters": {"v": value}})
    said = subprocess.run(["sh", "-c", command], env=variables, capture_output=True, check=True)
    assert said.stdout.decode() == value


def refusal(*nodes: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDefinition) as caught:
        define_body({"name": "w", "nodes": list(nodes)}, now=0)
    return [(error.field, error.reason) for error in caught.value.errors]


def test_what_a_definition_refers_to_is_checked() -> None:
    a = {"id": "a", "command": "true"}
    b = {"id": "b", "command": "echo {{ nodes.a.output.x }}"}
    [(field, reason)] = refusal(a, b)
    assert field == "nodes[1]"
    assert "'a' does not come before 'b'" in reason
    assert "there is no node 'z'" in refusal({**b, "command": "echo {{ nodes.z.output }}"})[0][1]
    assert "there is no param" in refusal({**a, "command": "echo {{ param.x }}"})[0][1]
    assert "only a node with a map" in refusal({**a, "payload": {"x": ["{{ item }}"]}})[0][1]
    assert refusal({**a, "condition": "1 >"})[0][0] == "nodes[0].condition"
    far = {"id": "c", "command": "echo {{ nodes.a.output.x }}", "depends_on": ["m"]}
    define_body({"name": "w", "nodes": [a, {"id": "m", "command": "true", "depends_on": ["a"]}, far]}, now=0)
