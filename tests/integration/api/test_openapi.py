"""The OpenAPI document is valid, and what it describes is what is served: no input gets a failure of ours, and no
answer breaks the document."""

import asyncio
import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from waterclock.api.http import openapi, reference

from .conftest import TOKEN, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOCUMENT = json.loads(openapi.document())
STREAMS = {"events_watch", "runs_log", "audit_run"}
OPERATIONS = sorted(
    operation["operationId"]
    for verbs in DOCUMENT["paths"].values()
    for operation in verbs.values()
    if operation["operationId"] not in STREAMS
)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


async def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


async def test_the_reference_shows_every_operation() -> None:
    page = reference.page()
    assert all(f"id={operation}" in page for operation in OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_keeps_to_the_document(house: Served, name: str) -> None:
    await asyncio.to_thread(_probe, name, str(house.http.base_url))


def _probe(name: str, url: str) -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT).include(operation_id=name)
    (operation,) = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]

    @given(case=operation.as_strategy())
    @settings(max_examples=12, database=None, suppress_health_check=list(HealthCheck))
    def keeps(case: Any) -> None:
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, checks=CHECKS)

    keeps()
