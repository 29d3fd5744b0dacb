"""Over NATS as over REST: nothing that is made from the requests' schemas gets a failure of ours for an answer."""

import asyncio
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core import NotSet
from schemathesis.core.result import Ok

from waterclock.proto.methods import METHODS, Method

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWERED_ONCE = sorted((method for method in METHODS if not method.streaming), key=lambda method: method.name)
_WITHIN = 30.0


@pytest.mark.parametrize("method", ANSWERED_ONCE, ids=lambda method: method.name)
async def test_a_method_answers_whatever_is_asked(house: Served, method: Method[Any, Any]) -> None:
    loop = asyncio.get_running_loop()

    def answer_to(asked: bytes) -> tuple[int, bytes]:
        request = house.nats.request(method.subject, asked, timeout=_WITHIN)
        answer = asyncio.run_coroutine_threadsafe(request, loop).result(_WITHIN)
        return int((answer.headers or {}).get("Nats-Service-Error-Code", 200)), answer.data

    await asyncio.to_thread(_probe, method, answer_to)


def _probe(method: Method[Any, Any], answer_to: Any) -> None:
    [(reference,), components] = msgspec.json.schema_components(
        [method.request], ref_template="#/components/schemas/{name}"
    )
    body = {"required": True, "content": {"application/json": {"schema": reference}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "over NATS", "version": "1"},
        "paths": {"/": {"post": {"requestBody": body, "responses": {"default": {"description": "any"}}}}},
        "components": {"schemas": components},
    }
    (found,) = schemathesis.openapi.from_dict(document).get_all_operations()
    assert isinstance(found, Ok)

    @given(case=found.ok().as_strategy())
    @settings(max_examples=8, database=None, suppress_health_check=list(HealthCheck))
    def answers(case: Any) -> None:
        asked = b"" if isinstance(case.body, NotSet) else msgspec.json.encode(case.body)
        status, data = answer_to(asked)
        assert status < 500, (asked, data)

    answers()
