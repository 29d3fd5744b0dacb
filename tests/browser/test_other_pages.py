"""The other pages of the console: calendar, workflows, backfills, fleet, audit, secrets, tokens, settings."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from browser.conftest import REFUSED, Guard, Opened
from browser.test_console import violations
from support.program import Program
from support.waiting import wait_until

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe"


def run_address(run_id: str) -> str:
    return f"/ui/workflow-runs/{quote(run_id, safe='')}"


def wave_of(waterclock: Program, workflow_id: str) -> str:
    return str(waterclock.post(f"/v1/workflows/{workflow_id}/runNow", {}, status=202)["workflow_run_id"])


def ended(waterclock: Program, run_id: str) -> Any:
    def over() -> Any:
        found = waterclock.get(f"/v1/workflow-runs/{quote(run_id, safe='')}")
        return found if found["status"] in ("SUCCESS", "FAILED") else None

    return wait_until(over, f"{run_id} to end", 60)


@pytest.fixture(scope="module")
def etl(waterclock: Program) -> Iterator[str]:
    """A workflow whose `load` fails until its flag is there, and whose `each` is a map."""
    flag = waterclock.data.parent / "etl-may-load"
    nodes = [
        {"id": "extract", "command": "echo '{\"rows\": 3}'"},
        {"id": "each", "command": "true", "depends_on": ["extract"], "map": {"over": [1, 2, 3]}},
        {
            "id": "load",
            "command": f"test -e {flag}",
            "depends_on": ["each"],
            "max_retries": 1,
            "retry": {"initial_seconds": 1, "jitter": False},
        },
        {"id": "report", "command": "true", "depends_on": ["load"]},
    ]
    waterclock.post("/v1/workflows", {"workflow_id": "page-etl", "name": f"etl {HOSTILE}", "nodes": nodes})
    run_id = wave_of(waterclock, "page-etl")
    ended(waterclock, run_id)
    yield run_id
    flag.unlink(missing_ok=True)


def test_a_wave_is_shown_and_its_failed_part_runs_again(
    opened: Opened, waterclock: Program, etl: str
) -> None:
    page = opened(f"{run_address(etl)}?node=load")
    wave = page.locator(".workflow-run")
    expect(wave).to_have_attribute("data-status", "FAILED")
    expect(page.locator('[data-node="extract"]')).to_have_attribute("data-status", "SUCCESS")
    expect(page.locator('[data-node="load"]')).to_have_attribute("data-status", "FAILED")
    expect(page.locator('[data-node="each"]')).to_contain_text("3/3")
    expect(page.get_by_role("complementary", name="Node load")).to_contain_text("Attempt")
    expect(page.locator(".gantt-row .part.backoff")).to_have_count(1)
    (waterclock.data.parent / "etl-may-load").touch()
    page.get_by_role("button", name="Rerun", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Rerun").click()
    expect(page.locator('[data-node="report"]')).to_have_attribute("data-status", "SUCCESS", timeout=30_000)
    expect(wave).to_have_attribute("data-status", "SUCCESS")
    page.locator('[data-node="extract"]').focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?node=extract$"))
    expect(page.get_by_role("complementary", name="Node extract")).to_contain_text('"rows": 3')


def test_a_workflow_is_listed_shown_and_run(opened: Opened, waterclock: Program, etl: str) -> None:
    page = opened("/ui/jobs/page-etl")
    expect(page).to_have_url(re.compile("/ui/workflows/page-etl$"))
    page.goto("/ui/workflows?q=page-etl")
    row = page.locator('[data-job-id="page-etl"]')
    expect(row).to_contain_text("<img src=x")
    row.get_by_role("link", name=re.compile("^etl")).click()
    expect(page.locator("[data-node]")).to_have_count(4)
    before = page.locator(".short-list [data-run-id]").count()
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".short-list [data-run-id]")).to_have_count(before + 1)
    assert page.locator("img").count() == 0


def test_a_thousand_nodes_are_drawn_at_once(opened: Opened, waterclock: Program) -> None:
    nodes = [
        {"id": f"n{i}", "command": "true", "depends_on": [f"n{(i * 7) % (i // 10 * 10)}"] if i >= 10 else []}
        for i in range(1000)
    ]
    waterclock.post("/v1/workflows", {"workflow_id": "page-wide", "name": "wide", "nodes": nodes})
    page = opened("/ui/workflows/page-wide")
    expect(page.locator("[data-node]")).to_have_count(1000)
    expect(page.locator(".graph-edges")).to_have_count(1)


def test_the_calendar_knows_daylight_saving_and_skips_a_fire(opened: Opened, waterclock: Program) -> None:
    waterclock.post(
        "/v1/jobs",
        {
            "job_id": "page-night",
            "name": f"night {HOSTILE}",
            "command": "true",
            "cron": "30 2 * * *",
            "timezone": "Europe/Paris",
        },
    )
    tz = "tz=Europe%2FParis&job=page-night"
    page = opened(
        f"/ui/calendar?from=2027-03-26T23:00:00Z&to=2027-04-02T22:00:00Z&{tz}", timezone_id="Asia/Kolkata"
    )
    expect(page.locator("[data-fire]")).to_have_count(7)
    expect(page.locator('[data-dst="gone"]')).to_have_count(1)
    expect(page.locator('[data-cell="2027-03-28T03"]')).to_have_attribute("data-count", "1")
    expect(page.locator("[data-note=dst_gap]")).to_have_count(1)
    page.goto(f"/ui/calendar?from=2027-10-30T22:00:00Z&to=2027-10-31T23:00:00Z&{tz}")
    expect(page.locator("[data-fire]")).to_have_count(1)
    expect(page.get_by_text("twice")).to_be_visible()
    expect(page.locator("[data-note=dst_overlap]")).to_have_count(1)
    page.locator('[data-cell="2027-10-31T02:30"]').click()
    expect(page).to_have_url(re.compile(r"cell="))
    page.get_by_role("button", name="Skip").click()
    page.get_by_role("dialog").get_by_role("button", name="Skip it").click()
    expect(page.locator("[data-note=skipped]")).to_have_count(1)
    page.reload()
    expect(page.locator("[data-note=skipped]")).to_have_count(1)
    day = {"from": "2027-10-30T22:00:00Z", "to": "2027-10-31T23:00:00Z", "job": "page-night"}
    assert [fire["note"] for fire in waterclock.get("/v1/upcoming", **day)["items"]] == ["skipped"]


def test_a_backfill_is_counted_then_started(opened: Opened, waterclock: Program) -> None:
    waterclock.post(
        "/v1/jobs", {"job_id": "page-past", "name": "past", "command": "true", "schedule": "0 * * * *"}
    )
    page = opened("/ui/backfills?job=page-past", timezone_id="UTC")
    expect(page.get_by_text("No backfills")).to_be_visible()
    page.get_by_label("From, in UTC").fill("2026-01-01T00:00:00")
    page.get_by_label("To, exclusive").fill("2026-01-01T06:00:00")
    page.get_by_label("At once").press("Enter")
    expect(page.locator("[data-counted]")).to_have_attribute("data-counted", "6")
    page.get_by_role("button", name="Start 6").click()
    expect(page.locator("[data-backfill]")).to_have_attribute("data-status", "COMPLETED", timeout=60_000)
    assert waterclock.get("/v1/backfills", job_id="page-past")["items"][0]["done"] == 6


def test_the_fleet_shows_who_runs_things(opened: Opened, waterclock: Program) -> None:
    [executor] = waterclock.get("/v1/executors")["items"]
    page = opened(f"/ui/fleet#{executor['executor_id']}")
    row = page.locator(f'[data-executor="{executor["executor_id"]}"]')
    expect(row).to_have_attribute("data-status", "ACTIVE")
    expect(row).to_have_class(re.compile("chosen-row"))
    expect(page.locator("[data-partition]").first).to_be_visible()
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/ui/runs\?executor="))


def test_the_audit_shows_its_proof(opened: Opened, waterclock: Program) -> None:
    page = opened("/ui/audit")
    expect(page.get_by_text("Choose a range")).to_be_visible()
    page.get_by_role("button", name="Last hour").click()
    expect(page).to_have_url(re.compile(r"\?from="))
    expect(page.locator("[data-clean=true]")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("heading", name="The proof")).to_be_visible()


def test_a_secret_is_set_and_deleted_and_its_value_is_nowhere(opened: Opened, waterclock: Program) -> None:
    page = opened("/ui/secrets")
    page.get_by_label("Name").fill("page-secret")
    page.get_by_label("Value").fill("hunter2-hunter2")
    page.keyboard.press("Enter")
    row = page.locator('[data-secret="page-secret"]')
    expect(row).to_be_visible()
    assert "hunter2" not in page.content()
    assert "page-secret" in [one["name"] for one in waterclock.get("/v1/secrets")["items"]]
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert "page-secret" not in [one["name"] for one in waterclock.get("/v1/secrets")["items"]]


def test_a_token_is_made_shown_once_and_revoked(opened: Opened, waterclock: Program) -> None:
    page = opened("/ui/tokens")
    page.get_by_label("For").fill(HOSTILE)
    page.keyboard.press("Enter")
    token = page.locator("[data-token]").inner_text()
    answer = waterclock.http.get("/v1/whoami", headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["scopes"] == ["read"]
    page.reload()
    row = page.locator("[data-token-id]").filter(has_text="<img src=x")
    expect(row).to_be_visible()
    assert token not in page.content()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert waterclock.http.get("/v1/whoami", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_who_may_only_read_makes_no_tokens_and_sets_no_secrets(opened: Opened, waterclock: Program) -> None:
    token = waterclock.post("/v1/tokens", {"scopes": ["read"]})["token"]
    page = opened("/ui/tokens", token=token)
    expect(page.get_by_text("This needs the scope admin")).to_be_visible()
    page.goto("/ui/secrets")
    button = page.get_by_role("button", name="Set", exact=True)
    expect(button).to_have_attribute("title", re.compile("needs the scope secrets"))


def test_settings_say_what_doctor_says(opened: Opened, waterclock: Program) -> None:
    page = opened("/ui/settings")
    findings = waterclock.get("/v1/doctor")["findings"]
    expect(page.locator("[data-check]")).to_have_count(len(findings))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_these_pages(opened: Opened, guard: Guard, etl: str, scheme: str) -> None:
    """One browser goes through all of them: starting one for each would take a minute."""
    guard.forgiven = (REFUSED,)  # one of them is not there
    found = {}
    page = opened("/ui/jobs", color_scheme=scheme, reduced_motion="reduce")
    for path in (
        "/ui/jobs",
        "/ui/jobs?q=nothing-is-called-that",
        "/ui/jobs/page-etl-none",
        "/ui/jobs/new",
        "/ui/workflows",
        "/ui/workflows/page-etl",
        f"{run_address(etl)}?node=load",
        "/ui/calendar",
        "/ui/backfills",
        "/ui/fleet",
        "/ui/audit",
        "/ui/secrets",
        "/ui/tokens",
        "/ui/settings",
    ):
        page.goto(path)
        expect(page.locator("main h1, main .trouble").first).to_be_visible()
        expect(page.locator("main .skeleton")).to_have_count(0)
        found[path] = violations(page)
    assert {path: wrong for path, wrong in found.items() if wrong} == {}
