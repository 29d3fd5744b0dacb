"""Who comes in, by what, and who does not."""

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from browser.conftest import REFUSED, Guard, Opened
from support.program import Program

pytestmark = pytest.mark.browser


@pytest.fixture
def stranger(chromium: Browser, waterclock: Program, guard: Guard) -> Page:
    context = chromium.new_context(base_url=waterclock.connection["http"])
    guard.watch(context)
    guard.forgiven = (REFUSED,)  # who is nobody is told so
    return context.new_page()


def test_a_link_signs_in_once_and_leaves_nothing_in_the_address(
    stranger: Page, waterclock: Program, chromium: Browser, guard: Guard
) -> None:
    said = waterclock.cli("console", "--no-open")
    assert said.returncode == 0, said.stderr
    link = said.stdout.strip()
    stranger.goto(link)
    expect(stranger.get_by_role("heading", name="Overview")).to_be_visible()
    assert stranger.url == f"{waterclock.connection['http']}/"
    assert link.rpartition("#")[2] not in stranger.evaluate("JSON.stringify([history.state, localStorage])")
    stranger.context.close()

    second = chromium.new_context()
    guard.watch(second)
    page = second.new_page()
    page.goto(link)
    expect(page.get_by_text("this link was used already")).to_be_visible()
    second.close()


def test_a_deep_link_asks_for_a_token_and_then_shows_what_was_asked_for(
    stranger: Page, waterclock: Program
) -> None:
    stranger.goto("/ui/runs?status=FAILED")
    stranger.get_by_label("Token").fill("wrong-but-long-enough-to-be-one")
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_text("nobody knows this token")).to_be_visible()
    stranger.get_by_label("Token").fill(waterclock.connection["token"])
    stranger.keyboard.press("Enter")
    expect(stranger.get_by_role("heading", name="Runs")).to_be_visible()
    assert stranger.url.endswith("/ui/runs?status=FAILED")
    [cookie] = stranger.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert waterclock.connection["token"] not in cookie["value"]
    stranger.context.close()


def test_signing_out_ends_it_on_the_server_too(opened: Opened, waterclock: Program, guard: Guard) -> None:
    guard.forgiven = (REFUSED,)
    page = opened("/")
    [cookie] = page.context.cookies()
    page.get_by_title("You, and how it looks").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    kept = httpx.get(
        f"{waterclock.connection['http']}/v1/whoami",
        headers={"Cookie": f"{cookie['name']}={cookie['value']}"},
    )
    assert kept.status_code == 401


def test_a_revoked_token_ends_its_sessions(opened: Opened, waterclock: Program, guard: Guard) -> None:
    guard.forgiven = (REFUSED,)
    made = waterclock.post("/v1/tokens", {"scopes": ["read"]})
    page = opened("/ui/runs", token=made["token"])
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    waterclock.http.delete(f"/v1/tokens/{made['token_id']}").raise_for_status()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_who_may_only_read_sees_which_scope_is_missing(opened: Opened, waterclock: Program) -> None:
    waterclock.post("/v1/jobs", {"job_id": "for-readers", "name": "for readers", "command": "sleep 300"})
    run_id = waterclock.post("/v1/jobs/for-readers/runNow", status=202)["run_id"]
    token = waterclock.post("/v1/tokens", {"scopes": ["read"]})["token"]
    page = opened(f"/ui/runs/{run_id.replace('@', '%40')}", token=token)
    button = page.get_by_role("button", name="Cancel", exact=True)
    expect(button).to_have_attribute("title", "This needs the scope operate. Your token has: read.")
    button.click(force=True)
    expect(page.get_by_role("dialog")).not_to_be_visible()
    waterclock.http.delete("/v1/jobs/for-readers").raise_for_status()


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 202), ("same-site", 403), ("cross-site", 403), ("none", 403), (None, 403)],
)
def test_a_cookie_changes_something_only_from_our_own_page(
    waterclock: Program, site: str | None, status: int
) -> None:
    http = waterclock.connection["http"]
    waterclock.http.post(
        "/v1/jobs", json={"job_id": "for-cookies", "name": "x", "command": "true", "schedule": "@yearly"}
    )
    signed = httpx.post(f"{http}/v1/session", json={"token": waterclock.connection["token"]})
    cookie = signed.headers["set-cookie"].partition(";")[0]
    headers = {"Cookie": cookie, **({"Sec-Fetch-Site": site} if site else {})}
    answer = httpx.post(f"{http}/v1/jobs/for-cookies/runNow", headers=headers)
    assert answer.status_code == status, answer.text
    read = httpx.get(f"{http}/v1/whoami", headers=headers)
    assert read.status_code == (401 if site in ("same-site", "cross-site") else 200)
