"""What a client of HTTP takes for granted: HEAD, gzip, ranges, 304, OPTIONS, HTTP/1.0, pages of other origins."""

import asyncio
import gzip
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio
from msgspec import structs

from support.waiting import eventually
from waterclock.api.http import routes
from waterclock.api.http.allowed_methods import allowed
from waterclock.api.http.compression import Compression
from waterclock.core.runtime.settings import SettingsError, load
from waterclock.proto.methods import METHODS

from .conftest import TOKEN, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def printed(house: Served) -> str:
    """A run that has put out 0 to 299, one a line."""
    made = await house.http.post("/v1/jobs", json={"name": "print", "command": "seq 0 299"})
    job = made.json()["job_id"]

    async def ended() -> str | None:
        status = (await house.http.get(f"/v1/jobs/{job}/status")).json()
        run = status["latest_run"]
        return run["run_id"] if run and run["status"] == "SUCCESS" else None

    return await eventually(ended, "the run to end")


async def defined(house: Served, job_id: str, **fields: Any) -> str:
    body = {"job_id": job_id, "name": job_id, "cron": "0 0 1 1 *", "command": "true", **fields}
    assert (await house.http.post("/v1/jobs", json=body)).status_code == 201
    return f"/v1/jobs/{job_id}"


async def test_every_get_has_a_head(house: Served, printed: str) -> None:
    job = await defined(house, "headed")
    pages = ("/healthz", "/readyz", "/openapi.json", "/asyncapi.json", "/metrics", "/docs", "/")
    things = (
        job,
        f"{job}/status",
        f"{job}/runs",
        "/v1/jobs",
        f"/v1/runs/{printed}",
        f"/v1/runs/{printed}/log",
    )
    for path in (*pages, *things, "/v1/executors", f"/v1/runs/{printed}/log?follow=1", "/v1/events", "/jobs"):
        head = await house.http.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        if path not in ("/v1/events", f"/v1/runs/{printed}/log?follow=1", "/metrics"):
            found = await house.http.get(path)
            assert head.headers["content-type"] == found.headers["content-type"], path
    assert (await house.http.head("/v1/jobs/nobody")).status_code == 404
    assert (await house.http.head("/nowhere")).status_code == 404


async def test_options_and_405_say_what_there_is(house: Served) -> None:
    for path, methods in {
        "/v1/jobs": "GET, HEAD, OPTIONS, POST",
        "/jobs": "GET, HEAD, OPTIONS, POST",
        "/v1/jobs/x": "DELETE, GET, HEAD, OPTIONS, PATCH, PUT",
        "/v1/jobs/x/pause": "OPTIONS, POST",
        "/healthz": "GET, HEAD, OPTIONS",
        "/openapi.json": "GET, HEAD, OPTIONS",
    }.items():
        options = await house.http.options(path)
        assert (options.status_code, options.headers["allow"]) == (204, methods)
        wrong = await house.http.request("TRACE" if "DELETE" in methods else "DELETE", path)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, methods)
        assert wrong.headers["content-type"] == "application/problem+json"
        assert methods in wrong.json()["detail"]
    assert (await house.http.options("/nowhere")).status_code == 404


async def test_every_route_of_the_table_is_allowed() -> None:
    for method in METHODS:
        if method.rest is not None:
            path = method.rest.path.replace("{", "").replace("}", "")
            assert {method.rest.verb, *method.rest.also} <= {*allowed(path).split(", ")}, method.name


async def test_a_tag_changes_when_the_answer_does_and_spares_it_otherwise(house: Served) -> None:
    job = await defined(house, "tagged")
    first = await house.http.get(job)
    version, tag = first.json()["version"], first.headers["etag"]
    assert tag == f'"{version}"'
    same = await house.http.get(job, headers={"If-None-Match": f'"other", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert "content-length" not in same.headers
    assert (await house.http.head(job, headers={"If-None-Match": tag})).status_code == 304
    ran = await house.http.post(f"{job}/runNow")

    async def changed() -> httpx.Response | None:
        found = await house.http.get(job, headers={"If-None-Match": tag})
        return found if found.status_code == 200 else None

    now = await eventually(changed, "the last run to be another")
    assert now.json()["last_run"]["run_id"] == ran.json()["run_id"]
    assert now.json()["version"] == version
    assert now.headers["etag"].startswith(f'"{version}-')
    tag = now.headers["etag"]
    kept = await house.http.patch(job, json={"priority": 3}, headers={"If-Match": tag})
    assert kept.status_code == 200, kept.text
    late = await house.http.patch(job, json={"priority": 4}, headers={"If-Match": tag})
    assert late.status_code == 412
    listed = await house.http.get("/v1/jobs", params={"q": "tagged"})
    again = await house.http.get(
        "/v1/jobs", params={"q": "tagged"}, headers={"If-None-Match": listed.headers["etag"]}
    )
    assert listed.headers["etag"].startswith('W/"')
    assert again.status_code == 304


async def test_answers_are_packed_for_who_takes_it(house: Served, printed: str) -> None:
    job = await defined(house, "packed", metadata={"text": "x" * 5000})
    plain = await house.http.get(job, headers={"Accept-Encoding": "identity"})
    packed = await house.http.get(job, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(plain.content) // 3
    assert packed.json() == plain.json()
    assert packed.headers["etag"] == plain.headers["etag"]
    unchanged = await house.http.get(job, headers={"If-None-Match": packed.headers["etag"]})
    assert unchanged.status_code == 304
    refused = await house.http.get(job, headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers
    log = await house.http.get(f"/v1/runs/{printed}/log", headers={"Accept-Encoding": "gzip"})
    assert (log.headers["content-encoding"], log.text.split()[-1]) == ("gzip", "299")
    small = await house.http.get("/healthz", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


async def test_bodies_may_be_packed(house: Served) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    body = gzip.compress(json.dumps({"job_id": "zipped", "command": "true", "cron": "@yearly"}).encode())
    made = await house.http.post("/v1/jobs", content=body, headers=headers)
    assert (made.status_code, made.json()["job_id"]) == (201, "zipped"), made.text
    lines = b"".join(b'{"job_id":"z%d","command":"true","cron":"@yearly"}\n' % n for n in range(3000))
    many = await house.http.post("/v1/jobs:batch", content=gzip.compress(lines), headers=headers)
    assert (many.status_code, len(many.text.splitlines())) == (200, 3000)
    for content, reason in ((b"no gzip", "is not"), (body[:-20], "ends before")):
        wrong = await house.http.post("/v1/jobs", content=content, headers=headers)
        assert (wrong.status_code, reason in wrong.json()["detail"]) == (400, True), wrong.text
    other = await house.http.post("/v1/jobs", content=b"x", headers={"Content-Encoding": "br"})
    assert (other.status_code, other.headers["accept-encoding"]) == (415, "gzip")


async def test_a_small_body_cannot_become_a_large_one(house: Served) -> None:
    bomb = gzip.compress(b" " * (40 << 20))
    wrong = await house.http.post("/v1/jobs", content=bomb, headers={"Content-Encoding": "gzip"})
    assert wrong.status_code == 413, wrong.text


async def test_unpacking_goes_in_pieces() -> None:
    pieces: list[int] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            event = await receive()
            pieces.append(len(event["body"]))
            more = event["more_body"]

    async def receive() -> Any:
        return {"type": "http.request", "body": gzip.compress(bytes(10 << 20)), "more_body": False}

    scope: Any = {"type": "http", "headers": [(b"content-encoding", b"gzip")], "method": "POST", "path": "/"}
    await Compression(inner)(scope, receive, None)
    assert sum(pieces) == 10 << 20
    assert max(pieces) <= 256 * 1024


async def test_parts_of_a_log(house: Served, printed: str) -> None:
    path = f"/v1/runs/{printed}/log"
    whole = (await house.http.get(path)).content
    assert (await house.http.get(path)).headers["accept-ranges"] == "bytes"
    for asked, part in {
        "bytes=0-9": whole[:10],
        "bytes=100-": whole[100:],
        "bytes=-7": whole[-7:],
        "bytes=5-5": whole[5:6],
        "bytes=0-999999": whole,
        "bytes=-999999": whole,
    }.items():
        found = await house.http.get(path, headers={"Range": asked})
        assert (found.status_code, found.content) == (206, part), asked
        start = 5 if asked == "bytes=5-5" else whole.index(part)
        assert found.headers["content-range"] == f"bytes {start}-{start + len(part) - 1}/{len(whole)}"
    beyond = await house.http.get(path, headers={"Range": "bytes=5000-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(whole)}")
    for ignored in ("bytes=9-3", "lines=1-2", "bytes=0-1,4-5", "bytes=x"):
        found = await house.http.get(path, headers={"Range": ignored})
        assert (found.status_code, found.content) == (200, whole), ignored


async def test_http_1_0_gets_no_chunks(house: Served, printed: str) -> None:
    for path in (f"/v1/runs/{printed}/log", "/v1/jobs", "/healthz"):
        reader, writer = await asyncio.open_connection("127.0.0.1", house.settings.port)
        writer.write(f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        async with asyncio.timeout(20):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert b"chunked" not in head.lower(), path
        assert b"connection: close" in head.lower()
        assert body == (await house.http.get(path, headers={"Accept-Encoding": "identity"})).content


async def test_other_origins_are_let_in_by_the_setting_alone(house: Served) -> None:
    asked = {"Origin": "https://ops.example.org", "Access-Control-Request-Method": "PATCH"}
    closed = await house.http.options("/v1/jobs/x", headers=asked)
    assert not [name for name in closed.headers if name.startswith("access-control")]
    settings = structs.replace(house.settings, cors_origins=("https://ops.example.org",))
    allowing = routes.build(replace(house.app, settings=settings))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(allowing), base_url="http://127.0.0.1", headers=headers
    ) as http:
        preflight = (await http.options("/v1/jobs/x", headers=asked)).headers
        assert preflight["access-control-allow-origin"] == "https://ops.example.org"
        assert "PATCH" in preflight["access-control-allow-methods"]
        assert "Authorization" in preflight["access-control-allow-headers"]
        for path, status in (("/v1/jobs", 200), ("/v1/jobs/nobody", 404)):
            found = await http.get(path, headers={"Origin": "https://ops.example.org"})
            assert found.status_code == status
            assert found.headers["access-control-allow-origin"] == "https://ops.example.org"
            assert "ETag" in found.headers["access-control-expose-headers"]
            assert "Origin" in found.headers["vary"]
        other = await http.get("/v1/jobs", headers={"Origin": "https://evil.example.org"})
        assert "access-control-allow-origin" not in other.headers


async def test_an_origin_that_is_none_is_refused() -> None:
    environ = {"WATERCLOCK_CORS_ORIGINS": "https://a.example.org,http://localhost:3000"}
    assert load({}, environ).cors_origins == ("https://a.example.org", "http://localhost:3000")
    with pytest.raises(SettingsError, match="cors_origins: expected origins like"):
        load({}, {"WATERCLOCK_CORS_ORIGINS": "https://a.example.org/path"})
