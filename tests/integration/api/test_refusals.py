"""Whatever is sent, the answer is a problem document that names the field, never a failure of ours."""

import json
from typing import Any

import httpx
import pytest

from waterclock.api.client.client import Client
from waterclock.api.errors import Invalid, NotFound, Refused, Unauthenticated

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "x" * 10_000

BAD_DEFINITIONS: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "x", "command": "true", "schedule": "61 * * * *"}, 422, "schedule"),
    ({"name": "x", "command": "true", "cron_expression": "* * *"}, 422, "cron_expression"),
    ({"name": "x", "command": "true", "cron_expression": "0 0 30 2 *"}, 422, "cron_expression"),
    ({"name": "x", "command": "true", "cron": "* * * * *", "timezone": "Mars/Olympus"}, 422, "timezone"),
    ({"name": "x", "command": "true", "surprise": 1}, 422, "surprise"),
    ({"name": "x", "command": "true", "schedule_time": "tomorrow"}, 422, "schedule_time"),
    ({"name": "x", "command": "true", "schedule_time": "2026-13-45T99:00:00Z"}, 422, "schedule_time"),
    ({"name": "x", "command": "true", "schedule_time": "2026-12-31"}, 422, "schedule_time"),
    ({"name": "x", "command": ""}, 422, "command"),
    ({"name": "x", "command": []}, 422, "command"),
    ({"name": "x", "command": "true", "every": "soon"}, 422, "every"),
    ({"name": "x", "command": "true", "interval_seconds": -1}, 422, "interval_seconds"),
    ({"name": LONG, "command": "true"}, 422, "name"),
    ({"name": "", "command": "true"}, 422, "name"),
    ({"name": "a\nb", "command": "true"}, 422, "name"),
    ({"name": 7, "command": "true"}, 422, "name"),
    ({"name": "x", "job_id": "a.b.>", "command": "true"}, 422, "job_id"),
    ({"name": "x", "job_id": LONG, "command": "true"}, 422, "job_id"),
    ({"name": "x", "command": "true", "max_retries": -1}, 422, "max_retries"),
    ({"name": "x", "command": "true", "max_retries": 1.5}, 422, "max_retries"),
    ({"name": "x", "command": "true", "priority": 101}, 422, "priority"),
    ({"name": "x", "command": "true", "timeout_seconds": -1}, 422, "timeout_seconds"),
    ({"name": "x", "command": "true", "tier": "enormous"}, 422, "tier"),
    ({"name": "x", "command": "true", "overlap": "sometimes"}, 422, "overlap"),
    ({"name": "x", "command": "true", "labels": {"k": 1}}, 422, "labels"),
    ({"name": "x", "command": "true", "dependencies": ["nobody"]}, 422, "dependencies"),
    ({"name": "x", "command": "true", "dependencies": "backup"}, 422, "dependencies"),
    ({"name": "x", "command": "true", "retry": {"factor": 0}}, 422, "retry.factor"),
    ({"name": "x", "http": {"url": "ftp://example.com"}}, 422, "http.url"),
    ({"name": "x", "artifact": "sha256:short"}, 422, "artifact"),
    ({"name": "x", "command": "true", "payload": "x" * 2_000_000}, 413, "payload"),
    ({"name": "x", "command": "true", "payload": "x" * 10_000_000}, 413, "payload"),
    ({"name": "x", "nodes": [{"id": "a", "command": "true", "depends_on": ["a"]}]}, 422, "nodes"),
]


@pytest.mark.parametrize(("body", "status", "field"), BAD_DEFINITIONS, ids=lambda value: str(value)[:40])
async def test_a_bad_definition_is_refused_by_its_field(
    house: Served, body: dict[str, Any], status: int, field: str
) -> None:
    answer = await house.http.post("/v1/jobs", json=body)
    problem = _problem(answer, status)
    assert any(error["field"].startswith(field) and error["reason"] for error in problem["errors"]), problem
    (line,) = (await house.http.post("/v1/jobs:batch", content=json.dumps(body))).text.splitlines()
    assert json.loads(line)["errors"] == problem["errors"]
    if status == 422:
        with pytest.raises(Invalid) as refused:
            await house.client.jobs.create(**body)
        assert any(error.field.startswith(field) for error in refused.value.problem.errors)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"not json",
        b"\xff\xfe",
        b"[1, 2",
        b'"text"',
        b"17",
        b"[]",
        b"null",
        b'{"payload": ' + b"[" * 50_000,
    ],
)
async def test_what_is_no_json_object_is_malformed(house: Served, body: bytes) -> None:
    problem = _problem(await house.http.post("/v1/jobs", content=body), 400)
    assert problem["errors"]


@pytest.mark.parametrize("body", [b"[", b"[]", b'"text"', b"17", b"null"])
async def test_so_it_is_where_something_else_than_a_definition_is_taken(house: Served, body: bytes) -> None:
    for path in ("/v1/jobs/backup/backfill", "/v1/dead-letters/redrive"):
        assert _problem(await house.http.post(path, content=body), 400)["errors"]


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/jobs/nobody", 404),
        ("GET", "/v1/jobs/nobody/status", 404),
        ("GET", "/v1/jobs/%2A", 404),
        ("GET", "/v1/jobs/a%20b%0d%0a", 404),
        ("GET", "/v1/jobs/" + "y" * 5000, 404),
        ("PATCH", "/v1/jobs/nobody", 404),
        ("DELETE", "/v1/jobs/nobody", 404),
        ("POST", "/v1/jobs/nobody/pause", 404),
        ("POST", "/v1/jobs/nobody/runNow", 404),
        ("PUT", "/v1/jobs", 405),
        ("DELETE", "/healthz", 405),
        ("POST", "/v1/runs/x", 405),
        ("GET", "/v1/jobs?limit=0", 422),
        ("GET", "/v1/jobs?limit=many", 422),
        ("GET", "/v1/jobs?surprise=1", 422),
        ("GET", "/v1/jobs?status=NICE", 422),
        ("GET", "/v1/jobs?limit=1&limit=2", 422),
        ("GET", "/v1/jobs?created_after=yesterday", 422),
        ("GET", "/v1/jobs?q=%00", 422),
        ("GET", "/v1/jobs?label=a%00b", 422),
        ("GET", "/v1/jobs?cursor=nonsense", 422),
        ("GET", "/v1/jobs/backup/next?n=0", 422),
        ("GET", "/v1/events?after=nonsense", 422),
        ("POST", "/v1/dead-letters/redrive", 422),
        ("GET", "/v1/jobs/nobody/versions", 404),
        ("GET", "/v1/jobs/nobody/versions/1", 404),
        ("GET", "/v1/jobs/backup/versions/1000000000", 404),
        ("GET", "/v1/jobs/backup/versions/first", 422),
        ("GET", "/v1/jobs/backup/versions/0", 422),
        ("GET", "/v1/jobs/backup/versions?cursor=nonsense", 422),
        ("GET", "/v1/workflows/backup/versions", 404),
        ("POST", "/v1/jobs/backup/rollback", 422),
        ("POST", "/v1/jobs/nobody/what-if", 404),
        ("POST", "/v1/jobs:bulk", 422),
        ("POST", "/v1/runs:bulk", 422),
        ("GET", "/v1/export?surprise=1", 422),
        ("PUT", "/v1/jobs/%00", 422),
        ("PATCH", "/v1/workflows/%00", 422),
    ],
)
async def test_requests_that_lead_nowhere(house: Served, verb: str, path: str, status: int) -> None:
    await house.http.post("/v1/jobs", json={"job_id": "backup", "schedule": "@daily", "command": "true"})
    body = None if verb in ("GET", "DELETE") else b"{}"
    _problem(await house.http.request(verb, path, content=body), status)


async def test_nobody_is_let_in_without_a_token(house: Served) -> None:
    async with httpx.AsyncClient(base_url=house.http.base_url) as anonymous:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic x"},
            {"Authorization": "Bearer"},
        ):
            answer = await anonymous.get("/v1/jobs/x", headers=headers)
            _problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert (await anonymous.get(path)).status_code == 200


async def test_over_nats_a_refusal_has_its_code_and_its_document(house: Served) -> None:
    reply = await house.nats.request("waterclock.v1.jobs.get", b'{"job_id": "nobody"}')
    assert reply.headers is not None
    assert reply.headers["Nats-Service-Error-Code"] == "404"
    assert "nobody" in reply.headers["Nats-Service-Error"]
    assert json.loads(reply.data)["status"] == 404
    for body in (b"{", b"\xff", b"[]", b'{"x": 1}'):
        reply = await house.nats.request("waterclock.v1.jobs.get", body)
        assert reply.headers is not None
        assert reply.headers["Nats-Service-Error-Code"] in ("400", "422")


async def test_over_nats_a_refused_stream_ends_like_any_other(house: Served) -> None:
    inbox = house.nats.nc.new_inbox()
    replies = await house.nats.nc.subscribe(inbox)
    await house.nats.nc.publish("waterclock.v1.runs.log", b'{"run_id": "nobody@now"}', reply=inbox)
    refusal, end = await replies.next_msg(timeout=5), await replies.next_msg(timeout=5)
    assert (refusal.headers or {})["Nats-Service-Error-Code"] == "404"
    assert (end.headers, end.data) == (None, b"")


async def test_over_nats_a_wrong_token_is_refused(house: Served) -> None:
    async with Client.connect(house.settings.nats_url, token="a-wrong-token-of-some-length") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.jobs.get("x")


async def test_the_client_raises_what_the_service_raised(house: Served) -> None:
    with pytest.raises(NotFound) as missing:
        await house.client.jobs.get("nobody")
    assert missing.value.problem.status == 404
    with pytest.raises(Refused):
        await house.client.runs.get("nobody@20260101T000000Z")


def _problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert isinstance(problem["errors"], list)
    return problem
