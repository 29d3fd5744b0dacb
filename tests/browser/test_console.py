"""What people do with the console: find, follow, cancel, redrive, come back."""

import re
import shlex
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import AXE, Guard, Opened
from support.program import Program
from support.waiting import wait_until

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe \x1b[31mred"


def address_of(run_id: str) -> str:
    return f"/ui/runs/{quote(run_id, safe='')}"


def run_now(waterclock: Program, job_id: str, command: str, **fields: object) -> str:
    body = {
        "job_id": job_id,
        "name": f"the {job_id}",
        "command": command,
        "schedule": "@yearly",
        "max_retries": 0,
        **fields,
    }
    waterclock.post("/v1/jobs", body)
    return str(waterclock.post(f"/v1/jobs/{job_id}/runNow", status=202)["run_id"])


def test_a_run_appears_and_ends_without_loading_the_page_again(opened: Opened, waterclock: Program) -> None:
    page = opened("/ui/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    run_id = run_now(waterclock, "seen-live", "echo begun; sleep 1; echo done")
    row = page.locator(f'[data-run-id="{run_id}"]')
    expect(row).to_be_visible()
    expect(row).to_have_attribute("data-status", "SUCCESS")
    row.get_by_role("link").click()
    expect(page.locator("[data-log] [data-line]").first).to_have_text("begun")
    expect(page.locator("[data-log] [data-line]").last).to_have_text("done")
    expect(page.locator(f'.run[data-run-id="{run_id}"]')).to_have_attribute("data-status", "SUCCESS")
    assert page.url.endswith(address_of(run_id))


def test_filters_are_in_the_address_and_back_brings_them_again(opened: Opened, waterclock: Program) -> None:
    run_id = run_now(waterclock, "filtered-for", "exit 3")
    waterclock.run_of("filtered-for")
    page = opened("/ui/runs?job=filtered-for")
    expect(page.locator("[data-run-id]")).to_have_count(1)
    page.get_by_role("group", name="Status").get_by_role("button", name="Failed").click()
    expect(page).to_have_url(re.compile(r"\?job=filtered-for&status=FAILED,TIMED_OUT,MISSED$"))
    page.locator(f'[data-run-id="{run_id}"] a').click()
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    page.go_back()
    expect(page.locator(f'[data-run-id="{run_id}"]')).to_have_attribute("data-status", "FAILED")
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?job=filtered-for$"))
    page.get_by_role("group", name="Status").get_by_role("button", name="Success").click()
    expect(page.get_by_text("No run matches")).to_be_visible()


def test_what_runs_is_cancelled_by_keyboard_alone(opened: Opened, waterclock: Program) -> None:
    run_id = run_now(waterclock, "to-cancel", "sleep 300")
    page = opened(address_of(run_id))
    expect(page.locator(".run")).to_have_attribute("data-status", "RUNNING")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".run")).to_have_attribute("data-status", "CANCELLED")


def test_a_log_opens_at_the_line_of_its_address(opened: Opened, waterclock: Program) -> None:
    run_id = run_now(waterclock, "long-log", "seq 1 20000 | sed 's/^/line /'")
    waterclock.run_of("long-log")
    page = opened(f"{address_of(run_id)}?attempt=1#L12000")
    expect(page.locator('[data-line="12000"]')).to_have_text("line 12000")
    expect(page.locator('[data-line="12000"]')).to_be_visible()
    assert page.locator("[data-line]").count() <= 60


def test_the_end_of_a_log_comes_first(opened: Opened, waterclock: Program) -> None:
    run_id = run_now(waterclock, "large-log", "seq 1 300000 | sed 's/^/a line that is long /'")
    waterclock.run_of("large-log")
    page = opened(address_of(run_id))
    expect(page.locator("[data-line]").last).to_have_text("a line that is long 300000")
    assert page.locator("[data-line]").count() <= 60


def test_hostile_text_is_only_text(opened: Opened, waterclock: Program) -> None:
    run_id = run_now(
        waterclock,
        "hostile",
        "printf '<b>bold</b> \\033[31mred\\033[0m \\033]0;title\\007\\n'; head -c 1000000 /dev/zero | tr '\\0' x;"
        " echo >&2; exit 1",
        labels={"k": "<script>"},
    )
    waterclock.http.patch("/v1/jobs/hostile", json={"name": HOSTILE.replace("\x1b", "")}).raise_for_status()
    waterclock.run_of("hostile")
    page = opened(f"{address_of(run_id)}#L1")
    expect(page.locator('[data-line="1"]')).to_have_text("<b>bold</b> red ")
    expect(page.locator('[data-line="1"] .a-red')).to_have_text("red")
    page.goto("/ui/runs?job=hostile")
    expect(page.locator(f'[data-run-id="{run_id}"]')).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0


def test_dead_letters_are_grouped_and_redriven_together(opened: Opened, waterclock: Program) -> None:
    for i in range(3):
        run_now(waterclock, f"dead-{i}", f"echo 'no room on disk {i}' >&2; exit 9")
    for i in range(3):
        waterclock.run_of(f"dead-{i}")

    def all_there() -> bool:
        found = waterclock.get("/v1/dead-letters", limit=1000)["items"]
        return {f"dead-{i}" for i in range(3)} <= {letter["job_id"] for letter in found}

    wait_until(all_there, "the dead letters")
    page = opened("/ui/dead-letters")
    group = page.locator("section.group").filter(has_text="no room on disk").first
    expect(group).to_be_visible()
    count = int(group.locator(".group-count").inner_text())
    assert count >= 3
    group.get_by_role("button", name="Redrive").first.click()
    page.get_by_role("dialog").get_by_role("button", name=f"Redrive {count}").click()
    expect(page.get_by_text(re.compile(r"runs tried again"))).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/ui/runs", "/ui/dead-letters", "run", "/ui/nowhere"])
def test_everybody_can_use_it(opened: Opened, waterclock: Program, path: str, scheme: str) -> None:
    if path == "run":
        job = f"axe-{scheme}"
        path = address_of(run_now(waterclock, job, "echo hi; exit 1"))
        waterclock.run_of(job)
    page = opened(path, color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
    assert violations(page) == []


def violations(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "axe.run().then(r => r.violations.map(v =>"
        " v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join(' | ')))"
    )
    return list(found)


def test_all_that_a_filter_matches_is_cancelled_after_a_count(opened: Opened, waterclock: Program) -> None:
    """More than a page of the list holds, and no more than are queued at a time where nobody serves them."""
    count = 120
    jobs = [
        {"name": f"bulk {i}", "job_type": "nobody_serves_this", "labels": {"bulk": "yes"}}
        for i in range(count)
    ]
    waterclock.http.post("/v1/jobs:batch", json=jobs).raise_for_status()

    def all_there() -> bool:
        found = waterclock.get("/v1/runs", label="bulk=yes", status="QUEUED", limit=1000)["items"]
        return len(found) == count

    wait_until(all_there, "the runs to be listed")
    page = opened("/ui/runs?label=bulk%3Dyes&status=QUEUED,WAITING,RUNNING")
    expect(page.locator("[data-run-id]").first).to_be_visible()
    assert page.locator("[data-run-id]").count() <= 60
    page.get_by_role("button", name="All of these").click()
    page.get_by_role("button", name="Cancel all that match").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Cancel {count} runs?")
    page.get_by_role("dialog").get_by_role("button", name=f"Cancel {count}").click()
    expect(page.get_by_text(f"{count} cancelled")).to_be_visible(timeout=60_000)

    def all_cancelled() -> bool:
        found = waterclock.get("/v1/runs", label="bulk=yes", status="CANCELLED", limit=1000)["items"]
        return len(found) == count

    wait_until(all_cancelled, "the runs to be cancelled", 60)


def test_nothing_moves_under_the_pointer(opened: Opened, waterclock: Program) -> None:
    first = run_now(waterclock, "pointed-at", "true")
    waterclock.run_of("pointed-at")
    page = opened("/ui/runs")
    row = page.locator(f'[data-run-id="{first}"]')
    expect(row).to_be_visible()
    row.hover()
    before = row.bounding_box()
    second = run_now(waterclock, "comes-later", "true")
    fresh = page.get_by_role("button", name=re.compile(r"^\d+ new$"))
    expect(fresh).to_be_visible()
    assert row.bounding_box() == before
    expect(page.locator(f'[data-run-id="{second}"]')).to_have_count(0)
    fresh.click()
    expect(page.locator(f'[data-run-id="{second}"]')).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "/ui/runs?status=FAILED,TIMED_OUT&job=copied-filter&label=k%3Dv&q=it%27s&from=2026-01-01T00:00:00Z&queue=default",
        "/ui/dead-letters?q=no%20room&job=copied-filter",
    ],
)
def test_what_is_copied_for_the_command_line_works_there(
    opened: Opened, waterclock: Program, path: str
) -> None:
    waterclock.http.post("/v1/jobs", json={"job_id": "copied-filter", "name": "x", "command": "true"})
    page = opened(path)
    page.get_by_role("button", name="Copy as").click()
    shown = page.locator(".menu-items code").first.inner_text()
    said = waterclock.cli(*shlex.split(shown)[1:])
    assert said.returncode == 0, said.stderr


def test_the_palette_finds_pages_and_jobs(opened: Opened, waterclock: Program) -> None:
    waterclock.post(
        "/v1/jobs",
        {"job_id": "to-be-found", "name": "needle in hay", "command": "true", "schedule": "@yearly"},
    )
    page = opened("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("dead")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("needle")
    expect(page.get_by_role("option", name=re.compile("needle in hay"))).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_the_first_load_is_small(opened: Opened, guard: Guard) -> None:
    page = opened("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').filter(r => r.name.includes('/assets/'))"
        ".map(r => [r.name, r.encodedBodySize])"
    )
    assert len([name for name, _ in loaded if name.endswith(".js") and not name.endswith("theme.js")]) <= 12
    assert 10_000 < sum(size for _, size in loaded) <= 60_000


def test_tabs_share_one_stream(opened: Opened, waterclock: Program) -> None:
    first = opened("/ui/runs")
    pages = [first, *(first.context.new_page() for _ in range(7))]
    streams: list[str] = []
    first.context.on(
        "request", lambda request: streams.append(request.url) if "/v1/events" in request.url else None
    )
    for page in pages[1:]:
        page.goto("/ui/runs")
        expect(page.locator(".fresh")).not_to_have_text("Joining")
    run_id = run_now(waterclock, "for-all-tabs", "true")
    for page in pages:
        page.bring_to_front()
        expect(page.locator(f'[data-run-id="{run_id}"]')).to_have_attribute("data-status", "SUCCESS")
    assert streams == []
