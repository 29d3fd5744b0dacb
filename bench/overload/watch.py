"""Memory and metrics of a running system, looked at again and again from outside."""

import asyncio
import json
import os
import re
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bench import accounting
from bench.system import System

_EVERY = 0.5
_ANSWER_WITHIN = 2.0
_SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")

GIVEN_UP = "waterclock_scheduler_partitions_given_up_total"
TAKEOVERS = "waterclock_scheduler_takeover_seconds_count"


class Watch:
    def __init__(self, system: System) -> None:
        self._system = system
        self._began = time.time()
        self._counts: dict[tuple[str, str], float] = {}
        """What each process said last, by URL and metric."""
        self._ended: dict[str, float] = {}
        """What processes had counted that are gone."""
        self._before: dict[str, int] = {}
        self._account: accounting.Account = {}
        self._since_account = time.monotonic()
        self.peaks: dict[str, float] = {}
        """The most a process of each kind ever had in memory, in MB."""
        self.memory: list[tuple[float, float]] = []
        """(seconds, MB) of the scheduler."""

    @property
    def given_up(self) -> int:
        """Partitions whose owner let go of them without being told to. A scheduler without such a metric has none."""
        return self._since(GIVEN_UP)

    @property
    def takeovers(self) -> int:
        """Partitions that were built anew from the log."""
        return self._since(TAKEOVERS)

    def others_percent(self) -> float:
        """What the rest of the machine took meanwhile, in percent of a core: figures of a crowded machine are worse."""
        spent = {
            role: seconds - self._account.get(role, 0.0)
            for role, seconds in _all_ours(self._processes()).items()
        }
        machine = spent.pop(accounting.MACHINE)
        others = max(0.0, machine - sum(spent.values()))
        return round(others * 100 / (time.monotonic() - self._since_account), 1)

    def peak_mb(self, component: str) -> float | None:
        """None: there is none of it here."""
        peak = self.peaks.get(component)
        return None if peak is None else round(peak, 1)

    async def look(self) -> None:
        processes = self._processes()
        for name, pids in processes.items():
            if not pids:
                continue
            self.peaks[name] = max([self.peaks.get(name, 0.0), *map(accounting.peak_mb, pids)])
        now = max(map(accounting.resident_mb, processes.get("scheduler", [])), default=0.0)
        self.memory.append((round(time.time() - self._began, 1), round(now, 1)))
        for url in self._addresses():
            with suppress(OSError):
                self._note(url, await asyncio.to_thread(_read, url))

    def begin(self) -> None:
        """What was counted so far is not of this flood."""
        self._before = {metric: self._count(metric) for metric in (GIVEN_UP, TAKEOVERS)}
        self._account, self._since_account = _all_ours(self._processes()), time.monotonic()

    def _since(self, metric: str) -> int:
        return self._count(metric) - self._before.get(metric, 0)

    def _note(self, url: str, page: str) -> None:
        for name, now in _sums(page, (GIVEN_UP, TAKEOVERS)).items():
            before = self._counts.get((url, name), 0.0)
            if now < before:  # another process counts there
                self._ended[name] = self._ended.get(name, 0.0) + before
            self._counts[url, name] = now

    def _count(self, metric: str) -> int:
        living = sum(count for (_, name), count in self._counts.items() if name == metric)
        return round(living + self._ended.get(metric, 0.0))

    def _processes(self) -> dict[str, list[int]]:
        try:
            return self._system.processes
        except (OSError, json.JSONDecodeError):
            return {}

    def _addresses(self) -> list[str]:
        try:
            found: dict[str, list[str]] = json.loads((self._system.data / "metrics.json").read_text())
        except (OSError, json.JSONDecodeError):
            return []
        return found.get("scheduler", [])


@asynccontextmanager
async def watched(system: System) -> AsyncIterator[Watch]:
    watch = Watch(system)
    await watch.look()
    watch.begin()
    task = asyncio.create_task(_keep_looking(watch))
    try:
        yield watch
        await watch.look()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep_looking(watch: Watch) -> None:
    while True:
        await asyncio.sleep(_EVERY)
        await watch.look()


def _all_ours(processes: dict[str, list[int]]) -> accounting.Account:
    """With the callers, who are in our account once they have ended."""
    times = os.times()
    return accounting.take(processes) | {"callers": times.children_user + times.children_system}


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_ANSWER_WITHIN) as answer:
        page: bytes = answer.read()
    return page.decode()


def _sums(page: str, wanted: tuple[str, ...]) -> dict[str, float]:
    """Of each metric over all its labels; 0 where the page has none."""
    found = dict.fromkeys(wanted, 0.0)
    for line in page.splitlines():
        sample = _SAMPLE.match(line)
        if sample and sample[1] in found:
            found[sample[1]] += float(sample[3])
    return found
