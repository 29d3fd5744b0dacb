"""Jobs in the console: find, define, look at, change, merge, take back, and act on many."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from browser.conftest import REFUSED, Guard, Opened
from support.program import Program
from support.waiting import wait_until

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe"


def define(waterclock: Program, job_id: str, **fields: Any) -> None:
    body = {
        "job_id": job_id,
        "name": f"the {job_id}",
        "command": "true",
        "schedule": "@yearly",
        "max_retries": 0,
    }
    waterclock.post("/v1/jobs", {**body, **fields})


def listed(waterclock: Program, job_id: str) -> None:
    """Until a listing shows it."""
    wait_until(lambda: waterclock.get("/v1/jobs", q=job_id)["items"], f"{job_id} to be listed")


def test_a_job_is_found_by_filters_that_are_in_the_address(opened: Opened, waterclock: Program) -> None:
    define(waterclock, "list-one", labels={"kind": "listed"})
    define(waterclock, "list-two", labels={"kind": "listed"}, name=HOSTILE)
    listed(waterclock, "list-two")
    page = opened("/ui/jobs?label=kind%3Dlisted")
    expect(page.locator("[data-job-id]")).to_have_count(2)
    expect(page.locator('[data-job-id="list-two"]')).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0
    page.get_by_label("Filter", exact=True).fill("list-one")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"label=kind%3Dlisted&q=list-one$"))
    expect(page.locator("[data-job-id]")).to_have_count(1)
    page.get_by_role("link", name="the list-one").click()
    expect(page.get_by_role("heading", name="the list-one")).to_be_visible()
    page.go_back()
    expect(page.locator("[data-job-id]")).to_have_count(1)
    page.get_by_role("button", name="Paused", exact=True).click()
    expect(page.get_by_text("No job matches")).to_be_visible()


def test_all_that_match_are_paused_after_a_count(opened: Opened, waterclock: Program) -> None:
    for i in range(5):
        define(waterclock, f"many-{i}", labels={"kind": "many"})
    listed(waterclock, "many-4")
    page = opened("/ui/jobs?label=kind%3Dmany")
    expect(page.locator("[data-job-id]")).to_have_count(5)
    page.get_by_role("button", name="All of these").click()
    page.get_by_role("button", name="Pause all that match…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Pause 5 jobs?")).to_be_visible()
    dialog.get_by_role("button", name="Pause 5").click()
    expect(page.get_by_text("5 paused")).to_be_visible()
    assert {waterclock.get(f"/v1/jobs/many-{i}")["status"] for i in range(5)} == {"PAUSED"}
    expect(page.locator('[data-job-id="many-0"]')).to_have_attribute("data-status", "PAUSED")


def test_a_job_is_defined_by_keyboard_alone_with_its_fires_beside(
    opened: Opened, waterclock: Program, guard: Guard
) -> None:
    guard.forgiven = (REFUSED,)  # a cron that is none
    page = opened("/ui/jobs/new", timezone_id="America/New_York")
    page.get_by_label("Name").focus()
    page.keyboard.type("typed job")
    page.keyboard.press("Tab")
    page.keyboard.type("typed-job")
    page.get_by_label("Command line").focus()
    page.keyboard.type("echo typed")
    page.get_by_label("Cron", exact=True).fill("61 * * * *")
    expect(page.locator("#preview .wrong")).to_contain_text("minute")
    expect(page.get_by_label("Cron", exact=True)).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Cron", exact=True).fill("30 2 * * *")
    page.get_by_label("Time zone").fill("Europe/Paris")
    expect(page.locator("#preview [data-fire]").first).to_contain_text("02:30 +0")
    page.get_by_label("Retries").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="typed job")).to_be_visible()
    made = waterclock.get("/v1/jobs/typed-job")
    assert (made["cron_expression"], made["timezone"]) == ("30 2 * * *", "Europe/Paris")
    assert made["task"] == {"kind": "shell", "command": "echo typed"}


def test_what_the_service_refuses_is_said_at_the_field(opened: Opened, guard: Guard) -> None:
    guard.forgiven = (REFUSED,)
    page = opened("/ui/jobs/new")
    page.get_by_label("Name").fill("refused")
    page.get_by_label("Command line").fill("true")
    page.get_by_label("Priority").fill("500")
    page.get_by_role("button", name="Create job").click()
    expect(page.locator("#m-priority.wrong")).to_be_visible()
    expect(page.get_by_label("Priority")).to_be_focused()


def test_a_job_runs_now_is_paused_resumed_skipped_and_cancelled(opened: Opened, waterclock: Program) -> None:
    define(waterclock, "acted-on", command="echo ran", schedule="0 3 * * *", timezone="Europe/Paris")
    page = opened("/ui/jobs/acted-on")
    job = page.locator(".job")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".run-bars [data-status=SUCCESS]")).to_have_count(1)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(job).to_have_attribute("data-status", "PAUSED")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(job).to_have_attribute("data-status", "SCHEDULED")
    first = page.locator(".fires [data-fire]").first
    expect(first).to_contain_text("03:00")
    first.get_by_role("button", name="Skip").click()
    page.get_by_role("dialog").get_by_role("button", name="Skip it").click()
    expect(page.locator(".fires [data-note=skipped]")).to_have_count(1)
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(job).to_have_attribute("data-status", "CANCELLED")
    assert waterclock.get("/v1/jobs/acted-on")["status"] == "CANCELLED"


def test_a_moment_is_explained(opened: Opened, waterclock: Program) -> None:
    define(waterclock, "explained", schedule="0 3 * * *")
    page = opened("/ui/jobs/explained?at=2020-01-01T12:00:00Z")
    expect(page.locator("[data-why]")).to_be_visible()


@pytest.mark.parametrize(
    ("month", "before", "after", "note"),
    [
        (
            "2027-03-27T12:00:00Z/2027-03-29T12:00:00Z",
            "03:00 +02:00",
            "04:30 +02:00",
            "clock goes forward",
        ),
        (
            "2027-10-30T12:00:00Z/2027-11-01T12:00:00Z",
            "02:30 +02:00",
            "04:30 +01:00",
            "clock goes back",
        ),
    ],
)
def test_an_edit_is_compared_across_a_change_of_the_clock(
    opened: Opened, waterclock: Program, month: str, before: str, after: str, note: str
) -> None:
    job_id = f"what-if-{month[:7]}"
    define(waterclock, job_id, schedule="30 2 * * *", timezone="Europe/Paris")
    start, end = month.split("/")
    page = opened(f"/ui/jobs/{job_id}/edit?from={start}&to={end}", timezone_id="Asia/Kolkata")
    what_if = page.locator("#what-if")
    expect(what_if.locator("[data-fire]")).to_have_count(2)
    expect(what_if).to_contain_text(before)
    expect(what_if).to_contain_text(note)
    expect(what_if.get_by_title("Asia/Calcutta")).to_have_text("Yours")
    page.get_by_label("Cron", exact=True).fill("30 4 * * *")
    expect(what_if.locator("[data-added]")).to_have_attribute("data-added", "2")
    expect(what_if.locator("[data-change=added]").first).to_contain_text(after)
    expect(what_if.locator("[data-change=removed]")).to_have_count(2)
    assert waterclock.get(f"/v1/jobs/{job_id}")["cron_expression"] == "30 2 * * *"


def test_an_edit_is_saved_diffed_and_taken_back(opened: Opened, waterclock: Program) -> None:
    define(
        waterclock, "edited", schedule="0 3 * * *", labels={"team": "a"}, payload={"n": 1}, jitter_seconds=5
    )
    page = opened("/ui/jobs/edited/edit")
    page.get_by_label("Retries").fill("7")
    page.get_by_label("Retries").press("Enter")
    expect(page.get_by_role("heading", name="the edited", exact=True)).to_be_visible()
    changed = waterclock.get("/v1/jobs/edited")
    assert changed["max_retries"] == 7
    assert (changed["payload"], changed["jitter_seconds"], changed["labels"]) == ({"n": 1}, 5, {"team": "a"})
    newest = page.locator("[data-version]").first
    expect(newest).to_contain_text("max_retries")
    newest.get_by_role("button", name="Diff").click()
    expect(page.locator('.differences [data-field="max_retries"]')).to_contain_text("7")
    page.locator("[data-version]").last.get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Restore version")).click()
    expect(page.locator("[data-version]")).to_have_count(3)
    assert waterclock.get("/v1/jobs/edited")["max_retries"] == 0


def test_two_edits_at_once_are_merged(opened: Opened, waterclock: Program, guard: Guard) -> None:
    guard.forgiven = (REFUSED,)
    define(waterclock, "merged", schedule="0 3 * * *", priority=1)
    page = opened("/ui/jobs/merged/edit")
    page.get_by_label("Retries").fill("5")
    page.get_by_label("Priority").fill("50")
    waterclock.http.patch("/v1/jobs/merged", json={"priority": 9, "queue": "slow"}).raise_for_status()
    page.get_by_role("button", name="Save", exact=True).click()
    merge = page.locator("#merge")
    expect(merge.locator("[data-conflict]")).to_have_count(1)
    expect(merge.locator('[data-field="priority"]')).to_contain_text("50")
    expect(merge.locator('[data-field="queue"]')).to_contain_text("slow")
    merge.locator('[data-field="priority"] input[value=mine]').check()
    page.get_by_role("button", name="Save merged").click()
    expect(page.get_by_role("heading", name="the merged", exact=True)).to_be_visible()
    found = waterclock.get("/v1/jobs/merged")
    assert (found["max_retries"], found["priority"], found["queue"]) == (5, 50, "slow")


@pytest.mark.parametrize(
    ("scope", "can", "cannot"),
    [("read", [], ["Run now", "Pause"]), ("operate", ["Run now", "Pause"], []), ("submit", [], ["Run now"])],
)
def test_each_scope_does_what_it_may(
    opened: Opened, waterclock: Program, scope: str, can: list[str], cannot: list[str]
) -> None:
    define(waterclock, f"scoped-{scope}")
    token = waterclock.post("/v1/tokens", {"scopes": ["read", scope] if scope != "read" else ["read"]})[
        "token"
    ]
    page = opened(f"/ui/jobs/scoped-{scope}", token=token)
    for name in can:
        expect(page.get_by_role("button", name=name, exact=True)).not_to_have_attribute(
            "aria-disabled", "true"
        )
    for name in cannot:
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("title", re.compile("needs the scope operate"))
    page.goto(f"/ui/jobs/scoped-{scope}/edit")
    save = page.get_by_role("button", name="Save", exact=True)
    expect(save).to_be_visible()
    if scope == "submit":
        expect(save).not_to_have_attribute("aria-disabled", "true")
    else:
        expect(save).to_have_attribute("title", re.compile("needs the scope submit"))


def test_the_same_is_copied_for_elsewhere(opened: Opened, waterclock: Program) -> None:
    define(
        waterclock, "said-elsewhere", command=["echo", "a b"], labels={"team": "data"}, schedule="*/5 * * * *"
    )
    page = opened("/ui/jobs/said-elsewhere", permissions=["clipboard-read", "clipboard-write"])
    copied = {}
    for name in ("Command line", "curl", "YAML"):
        page.get_by_role("button", name="Copy as").click()
        page.get_by_role("button", name=re.compile(f"^{name}")).click()
        expect(page.get_by_text("Copied").first).to_be_visible()
        copied[name] = page.evaluate("navigator.clipboard.readText()")
    assert copied["Command line"] == "waterclock run-now said-elsewhere"
    assert f"{quote('said-elsewhere')}/runNow" in copied["curl"]
    (waterclock.data.parent / "copied.yaml").write_text(copied["YAML"])
    applied = waterclock.cli("apply", "-f", str(waterclock.data.parent / "copied.yaml"))
    assert "unchanged" in applied.stdout, applied.stdout + applied.stderr
