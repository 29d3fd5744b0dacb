"""What the console shows while something is away, and that nothing is lost or doubled when it is back."""

import pytest
from playwright.sync_api import expect

from browser.conftest import REFUSED, Guard, Opened
from support.program import Program
from support.waiting import wait_until

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("component", ["api", "postgres", "nats", "projector"])
def test_what_is_shown_survives_and_comes_back(
    opened: Opened, waterclock: Program, guard: Guard, component: str
) -> None:
    guard.forgiven = (REFUSED,)
    job = f"before-{component}"
    waterclock.post("/v1/jobs", {"job_id": job, "name": job, "command": "true"})
    waterclock.run_of(job)
    page = opened("/ui/runs")
    before = page.locator(f'[data-run-id^="{job}@"]')
    expect(before).to_have_attribute("data-status", "SUCCESS")
    waterclock.kill(component)
    expect(before).to_be_visible()
    wait_until(lambda: waterclock.http.get("/readyz").status_code == 200, "it to be ready again", 60)
    after = f"after-{component}"

    def submitted() -> bool:
        answer = waterclock.http.post("/v1/jobs", json={"job_id": after, "name": after, "command": "true"})
        return answer.status_code in (200, 201, 409)

    wait_until(submitted, "a job to be taken", 60)
    row = page.locator(f'[data-run-id^="{after}@"]')
    expect(row).to_have_attribute("data-status", "SUCCESS", timeout=60_000)
    expect(row).to_have_count(1)
    expect(before).to_have_count(1)
    expect(page.locator(".banner.bad")).to_have_count(0, timeout=30_000)


def test_a_banner_says_since_when_nothing_was_heard(opened: Opened, guard: Guard) -> None:
    guard.forgiven = (REFUSED,)
    page = opened("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("Not reached since", timeout=40_000)
    expect(page.get_by_role("heading", name="Went wrong")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_have_count(0, timeout=30_000)
