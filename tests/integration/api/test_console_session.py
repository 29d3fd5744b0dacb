"""Signing a browser in, over HTTP: what the cookie is good for, at which api, and until when."""

import httpx
import pytest

from waterclock.api.console.routes import POLICY

from .conftest import TOKEN, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

OURS = {"Sec-Fetch-Site": "same-origin"}


def browser(house: Served) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=house.http.base_url, timeout=20)


async def test_every_address_is_the_same_page_with_its_policy(house: Served) -> None:
    async with browser(house) as http:
        pages = [await http.get(path) for path in ("/", "/ui/runs", "/ui/runs/a%40b~1", "/ui/no/such/page")]
    assert [page.status_code for page in pages] == [200] * 4
    assert {page.headers["content-security-policy"] for page in pages} == {POLICY}
    assert len({page.text for page in pages}) == 1


async def test_files_are_kept_for_ever_and_packed(house: Served) -> None:
    async with browser(house) as http:
        page = await http.get("/")
        address = page.text.partition('<script type="module" src="')[2].partition('"')[0]
        packed = await http.get(address)
        plain = await http.get(address, headers={"Accept-Encoding": "identity"})
        gone = await http.get(address.replace("/assets/", "/assets/0"))
    assert packed.headers["content-encoding"] == "gzip"
    assert "immutable" in packed.headers["cache-control"]
    assert packed.headers["content-type"].startswith("text/javascript")
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert gone.status_code == 404


async def test_paths_without_ui_are_the_api(house: Served) -> None:
    assert (await house.http.get("/jobs/no-such-job")).json()["status"] == 404


async def test_a_token_becomes_a_cookie_that_reads_and_from_our_page_writes(house: Served) -> None:
    async with browser(house) as http:
        assert (await http.get("/v1/whoami")).status_code == 401
        nobody = await http.get("/v1/session")
        assert (nobody.status_code, nobody.json()) == (200, None)
        signed = await http.post("/v1/session", json={"token": TOKEN})
        assert signed.status_code == 204
        assert (await http.get("/v1/session")).json()["actor"] == "token:bootstrap"
        cookie = signed.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        who = await http.get("/v1/whoami")
        assert who.json()["actor"] == "token:bootstrap"
        job = {"name": "by cookie", "command": "true", "schedule": "@yearly"}
        for site in ("same-site", "cross-site", "none", ""):
            refused = await http.post("/v1/jobs", json=job, headers={"Sec-Fetch-Site": site} if site else {})
            assert refused.status_code == 403, site
            assert "Sec-Fetch-Site" in refused.json()["detail"]
        assert (await http.post("/v1/jobs", json=job, headers=OURS)).status_code == 201
        assert (await http.get("/v1/whoami", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 401
        assert (await http.delete("/v1/session")).status_code == 403
        assert (await http.delete("/v1/session", headers=OURS)).status_code == 204


async def test_who_signs_out_is_out(house: Served) -> None:
    async with browser(house) as http:
        cookie = (
            (await http.post("/v1/session", json={"token": TOKEN})).headers["set-cookie"].partition(";")[0]
        )
        await http.delete("/v1/session", headers=OURS)
    async with browser(house) as http:
        assert (await http.get("/v1/whoami", headers={"Cookie": cookie})).status_code == 401


async def test_wrong_bodies_say_what_is_wrong(house: Served) -> None:
    async with browser(house) as http:
        assert (await http.post("/v1/session", json={"token": "nobody-has-this-token"})).status_code == 401
        assert (await http.post("/v1/session", json={})).status_code == 422
        assert (await http.post("/v1/session", json={"token": "x", "code": "y"})).status_code == 422
        assert (await http.post("/v1/session", json={"tokn": "x"})).status_code in (400, 422)
        assert (await http.post("/v1/session", content=b"[")).status_code == 400


async def test_a_link_works_once_at_whichever_api(house: Served) -> None:
    made = await house.client.sessions.link()
    code = made.path.rpartition("#")[2]
    assert made.path.startswith("/ui/sign-in#")
    async with browser(house) as http:
        answers = [await http.post("/v1/session", json={"code": code}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [204, 401]
    # Another api has only the bucket to go by.
    other = type(house.app.sessions)(house.app.connection, house.app.control)
    assert await other.use_link(code) is None


async def test_a_session_that_another_api_opened_counts_at_once(house: Served) -> None:
    other = type(house.app.sessions)(house.app.connection, house.app.control)
    digest = house.app.gate.digest_of_token(TOKEN)
    assert digest is not None
    secret, _ = await other.open(digest, None)
    port = house.settings.port
    async with browser(house) as http:
        answer = await http.get("/v1/whoami", headers={"Cookie": f"waterclock_session_{port}={secret}"})
    assert answer.status_code == 200


async def test_a_session_ends_with_its_token(house: Served) -> None:
    made = (await house.http.post("/v1/tokens", json={"scopes": ["read"]})).json()
    async with browser(house) as http:
        await http.post("/v1/session", json={"token": made["token"]})
        assert (await http.get("/v1/whoami")).json()["actor"] == f"token:{made['token_id']}"
        await house.http.delete(f"/v1/tokens/{made['token_id']}")
        over = await http.get("/v1/whoami")
    assert over.status_code == 401
    assert "revoked" in over.json()["detail"]


async def test_a_session_lasts_no_longer_than_its_token(house: Served) -> None:
    made = (await house.http.post("/v1/tokens", json={"scopes": ["read"], "expires_in_seconds": 3600})).json()
    async with browser(house) as http:
        cookie = (await http.post("/v1/session", json={"token": made["token"]})).headers["set-cookie"]
    seconds = int(cookie.partition("Max-Age=")[2].partition(";")[0])
    assert 3500 < seconds <= 3600
