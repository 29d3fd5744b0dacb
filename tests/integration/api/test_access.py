"""Tokens reach as far as they say, namespaces do not see one another, and too much is too much."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from waterclock.api.auth.gate import Gate
from waterclock.api.client.client import Client
from waterclock.api.errors import NotFound, Unauthenticated
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import last_message
from waterclock.core.jetstream.protocol import publish_command
from waterclock.core.runtime.data_directory import token_url
from waterclock.proto import methods, names
from waterclock.proto.methods import METHODS, Method

from .conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def holding(house: Served, **fields: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a new token."""
    made = await house.http.post("/v1/tokens", json=fields)
    assert made.status_code == 201, made.text
    headers = {"Authorization": f"Bearer {made.json()['token']}", "Token-Id": made.json()["token_id"]}
    async with httpx.AsyncClient(base_url=house.http.base_url, headers=headers, timeout=20) as http:
        yield http


@pytest.mark.parametrize("method", [m for m in METHODS if m.rest], ids=lambda method: method.name)
async def test_every_method_wants_its_scope(house: Served, method: Method[Any, Any]) -> None:
    assert method.rest is not None
    path = method.rest.path.format_map(_Any())
    others = [scope for scope in ("read", "submit", "operate") if scope != method.scope]
    async with httpx.AsyncClient(base_url=house.http.base_url) as anonymous:
        assert (await anonymous.request(method.rest.verb, path)).status_code == 401
    async with holding(house, scopes=others) as without:
        answer = await without.request(method.rest.verb, path, content=b"{}")
        assert answer.status_code == 403, answer.text
        assert method.scope in answer.json()["detail"]


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "0" * 64 if key == "digest" else "nobody"


async def test_a_token_does_what_its_scopes_say(house: Served) -> None:
    async with holding(house, scopes=["submit"], note="ci") as ci, holding(house, scopes=["read"]) as viewer:
        job = (await ci.post("/v1/jobs", json={"name": "x", "command": "true", "schedule": "@yearly"})).json()
        assert (await ci.get(f"/v1/jobs/{job['job_id']}")).status_code == 403
        assert (await viewer.get(f"/v1/jobs/{job['job_id']}")).status_code == 200
        assert (await viewer.delete(f"/v1/jobs/{job['job_id']}")).status_code == 403


async def test_a_revoked_token_is_refused_at_once(house: Served) -> None:
    async with holding(house, scopes=["read"]) as http:
        assert (await http.get("/v1/executors")).status_code == 200
        assert (await house.http.delete(f"/v1/tokens/{http.headers['Token-Id']}")).status_code == 200
        assert (await http.get("/v1/executors")).status_code == 401
        assert (await house.http.delete(f"/v1/tokens/{http.headers['Token-Id']}")).status_code == 404


async def test_an_expired_token_is_refused(house: Served) -> None:
    async with holding(house, scopes=["read"], expires_in_seconds=1) as http:
        assert (await http.get("/v1/executors")).status_code == 200
        async with asyncio.timeout(5):
            while (await http.get("/v1/executors")).status_code == 200:
                await asyncio.sleep(0.05)
        assert (await http.get("/v1/executors")).status_code == 401


async def test_no_secret_is_kept(house: Served) -> None:
    made = (await house.http.post("/v1/tokens", json={"scopes": ["read"], "note": "canary"})).json()
    entries = await house.app.control.scan("token.*")
    assert any(b"canary" in entry.value for entry in entries)
    assert not any(made["token"].encode() in entry.value or made["token"] in entry.key for entry in entries)
    listed = (await house.http.get("/v1/tokens")).json()["items"]
    assert all(token["token"] is None for token in listed)


async def test_a_token_has_its_rate(house: Served) -> None:
    async with holding(house, scopes=["read"], rate_per_second=3) as http:
        answers = [await http.get("/v1/executors") for _ in range(8)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert (await house.http.get("/v1/executors")).status_code == 200


async def test_namespaces_do_not_see_one_another(house: Served) -> None:
    scopes = ["read", "submit", "operate"]
    async with (
        holding(house, scopes=scopes, namespace="acme") as acme,
        holding(house, scopes=scopes, namespace="zeta") as zeta,
    ):
        body = {"job_id": "same", "name": "theirs", "command": "echo acme", "schedule": "@yearly"}
        made = await acme.post("/v1/jobs", json=body)
        assert (made.status_code, made.json()["job_id"], made.headers["location"]) == (
            201,
            "same",
            "/v1/jobs/same",
        )
        assert (await zeta.get("/v1/jobs/same")).status_code == 404
        assert (await house.http.get("/v1/jobs/same")).status_code == 404
        assert (await house.http.get("/v1/jobs/acme=same")).status_code == 404
        for verb, path in (
            ("PATCH", "/v1/jobs/same"), ("DELETE", "/v1/jobs/same"), ("POST", "/v1/jobs/same/pause"),
            ("POST", "/v1/jobs/same/runNow"), ("GET", "/v1/jobs/same/status"), ("GET", "/v1/jobs/same/runs"),
            ("GET", "/v1/jobs/same/next"), ("GET", "/v1/events?job=same"), ("GET", "/v1/jobs/same/why"),
        ):  # fmt: skip
            assert (await zeta.request(verb, path, content=b"{}")).status_code == 404, path
        assert (await zeta.post("/v1/jobs", json={**body, "command": "echo zeta"})).status_code == 201
        run = (await acme.post("/v1/jobs/same/runNow")).json()["run_id"]
        assert run.startswith("same@now-")
        async with asyncio.timeout(10):
            while (await acme.get(f"/v1/runs/{run}")).json().get("status") != "SUCCESS":
                await asyncio.sleep(0.05)
        assert (await zeta.get(f"/v1/runs/{run}")).status_code == 404
        assert (await zeta.get(f"/v1/runs/{run}/log")).status_code == 404
        assert (await acme.get(f"/v1/runs/{run}/log")).text == "acme\n"
        assert [job["job_id"] for job in (await acme.get("/v1/jobs")).json()["items"]] == ["same"]
        assert (await zeta.get("/v1/jobs/same/runs")).json() == []
        assert (await zeta.get(f"/v1/runs/{run}/attempts")).status_code == 404
        (attempt,) = (await acme.get(f"/v1/runs/{run}/attempts")).json()
        assert (await acme.get(attempt["log_url"])).text == "acme\n"
        for path in ("/v1/runs", "/v1/runs?job=same", "/v1/runs?q=same@now", "/v1/runs?status=SUCCESS"):
            assert (await zeta.get(path)).json()["items"] == []
            (listed,) = (await acme.get(path)).json()["items"]
            assert (listed["run_id"], listed["job_id"], listed["job_name"]) == (run, "same", "theirs")
        assert (await acme.get("/v1/runs?q=acme")).json()["items"] == [], "the namespace is no part of an id"
        assert [each["job"] for each in (await acme.get("/v1/stats?by=job")).json()["buckets"]] == ["same"]
        assert (await zeta.get("/v1/stats?by=job")).json()["buckets"] == []
        year = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-02T00:00:00Z"}
        fires = (await acme.get("/v1/upcoming", params=year)).json()["items"]
        assert [(fire["job_id"], fire["job_name"]) for fire in fires] == [("same", "theirs")]
        assert (await acme.get("/v1/upcoming", params={**year, "job": "same"})).json()["items"] == fires
        dependent = await acme.post(
            "/v1/jobs", json={"name": "after", "command": "true", "dependencies": ["same"]}
        )
        assert dependent.status_code == 201, dependent.text
        job = (await acme.get(dependent.headers["location"])).json()
        assert job["dependencies"] == ["same"]
        edited = await acme.patch(dependent.headers["location"], json={"priority": 3})
        assert (edited.json()["dependencies"], edited.json()["priority"]) == (["same"], 3)


async def test_a_refusal_names_ids_as_their_owner_knows_them(house: Served) -> None:
    scopes = ["submit", "read", "operate"]
    async with holding(house, scopes=scopes, namespace="acme") as acme:
        definition = {"job_id": "seed5", "command": "true", "cron": "@yearly"}
        assert (await acme.post("/v1/jobs", json=definition)).status_code == 201
        assert (await acme.delete("/v1/jobs/seed5")).status_code == 200
        for verb, path, body in (
            ("GET", "/v1/jobs/seed4", None),
            ("GET", "/v1/jobs/seed4/next", None),
            ("GET", "/v1/runs/seed4@2026-01-01T00:00:00Z", None),
            ("GET", "/v1/runs/seed4@2026-01-01T00:00:00Z/log", None),
            ("GET", "/v1/runs/seed4@2026-01-01T00:00:00Z/why", None),
            ("POST", "/v1/jobs/seed4/pause", {}),
            ("POST", "/v1/jobs/seed5/pause", {}),
            ("PATCH", "/v1/jobs/seed4", {"priority": 1}),
            ("GET", "/v1/workflows/seed4", None),
            ("GET", "/v1/backfills/seed4", None),
            ("POST", "/v1/jobs", {"command": "true", "dependencies": ["seed4"]}),
        ):
            refused = await acme.request(verb, path, json=body)
            assert 400 <= refused.status_code < 500, (path, refused.text)
            assert "seed" in refused.text
            assert "acme=" not in refused.text, refused.text


async def test_the_same_key_in_two_namespaces_is_two_keys(house: Served) -> None:
    body = {"name": "k", "command": "true", "schedule": "@yearly", "idempotency_key": "shared words"}
    async with (
        holding(house, scopes=["submit"], namespace="one") as one,
        holding(house, scopes=["submit"], namespace="two") as two,
    ):
        answers = [await one.post("/v1/jobs", json=body), await two.post("/v1/jobs", json=body)]
    assert [answer.status_code for answer in answers] == [201, 201]


async def test_a_namespace_holds_no_more_than_its_quota(house: Served) -> None:
    limited = await house.http.put("/v1/namespaces/small", json={"max_jobs": 2})
    assert limited.json() == {
        "namespace": "small",
        "max_jobs": 2,
        "jobs": 0,
        "default_max_retries": 3,
        "default_timeout_seconds": 3600,
    }
    async with holding(house, scopes=["submit", "read"], namespace="small") as small:
        codes = [
            (
                await small.post("/v1/jobs", json={"name": f"{n}", "command": "true", "schedule": "@yearly"})
            ).status_code
            for n in range(3)
        ]
        assert codes == [201, 201, 429]
        assert (await small.put("/v1/namespaces/small", json={})).status_code == 403


async def test_artifacts_are_their_namespaces(house: Served) -> None:
    async with (
        holding(house, scopes=["submit", "read"], namespace="acme") as acme,
        holding(house, scopes=["read"], namespace="zeta") as zeta,
    ):
        pushed = (await acme.post("/v1/artifacts", content=b"#!/bin/sh\necho hi\n")).json()["artifact"]
        assert (await acme.get(f"/v1/artifacts/{pushed}")).content == b"#!/bin/sh\necho hi\n"
        assert (await zeta.get(f"/v1/artifacts/{pushed}")).status_code == 404


async def test_over_nats_a_token_narrows(house: Served) -> None:
    made = (await house.http.post("/v1/tokens", json={"scopes": ["read"], "namespace": "acme"})).json()
    plain = await house.client.jobs.create(name="default's", command="true", cron="@yearly")
    async with Client.connect(house.settings.nats_url, token=made["token"]) as narrow:
        with pytest.raises(NotFound):
            await narrow.jobs.get(plain.job_id)
    await house.http.delete(f"/v1/tokens/{made['token_id']}")
    async with Client.connect(house.settings.nats_url, token=made["token"]) as gone:
        with pytest.raises(Unauthenticated):
            await gone.jobs.get(plain.job_id)


async def test_over_nats_a_connection_has_its_tokens_rights(house: Served) -> None:
    """Without a header: whoever connects with a NATS tool has shown the token when they connected."""
    made = (await house.http.post("/v1/tokens", json={"scopes": ["read"]})).json()
    host = (house.settings.nats_url or "").rpartition("@")[2]
    async with Connection.open(
        token_url(made["token"], host), name="tool", inbox_prefix=made["nats_inbox"]
    ) as tool:
        for method in METHODS:
            if not method.streaming:
                answer = await tool.request(method.subject, b'{"no": "such field"}', timeout=10)
                code = (answer.headers or {}).get("Nats-Service-Error-Code")
                assert (code == "403") == (method.scope not in ("open", "read")), method.name


async def test_over_nats_nobody_is_believed_where_the_server_does_not_ask_us(house: Served) -> None:
    """A header that says who asks is the server's word only where the server has accounts, and asks whom to let in."""
    info = {"Nats-Request-Info": '{"acc": "CLIENTS", "user": "token:bootstrap"}'}
    tokens = house.app.tokens
    asked = Gate(house.app.settings, tokens)
    assert asked.admit_over_nats(methods.TOKENS_CREATE, info).everywhere
    not_asked = Gate(house.settings, tokens)
    for headers in ({}, info):
        with pytest.raises(Unauthenticated):
            not_asked.admit_over_nats(methods.JOBS_LIST, headers)
    unguarded = Gate(msgspec.structs.replace(house.settings, auth="off"), tokens)
    assert unguarded.admit_over_nats(methods.TOKENS_CREATE, {}).everywhere


@pytest.mark.parametrize("subject", ["waterclock.v1.jobs.list", "$SRV.INFO", "$SRV.PING.waterclock"])
async def test_no_answer_is_written_into_the_log(house: Served, subject: str) -> None:
    """The api may write where its callers may not: they cannot make it, by asking to be answered there."""
    house.nats.nc.send(publish_command(subject, names.lease_subject(99), None, b"{}"))
    answer = await house.nats.request(subject, b"{}", timeout=10)  # answered after the first would have been
    assert answer.data
    assert await last_message(house.app.connection, names.RUNS, names.lease_subject(99)) is None
