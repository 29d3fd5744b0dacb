"""F6, F8, F9, F10, S4, S21: what a stranger sends to the REST interface, and what a web page has a browser send."""

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from support.program import Program
from waterclock.api.http import protocol


def address(shipped: Program) -> tuple[str, int]:
    place = urlsplit(shipped.connection["http"])
    return str(place.hostname), int(place.port or 0)


@contextlib.contextmanager
def connected(shipped: Program, timeout: float = 30.0) -> Iterator[socket.socket]:
    with socket.create_connection(address(shipped), timeout=timeout) as client:
        yield client


def answer_to(client: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while piece := client.recv(65_536):
            found += piece
    return found


# -- F6: bounds before any token ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one endless header", "many headers", "an endless path"])
def test_a_head_cannot_grow(shipped: Program, kind: str) -> None:
    piece = b"A: b\r\n" * 10_000 if kind == "many headers" else b"x" * 65_536
    start = b"GET /" if kind == "an endless path" else b"GET / HTTP/1.1\r\nHost: localhost\r\nA: "
    with connected(shipped) as client:
        sent = 0
        client.sendall(start)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 20 << 20:
                client.sendall(piece)
                sent += len(piece)
        assert sent < 20 << 20, "it was never cut off"
    assert shipped.get("/v1/status")["ok"]


def test_trailers_of_a_body_cannot_grow(shipped: Program) -> None:
    head = (
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    with connected(shipped) as client:
        client.sendall(head)
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 20 << 20:
                client.sendall(b"A: b\r\n" * 10_000)
                sent += 60_000
        assert sent < 20 << 20


def test_half_sent_requests_are_ended_and_others_get_in(shipped: Program) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(shipped, 60.0)) for _ in range(200)]
        for client in slow:
            with contextlib.suppress(OSError):
                client.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert shipped.get("/v1/status")["ok"]
        began = time.monotonic()
        assert b" 408 " in answer_to(slow[0])
        assert b" 408 " in answer_to(slow[-1])
        assert time.monotonic() - began < 6 * protocol.HEAD_SECONDS


def test_a_body_that_does_not_come_is_not_waited_for(shipped: Program) -> None:
    token = shipped.connection["token"]
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
    )
    with connected(shipped, 60.0) as client:
        client.sendall(head.encode())
        assert b" 408 " in answer_to(client)


def test_connections_are_limited_and_those_above_are_told(shipped: Program) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(shipped)) for _ in range(330)]
        answers = [client for client in clients[-20:] if b" 503 " in answer_to(client)]
        assert answers


def test_connections_that_are_only_kept_give_way_to_new_ones(shipped: Program) -> None:
    """Each has had an answer, and asks for nothing more: together they would be all there may be."""
    with contextlib.ExitStack() as stack:
        for _ in range(330):
            kept = stack.enter_context(connected(shipped))
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in kept.recv(4096)
        with connected(shipped) as new:
            new.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in new.recv(4096)


def test_streams_of_a_caller_are_limited(shipped: Program) -> None:
    with contextlib.ExitStack() as stack:

        def watch() -> httpx.Response:
            return stack.enter_context(shipped.http.stream("GET", "/v1/events"))

        assert [watch().status_code for _ in range(5)] == [200] * 5
        refused = watch()
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
    assert shipped.get("/v1/status")["ok"]


# -- F8: browsers -----------------------------------------------------------------------------------------------

JOB = {"name": "evil", "command": "true"}


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/", "/metrics", "/healthz"])
def test_a_name_that_is_not_ours_is_refused(shipped: Program, host: str, path: str) -> None:
    assert shipped.http.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1:8080", "[::1]:8080", "api:8080", "a.internal"]
)
def test_names_that_no_page_can_have_are_ours(shipped: Program, host: str) -> None:
    assert shipped.http.get("/v1/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "file://", "http://["]
)
@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_a_page_of_another_origin_is_refused(shipped: Program, verb: str, origin: str) -> None:
    answer = shipped.http.request(verb, "/v1/jobs", headers={"Origin": origin})
    assert answer.status_code == 403, answer.text


def test_our_own_pages_are_let_in(shipped: Program) -> None:
    own = shipped.connection["http"]
    assert shipped.http.get("/v1/jobs", headers={"Origin": own}).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
def test_a_body_that_a_form_could_send_is_refused(shipped: Program, kind: str) -> None:
    headers = {"Content-Type": kind}
    answer = shipped.http.post("/v1/jobs", content=json.dumps(JOB), headers=headers)
    assert answer.status_code == 415, answer.text


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "application/problem+json"]
)
def test_json_is_taken(shipped: Program, kind: str) -> None:
    answer = shipped.http.post("/v1/jobs", content=json.dumps(JOB), headers={"Content-Type": kind})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("path", ["/", "/v1/jobs", "/nothing", "/openapi.json", "/docs"])
def test_every_answer_says_that_it_is_what_it_says(shipped: Program, path: str) -> None:
    answer = shipped.http.get(path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


# -- F9: odd input is the caller's mistake ------------------------------------------------------------------------

DIGITS = "9" * 5_000
OLD = "0001-01-01T00:00:00Z"
ODD = [
    f"/v1/events?after={DIGITS}-1",
    f"/v1/events?after=1-{DIGITS}",
    "/v1/events?after=-1--1",
    f"/v1/events?since={OLD}",
    "/v1/events?since=9999-12-31T23:59:59Z",
    "/v1/events?since=2030-01-01T00:00:00",
    f"/v1/jobs/odd/why?at={OLD}",
    "/v1/jobs/odd/why?at=9999-12-31T23:59:59.999999-14:00",
    "/v1/jobs/odd/why?at=2030-01-01T00:00:00",
    "/v1/audit?from=0001-01-01T00:00:00%2B14:00",
    f"/v1/audit?from={OLD}&to=9999-12-31T23:59:59-14:00",
    f"/v1/jobs?created_after={OLD}",
    f"/v1/jobs/odd/runs?after={OLD}",
    "/v1/jobs?created_before=9999-12-31T23:59:59-14:00",
    *(
        f"/v1/runs/{name}/log?follow=1"
        for name in ("%3E", "a%20b", "%2E%2E", "*", "a.b", "%0d%0a", "%00", "a" * 3000)
    ),
    *(f"/v1/runs/{name}" for name in ("%3E", "a%20b", "..%2f..", "%F0%9F%92%A9", "%ff%fe")),
    *(f"/v1/jobs/{name}/next" for name in ("%3E", "a%20b", "*")),
    f"/v1/jobs?limit={DIGITS}",
    "/v1/jobs?cursor=W10",
    "/v1/jobs?cursor=" + "W1tb" * 400,
]


@pytest.mark.parametrize("path", ODD, ids=lambda path: re.sub(r"9{9,}|a{9,}", "…", path)[:60])
def test_odd_input_is_a_mistake_of_the_caller(shipped: Program, path: str) -> None:
    if shipped.http.get("/v1/jobs/odd").status_code == 404:
        shipped.post("/v1/jobs", {"job_id": "odd", "name": "odd", "command": "true", "schedule": "0 0 1 1 *"})
    with shipped.http.stream("GET", path) as answer:
        assert 400 <= answer.status_code < 500, answer.read()


# -- F10 ----------------------------------------------------------------------------------------------------------


def test_metrics_are_not_for_strangers(shipped: Program) -> None:
    assert httpx.get(f"{shipped.connection['http']}/metrics").status_code == 401
    assert shipped.http.get("/metrics").status_code == 200


def tenant(shipped: Program, namespace: str) -> httpx.Client:
    made = shipped.post("/v1/tokens", {"scopes": ["read", "submit", "operate"], "namespace": namespace})
    return httpx.Client(
        base_url=shipped.connection["http"], headers={"Authorization": f"Bearer {made['token']}"}, timeout=20
    )


def test_an_artifact_is_its_namespaces_own(shipped: Program) -> None:
    content = b"#!/bin/sh\necho the tenant's own\n"
    with tenant(shipped, "owner") as owner, tenant(shipped, "thief") as thief:
        first = owner.post("/v1/artifacts", content=content).json()
        stolen: dict[str, Any] = {"name": "steal", "artifact": first["artifact"]}
        unknown = {"name": "steal", "artifact": "sha256:" + "0" * 64}
        answers = [thief.post("/v1/jobs", json=body) for body in (stolen, unknown)]
        assert [answer.status_code for answer in answers] == [422, 422]
        details = [
            answer.json()["detail"].replace(first["artifact"], unknown["artifact"]) for answer in answers
        ]
        assert details[0] == details[1], "nothing tells whether somebody else has it"
        lines = {"name": "l", "command": "true", "fan_out": {"over": {"lines": first["artifact"]}}}
        assert thief.post("/v1/jobs", json=lines).status_code == 422
        node = {"name": "w", "nodes": [{"id": "n", "artifact": first["artifact"]}]}
        assert thief.post("/v1/jobs", json=node).status_code == 422
        assert owner.post("/v1/jobs", json=stolen).status_code == 201
        assert owner.post("/v1/artifacts", content=content).json()["created"] is False
        assert thief.post("/v1/artifacts", content=content).json()["created"] is True
        assert thief.post("/v1/jobs", json=stolen).status_code == 201
