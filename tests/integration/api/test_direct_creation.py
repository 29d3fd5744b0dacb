"""Creating a job past the framework answers as the framework does."""

import asyncio
from typing import Any

import httpx
import pytest

from waterclock.api.http.routes import _routed

from .conftest import TOKEN, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

_KNOWN = {"content-type", "content-length", "location", "etag", "retry-after", "www-authenticate"}
_JOB = b'{"job_id": "direct-%d", "name": "x", "command": "true", "schedule": "@yearly"}'
_REQUESTS: list[tuple[bytes, dict[str, str]]] = [
    (_JOB, {}),
    (_JOB, {}),
    (b'{"name": "y", "command": "true", "schedule": "@yearly"}', {"Idempotency-Key": "direct-key"}),
    (b"{", {}),
    (b"", {}),
    (b"[]", {}),
    (b'{"name": "x", "comand": "true", "max_retries": -1}', {}),
    (b'{"name": "x", "command": "true"}', {"Authorization": "Bearer nobody"}),
    (b'{"name": "x", "command": "true"}', {"Authorization": ""}),
]


async def test_the_same_answers(house: Served) -> None:
    framework = httpx.ASGITransport(_routed(house.app))  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        transport=framework, base_url="http://framework", headers=headers
    ) as through:
        for number, (body, own) in enumerate(_REQUESTS):
            found = []
            for way, client in enumerate((house.http, through)):
                named = body.replace(b"%d", str(way).encode())
                answer = await client.post("/v1/jobs", content=named, headers=own)
                found.append(_said(answer, f"direct-{way}"))
            if number == 2:  # a key is the same over both ways: the second finds what the first made
                assert found[0][0] == 201
                assert found[1][0] == 200
            else:
                assert found[0] == found[1]


def _said(answer: httpx.Response, own: str) -> tuple[int, dict[str, str], Any]:
    said = answer.json()
    for changing in ("version", "next_run_at", "trace"):
        said.pop(changing, None)
    headers = {name: value for name, value in answer.headers.items() if name in _KNOWN}
    headers.pop("etag", None)
    if answer.status_code < 300:
        headers.pop("content-length")
    text = str((headers, said)).replace(own, "direct")
    return answer.status_code, {}, text


async def test_one_bad_request_among_many_harms_no_other(house: Served) -> None:
    """They are written together."""
    good = [{"name": "g", "command": "true", "schedule": "@yearly"}] * 40
    taken = [{"job_id": "one-of-them", "name": "t", "command": "true", "schedule": "@yearly"}] * 4
    bad = [{"name": "b", "command": "true", "schedule": "61 * * * *"}] * 4
    answers = await asyncio.gather(
        *(house.http.post("/v1/jobs", json=body) for body in (*good, *taken, *bad))
    )
    statuses = [answer.status_code for answer in answers]
    assert statuses[:40] == [201] * 40
    assert sorted(statuses[40:44]) == [201, 409, 409, 409]
    assert statuses[44:] == [422] * 4
    assert len({answer.json()["job_id"] for answer in answers[:40]}) == 40
