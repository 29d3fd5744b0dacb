"""What the console costs a browser: `python -m bench.console`, on Debian's chromium in front of the real program.

Writes docs/benchmarks/console.md. Every figure is the median of a few pages that were opened anew.
"""

import asyncio
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import quote

from msgspec import Struct
from playwright.async_api import CDPSession, Page, async_playwright

from bench import jobs
from bench.machine import machine, versions
from bench.report.tables import number, table
from bench.results import FILE
from bench.system import System, running_system
from bench.warm_up import warm_up

_PAGE = FILE.parent / "console.md"
_OPENED = 5
_ROWS = 100_000
_NODES = 1_000
_LOG_LINES = 1_500_000
_CHANGES = 10.0
"""Seconds of a thousand changes a second."""
_FRAMES = """async () => {
  const list = [...document.querySelectorAll("*")].filter((each) => each.clientHeight > 200)
    .sort((a, b) => b.scrollHeight - b.clientHeight - a.scrollHeight + a.clientHeight)[0];
  let frames = 0, most = 0, from = performance.now();
  while (performance.now() - from < 3000) {
    list.scrollTop += 400;
    await new Promise(requestAnimationFrame);
    frames += 1;
    most = Math.max(most, document.querySelectorAll("[data-run-id]").length);
  }
  return [frames / 3, most];
}"""
_WATCH_TASKS = """() => {
  globalThis.longest = 0;
  new PerformanceObserver((seen) => {
    for (const each of seen.getEntries()) globalThis.longest = Math.max(globalThis.longest, each.duration);
  }).observe({type: "longtask"});
}"""


class Budget(Struct, frozen=True):
    what: str
    asked: float
    measured: float
    unit: str
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.measured >= self.asked if self.at_least else self.measured <= self.asked

    def row(self) -> tuple[str, str, str, str]:
        wish = "at least" if self.at_least else "at most"
        return (
            self.what,
            f"{wish} {number(self.asked, self.unit)}",
            number(round(self.measured, 1), self.unit),
            "reached" if self.holds else "**missed**",
        )


async def main() -> None:
    async with running_system(WATERCLOCK_OUTPUT_LIMIT=str(256 << 20)) as system:
        await warm_up(system)
        async with _browser(system) as opened:
            found = [
                *await _first_load(opened),
                await _log(system, opened),
                await _graph(system, opened),
                *await _rows(system, opened),
                *await _changes(system, opened),
            ]
    _PAGE.write_text(_report(found))
    print(_PAGE.read_text())


def _report(found: list[Budget]) -> str:
    known = ", ".join(f"{name} {version}" for name, version in versions().items())
    return "\n\n".join(
        (
            "# What the console costs a browser",
            "Written by `python -m bench.console`; do not edit. Chromium and the whole program share two cores.",
            f"- Machine: {machine()}\n- Versions: {known}\n- When: {datetime.now(UTC).isoformat(timespec='seconds')}",
            table(("", "asked", "measured", ""), [budget.row() for budget in found]) + "\n",
        )
    )


Opened = Callable[[str], Awaitable[Page]]


@asynccontextmanager
async def _browser(system: System) -> AsyncIterator[Opened]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = await browser.new_context(
            base_url=system.connection["http"], viewport={"width": 1440, "height": 900}
        )
        signed = await context.request.post("/v1/session", data={"token": system.connection["token"]})
        assert signed.status == 204, await signed.text()

        async def opened(path: str) -> Page:
            page = await context.new_page()
            await page.goto(path, wait_until="commit")
            return page

        yield opened
        await browser.close()


async def _until(opened: Opened, path: str, shown: str) -> float:
    """Milliseconds from the navigation until that is there, as the page's own clock has it; the median."""
    wait = f"while (!({shown})) await new Promise(requestAnimationFrame)"
    taken: list[float] = []
    for _ in range(_OPENED):
        page = await opened(path)
        taken.append(await page.evaluate(f"async () => {{ {wait}; return performance.now(); }}"))
        await page.close()
    return statistics.median(taken)


async def _beyond_an_empty_page(opened: Opened, path: str, shown: str) -> float:
    return await _until(opened, path, shown) - await _until(
        opened, "/ui/settings", "document.querySelector('h1')"
    )


async def _first_load(opened: Opened) -> list[Budget]:
    page = await opened("/")
    await page.wait_for_selector("h1")
    loaded = await page.evaluate(
        "performance.getEntriesByType('resource').filter(r => r.name.includes('/assets/'))"
        ".map(r => [r.name, r.encodedBodySize])"
    )
    await page.close()
    modules = [name for name, _ in loaded if name.endswith(".js") and not name.endswith("theme.js")]
    usable = await _until(opened, "/", "document.querySelector('h1')?.textContent === 'Overview'")
    return [
        Budget("first load, packed", 60.0, sum(size for _, size in loaded) / 1000, " kB"),
        Budget("first load, modules", 12, len(modules), ""),
        Budget("usable", 500.0, usable, " ms"),
    ]


async def _log(system: System, opened: Opened) -> Budget:
    words = "a line of a log that is much too long to be read by anybody"
    job = {
        "job_id": "log",
        "name": "long log",
        "command": f"seq -f '%.0f {words}' {_LOG_LINES}",
        "max_retries": 0,
    }
    await jobs.submit(system.clock, [job])
    run = await _ended(system, "log")
    shown = f"document.querySelector('[data-log]')?.textContent.includes('{_LOG_LINES} ')"
    taken = await _beyond_an_empty_page(opened, f"/ui/runs/{quote(run)}", shown)
    return Budget("the end of a log of 100 MB, more than an empty page", 300.0, taken, " ms")


async def _graph(system: System, opened: Opened) -> Budget:
    nodes = [
        {"id": f"n{i}", "command": "true", "depends_on": [f"n{(i * 7) % (i // 10 * 10)}"] if i >= 10 else []}
        for i in range(_NODES)
    ]
    await system.clock.jobs.create_many([{"job_id": "wide", "name": "wide", "nodes": nodes}])
    shown = f"document.querySelectorAll('[data-node]').length === {_NODES}"
    taken = await _beyond_an_empty_page(opened, "/ui/workflows/wide", shown)
    return Budget("a workflow of 1,000 nodes, more than an empty page", 300.0, taken, " ms")


async def _rows(system: System, opened: Opened) -> list[Budget]:
    before = await system.history.succeeded()
    await jobs.submit(system.clock, [jobs.immediate()] * _ROWS)
    await system.history.until_succeeded(before + _ROWS, within=120)
    page = await opened("/ui/runs")
    await page.wait_for_selector("[data-run-id]")
    rate, rows = await page.evaluate(_FRAMES)
    await page.close()
    return [
        Budget("100,000 runs: rows in the page while it scrolls", 60, rows, ""),
        Budget("the same: frames a second", 55.0, rate, "", at_least=True),
    ]


async def _changes(system: System, opened: Opened) -> list[Budget]:
    page = await opened("/ui/runs")
    await page.wait_for_selector("[data-run-id]")
    await page.evaluate(_WATCH_TASKS)
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")
    began, busy = time.perf_counter(), await _busy(session)
    while time.perf_counter() - began < _CHANGES:
        due = time.perf_counter() + 0.5
        await jobs.submit(system.clock, [jobs.immediate()] * 250)  # queued and ended: two changes each
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    spent, taken = await _busy(session) - busy, time.perf_counter() - began
    longest = await page.evaluate("globalThis.longest")
    await page.close()
    return [
        Budget("1,000 changes a second: of the main thread", 25.0, 100 * spent / taken, " %"),
        Budget("the same: the longest task over 50 ms", 0.0, longest, " ms"),
    ]


async def _busy(session: CDPSession) -> float:
    """Seconds that the page's main thread has worked."""
    found = await session.send("Performance.getMetrics")
    return next(float(each["value"]) for each in found["metrics"] if each["name"] == "TaskDuration")


async def _ended(system: System, job_id: str) -> str:
    """The id of a job's only run, when it has ended."""
    while True:
        found = await system.clock.jobs.status(job_id)
        if found.latest_run is not None and found.latest_run.end_time is not None:
            return found.latest_run.run_id
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main())
