"""A definition that is exported and applied again is the same, in JSON and in YAML, whatever the defaults are."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.domain.test_definitions import NOW, specs
from waterclock.api.cli.declarations import read_declarations
from waterclock.api.declaration_yaml import item
from waterclock.core.domain.job.declaration import declaration_of
from waterclock.core.domain.job.parse import define_body
from waterclock.core.domain.job.validate import Defaults
from waterclock.proto.answers import Declaration
from waterclock.proto.spec import JobSpec, Workflow

all_defaults = st.sampled_from(
    [Defaults(), Defaults(max_retries=3, timeout_seconds=3600), Defaults(max_retries=7)]
)
texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20
) | st.sampled_from(
    ["2026-12-31", "12:30:00", "on", "null", "~", "1e3", "0o17", "- a", "#x", "a\nb\n", "\n a\n", " x ", "a\r\nb",
     "&a", "*a", "\x85", "a\u2028b\n", "\ufeff", "\t", "a\n\tb", "\x1b[1m", "\xa0 x"]
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def exported(spec: JobSpec, job_id: str = "it") -> dict[str, Any]:
    return declaration_of(job_id, spec)


def applied(definition: Any, spec: JobSpec, defaults: Defaults) -> JobSpec:
    again = define_body(msgspec.json.encode(definition), NOW, defaults=defaults)
    return msgspec.structs.replace(again, idempotency_key=spec.idempotency_key)


@settings(max_examples=150)
@given(specs, all_defaults)
def test_an_export_is_the_definition(spec: JobSpec, defaults: Defaults) -> None:
    definition = exported(spec)
    assert applied(definition, spec, defaults) == spec
    assert definition["workflow_id" if isinstance(spec.task, Workflow) else "job_id"] == "it"
    assert next(iter(definition)).endswith("_id")


@settings(max_examples=150)
@given(specs, json_values, st.dictionaries(st.just("K"), texts.filter(lambda text: text.isprintable())))
def test_it_survives_yaml(
    tmp_path_factory: pytest.TempPathFactory, spec: JobSpec, payload: Any, labels: Any
) -> None:
    given = msgspec.structs.replace(spec, payload=payload, labels=labels, metadata={"kept": payload})
    declaration = Declaration(job_id="it", status="PAUSED", definition=exported(given))
    left_out = Declaration(job_id="x", status="SCHEDULED", definition=None, left_out="no\nway")
    file = tmp_path_factory.getbasetemp() / "exported.yaml"
    Path(file).write_text(item(declaration) + item(left_out) + item(declaration), encoding="utf-8")
    read = [definition for _, definition in read_declarations([file])]
    assert read == [declaration.definition] * 2


def test_what_another_default_would_change_is_said_outright() -> None:
    spec = define_body({"name": "a", "command": "true", "cron": "@daily"}, NOW)
    assert (exported(spec)["max_retries"], exported(spec)["timeout_seconds"]) == (0, 0)
    graph = define_body({"name": "w", "nodes": [{"id": "a", "command": "true"}]}, NOW)
    assert "max_retries" not in exported(graph)
    assert exported(graph)["nodes"] == [
        {"command": "true", "id": "a", "max_retries": 0, "timeout_seconds": 0}
    ]


def test_a_secret_is_named_and_a_text_of_lines_is_written_as_lines() -> None:
    env = {"PW": {"secret": "db-password"}}
    spec = define_body({"name": "a", "command": "one\ntwo\n", "env": env, "every": "30s"}, NOW)
    text = item(Declaration(job_id="a", status="SCHEDULED", definition=exported(spec)))
    assert "secret: db-password" in text
    assert "command: |\n    one\n    two\n" in text
    assert "interval_seconds: 30\n" in text
