"""What generators of clients and readers of the OpenAPI document rely on."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from waterclock.api.http import openapi
from waterclock.api.nats import asyncapi
from waterclock.proto.methods import METHODS

Json = dict[str, Any]
DOCUMENT: Json = json.loads(openapi.document())
ASYNC: Json = json.loads(asyncapi.document())
SCHEMAS: Json = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (path, verb, operation) for path, verbs in DOCUMENT["paths"].items() for verb, operation in verbs.items()
]


def walk(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from walk(part)
    elif isinstance(value, list):
        for part in value:
            yield from walk(part)


def references(value: Any) -> set[str]:
    return {found["$ref"].rpartition("/")[2] for found in walk(value) if isinstance(found.get("$ref"), str)}


def test_every_property_is_described() -> None:
    lacking = [
        f"{name}.{field}"
        for name, schema in SCHEMAS.items()
        for field, value in schema.get("properties", {}).items()
        if not value.get("description")
    ]
    assert lacking == [], "a docstring below the field says it, or proto/field_docs.py"


def test_every_parameter_is_described() -> None:
    lacking = [
        (operation["operationId"], parameter["name"])
        for _, _, operation in OPERATIONS
        for parameter in operation["parameters"]
        if not parameter.get("description")
    ]
    assert lacking == []


@pytest.mark.parametrize("document", [DOCUMENT, ASYNC], ids=["openapi", "asyncapi"])
def test_names_are_plain_and_schemas_in_use(document: Json) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch(r"[A-Z][A-Za-z]+", name)] == []
    titles = [schema.get("title", name) for name, schema in schemas.items()]
    assert titles == [*schemas]
    assert schemas.keys() - references(document) == set()
    assert references(document) - schemas.keys() - document["components"].get("responses", {}).keys() <= {
        *document.get("channels", {}),
        *(name for name in references(document) if name in ("request", "answer", "problem", "token")),
    }


def test_no_choice_of_a_property_is_called_as_a_schema_is() -> None:
    """Generators call the choices of `Job.status` JobStatus."""
    for name, schema in SCHEMAS.items():
        for field, value in schema.get("properties", {}).items():
            inline = [part for part in walk(value) if "enum" in part]
            made = name + "".join(word.capitalize() for word in field.split("_"))
            assert not (inline and made in SCHEMAS), made


def test_times_are_said_to_be_times() -> None:
    for name, schema in SCHEMAS.items():
        for field, value in schema.get("properties", {}).items():
            if field.endswith(("_at", "_time")) and field != "modified":
                assert any(part.get("format") == "date-time" for part in walk(value)), f"{name}.{field}"
    assert SCHEMAS["Job"]["properties"]["created_at"]["format"] == "date-time"


def test_paths_and_queries_cannot_say_null() -> None:
    for _, _, operation in OPERATIONS:
        for parameter in operation["parameters"]:
            assert {"type": "null"} not in [*walk(parameter["schema"])], operation["operationId"]


def test_forms_that_generators_stumble_over_are_not_used() -> None:
    for found in walk(DOCUMENT):
        assert "prefixItems" not in found
        assert found.get("items") is not False
        if found.get("type") == "object" and isinstance(found.get("type"), str):
            assert "properties" in found or "additionalProperties" in found, found


def test_headers_and_health_are_described() -> None:
    job = DOCUMENT["paths"]["/v1/jobs/{job_id}"]["get"]["responses"]
    assert "ETag" in job["200"]["headers"]
    assert "304" in job
    for status in ("429", "503"):
        assert "Retry-After" in DOCUMENT["components"]["responses"][status]["headers"]
    assert {"/healthz", "/readyz", "/metrics", "/asyncapi.json"} <= DOCUMENT["paths"].keys()
    log = DOCUMENT["paths"]["/v1/runs/{run_id}/log"]["get"]["responses"]
    assert {"206", "416"} <= log.keys()


def test_every_method_with_a_route_is_there() -> None:
    described = {operation["operationId"] for _, _, operation in OPERATIONS}
    assert {method.name.replace(".", "_") for method in METHODS if method.rest} <= described
