"""Who changed who may do what, and who was not let in, leaves a record (F10, S18); and the administrator's token can be
revoked."""

import secrets as random
from typing import Any

import httpx
import pytest

from integration.api.conftest import TOKEN, Served, data, house
from support.waiting import eventually
from waterclock.api.auth.access_log import _BURST
from waterclock.api.client.client import Client
from waterclock.api.errors import Conflict, Forbidden, NotFound, Unauthenticated
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import stream_state
from waterclock.proto.answers import AccessRecord

__all__ = ["data", "house"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def records(house: Served, **filters: Any) -> list[AccessRecord]:
    return (await house.client.audit.access(limit=1000, **filters)).items


async def test_every_change_leaves_a_record_with_actor_and_address(house: Served) -> None:
    made = await house.http.post("/v1/tokens", json={"scopes": ["read"], "note": "for a test"})
    token_id = made.json()["token_id"]
    await house.client.tokens.revoke(token_id)
    await house.client.secrets.set("recorded", value="a-value")
    await house.http.delete("/v1/secrets/recorded")
    await house.client.namespaces.limit("limited", max_jobs=7)
    await house.client.secrets.rotate_key()
    newest = (await house.client.audit.access(limit=6)).items
    assert [(one.action, one.subject, one.address, one.namespace, one.detail) for one in newest] == [
        ("secret.key_rotated", "secrets", "nats", "default", ""),
        ("quota.set", "limited", "nats", "limited", "max_jobs 7"),
        ("secret.deleted", "recorded", "127.0.0.1", "default", ""),
        ("secret.set", "recorded", "nats", "default", ""),
        ("token.revoked", token_id, "nats", "default", "for a test"),
        ("token.created", token_id, "127.0.0.1", "default", "read for a test"),
    ]
    assert {one.actor for one in newest} == {"token:bootstrap"}
    assert made.json()["token"] not in str(newest)


async def test_a_denial_says_who_and_what(house: Served) -> None:
    made = await house.client.tokens.create(scopes=["read"])
    stranger = {"Authorization": f"Bearer nobody-{random.token_hex(8)}"}
    assert (await house.http.get("/v1/jobs", headers=stranger)).status_code == 401
    async with Client.connect(house.settings.nats_url, token=made.token) as reader:
        with pytest.raises(Forbidden):
            await reader.tokens.list()

    async def denied() -> list[AccessRecord] | None:
        found = [
            (one.subject, one.actor, one.address)
            for one in await records(house, action="denied")
            if one.subject in ("jobs.list", "tokens.list")
        ]
        wanted = {("tokens.list", f"token:{made.token_id}", "nats"), ("jobs.list", "", "127.0.0.1")}
        return found if wanted <= set(found) else None  # type: ignore[return-value]

    await eventually(denied, "both records")
    everything = str(await records(house))
    assert stranger["Authorization"].split()[1] not in everything


async def test_a_flood_of_denials_is_counted_and_fills_nothing(house: Served) -> None:
    before = (await stream_state(house.app.connection, "ACCESS")).messages
    async with httpx.AsyncClient(base_url=str(house.http.base_url)) as stranger:
        for _ in range(_BURST * 8):
            assert (await stranger.get("/v1/jobs")).status_code == 401
    assert (await stream_state(house.app.connection, "ACCESS")).messages - before <= _BURST * 2
    await house.client.secrets.set("after-the-flood", value="a-value")  # changes are recorded all the same
    assert (await records(house, action="secret.set"))[0].subject == "after-the-flood"


async def test_filters_and_pages(house: Served) -> None:
    for number in range(5):
        await house.client.namespaces.limit("paged", max_jobs=number)
    first = await house.client.audit.access(namespace="paged", limit=2)
    second = await house.client.audit.access(namespace="paged", limit=2, cursor=first.next_cursor)
    third = await house.client.audit.access(namespace="paged", limit=2, cursor=second.next_cursor)
    pages = [*first.items, *second.items, *third.items]
    assert [one.detail for one in pages] == [f"max_jobs {number}" for number in (4, 3, 2, 1, 0)]
    assert third.next_cursor is None
    assert await records(house, namespace="paged", before=pages[-1].at) == []
    assert len(await records(house, namespace="paged", after=pages[2].at)) == 3
    assert await records(house, namespace="paged", actor="somebody") == []
    assert len(await records(house, namespace="paged", actor="bootstrap", action="quota.set")) == 5
    answer = await house.http.get("/v1/audit/access", params={"cursor": "x"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")
    assert (await house.http.get("/v1/audit/access", params={"action": "nothing"})).status_code == 422


async def test_an_administrator_of_a_namespace_sees_its_own_and_others_nothing(house: Served) -> None:
    await house.client.namespaces.limit("tenant", max_jobs=1)
    made = await house.client.tokens.create(scopes=["admin"], namespace="tenant")
    async with Client.connect(house.settings.nats_url, token=made.token) as tenant:
        await tenant.secrets.set("theirs", value="a-value")
        seen = (await tenant.audit.access()).items
        assert {one.namespace for one in seen} == {"tenant"}
        assert [one.action for one in seen] == ["secret.set", "token.created", "quota.set"]
        with pytest.raises(Forbidden):
            await tenant.audit.access(namespace="default")
        reader = await tenant.tokens.create(scopes=["read"], namespace="tenant")
    async with Client.connect(house.settings.nats_url, token=reader.token) as other:
        with pytest.raises(Forbidden):
            await other.audit.access()


async def test_nobody_takes_a_record_out(house: Served) -> None:
    await house.client.secrets.set("kept", value="a-value")
    admin = house.settings.data / "nats" / "credentials.json"
    import json

    password = json.loads(admin.read_text())["users"]["admin"]
    host = (house.settings.nats_url or "").rpartition("@")[2]
    async with Connection.open(
        f"nats://admin:{password}@{host}", name="attack", inbox_prefix="_INBOX_admin"
    ) as nats:
        last = (await stream_state(nats, "ACCESS")).last_seq
        with pytest.raises(LogError):
            await nats.api("STREAM.MSG.DELETE.ACCESS", {"seq": last})
        with pytest.raises(LogError):
            await nats.api("STREAM.PURGE.ACCESS")
    assert (await records(house, action="secret.set"))[0].subject == "kept"


async def test_the_command_line_shows_it(house: Served, data: Any) -> None:
    import asyncio
    import os
    import sys

    await house.client.secrets.set("shown", value="a-value")
    shown = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "waterclock.api.cli",
            "audit",
            "--who",
            "--since",
            "1h",
            "--action",
            "secret.set",
        ),
        env={**os.environ, "WATERCLOCK_DATA": str(data)},
        stdout=asyncio.subprocess.PIPE,
    )
    told = (await shown.communicate())[0].decode()
    assert told.splitlines()[0].split() == ["TIME", "ACTION", "WHAT", "WHO", "FROM", "NAMESPACE", "DETAIL"]
    assert "secret.set  shown" in told
    assert "token:bootstrap" in told


async def test_the_administrators_token_is_revoked_for_good(house: Served) -> None:
    """The last test here: the token that the others use is no more after it."""
    others = [
        grant.token_id
        for grant in house.app.tokens.all()
        if "admin" in grant.scopes and grant.namespace == "default"
    ]
    for token_id in others:
        await house.client.tokens.revoke(token_id)
    with pytest.raises(Conflict, match="rotate-admin"):
        await house.client.tokens.revoke("bootstrap")
    tenant = await house.client.tokens.create(scopes=["admin"], namespace="tenant")
    async with Client.connect(house.settings.nats_url, token=tenant.token) as theirs:
        with pytest.raises(NotFound):
            await theirs.tokens.revoke("bootstrap")
    made = await house.client.tokens.create(scopes=["admin"])
    async with Client.connect(house.settings.nats_url, token=made.token) as admin:
        await admin.tokens.revoke("bootstrap")
        with pytest.raises(Unauthenticated):
            await house.client.jobs.list()
        assert (
            await house.http.get("/v1/jobs", headers={"Authorization": f"Bearer {TOKEN}"})
        ).status_code == 401
        with pytest.raises(NotFound):
            await admin.tokens.revoke("bootstrap")
        newest = (await admin.audit.access(action="token.revoked", limit=1)).items[0]
        assert (newest.subject, newest.actor) == ("bootstrap", f"token:{made.token_id}")
        assert "bootstrap" not in [one.token_id for one in await admin.tokens.list()]
