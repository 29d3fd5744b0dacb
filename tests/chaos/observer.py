"""Looks at an installation from outside when the fault is over, and writes what it sees into the history."""

import asyncio
import json
import time
from pathlib import Path
from typing import TypeVar

import httpx
from bench.accounting import resident_mb

from chaos.history import ENDED, History, Leftovers, Memory, Outcome, Submitted
from chaos.installation import Installation
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto import names

T = TypeVar("T")

_AT_ONCE = 16
_STREAMS = (names.JOBS, names.RUNS, names.WORK, names.kv_stream(names.CONTROL), names.kv_stream(names.TIMING))


AWAY = (httpx.TransportError, LogError, json.JSONDecodeError)
"""What somebody gets who asks through an outage."""


class Observer:
    """`before` is what was there before the fault: leftovers and memory are compared with it."""

    def __init__(self, installation: Installation, log: Connection) -> None:
        self._installation = installation
        self._log = log
        self._consumers = 0
        self._memory: dict[int, float] = {}

    async def look_before(self) -> None:
        self._consumers = await self.count_consumers()
        self._memory = {pid: resident_mb(pid) for pid in self._pids().values()}

    async def settle(self, history: History, prefix: str, within: float) -> None:
        """Wait until every accepted job has ended, then look at everything. What never ends is seen as it is."""
        async with self._installation.http(timeout=20.0) as http:
            await self._outcomes(http, history, prefix, within)
            history.audit = await self._audit(http)
            history.leftovers = await self._leftovers(http)
            # Fires that were caught up late: nothing is under way any more, so this is the last word.
            history.outcomes = await self._outcomes(http, history, prefix, within)
            history.disagreements = await self._disagreements(http)
        after = {name: (pid, resident_mb(pid)) for name, pid in self._pids().items()}
        history.memory = [
            Memory(process=name, before_mb=self._memory[pid], after_mb=now)
            for name, (pid, now) in after.items()
            if pid in self._memory
        ]

    # -- outcomes -----------------------------------------------------------------------------------------

    async def _outcomes(
        self, http: httpx.AsyncClient, history: History, prefix: str, within: float
    ) -> list[Outcome]:
        """Each job is asked about until all its runs have ended and every effect it had is of one of them.

        But not for ever.
        """
        end = time.monotonic() + within
        turn = asyncio.Semaphore(_AT_ONCE)
        found: dict[str, list[Outcome]] = {}

        async def ask(job: Submitted) -> None:
            async with turn:
                try:
                    found[job.job_id] = await self._runs(http, job)
                except (httpx.TransportError, json.JSONDecodeError):
                    pass

        def unsettled() -> list[Submitted]:
            had_effects: dict[str, set[str]] = {}
            for effect in history.effects:
                had_effects.setdefault(effect.key.partition("@")[0], set()).add(effect.key)
            return [
                job for job in jobs if not _settled(found.get(job.job_id, []), had_effects.get(job.job_id))
            ]

        jobs = [job for job in history.accepted() if job.job_id.startswith(prefix)]
        while (waiting := unsettled()) and time.monotonic() < end:
            await asyncio.gather(*(ask(job) for job in waiting))
            await asyncio.sleep(0.1)
        return [outcome for of_one in found.values() for outcome in of_one]

    async def _runs(self, http: httpx.AsyncClient, job: Submitted) -> list[Outcome]:
        answer = await http.get(f"/v1/jobs/{job.job_id}/runs", params={"limit": 1000})
        if answer.status_code != 200:
            return []
        return [
            Outcome(
                run_id=run["run_id"],
                job_id=run["job_id"],
                status=run["status"],
                attempts=run.get("attempt_number") or 0,
            )
            for run in answer.json()
        ]

    async def _audit(self, http: httpx.AsyncClient) -> list[str]:
        """Read again until no due time is undecided."""

        async def report() -> dict[str, object] | None:
            answer = await http.get("/v1/audit", timeout=60)
            if answer.status_code != 200:
                return None
            said: dict[str, object] = json.loads(answer.text.strip().splitlines()[-1])
            return said if not said.get("pending") else None

        said = await eventually(report, "an audit with nothing pending", 30, through=AWAY)
        findings = said.get("findings", [])
        assert isinstance(findings, list)
        return [json.dumps(finding) for finding in findings]

    async def _disagreements(self, http: httpx.AsyncClient) -> list[str]:
        async def report() -> dict[str, object] | None:
            answer = await http.get("/v1/consistency", params={"all": "true"}, timeout=150)
            if answer.status_code != 200:
                return None
            said: dict[str, object] = json.loads(answer.text.strip().splitlines()[-1])
            return said if said["read"] == 1 else None

        said = await eventually(report, "all doors to be compared", 200, through=AWAY)
        found = said["disagreements"]
        assert isinstance(found, list)
        return [] if said["ok"] else [str(said["note"]), *map(json.dumps, found)]

    # -- leftovers ----------------------------------------------------------------------------------------

    async def _leftovers(self, http: httpx.AsyncClient) -> Leftovers:
        """Heartbeats and acks take a moment."""
        end = time.monotonic() + 10.0
        while True:
            try:
                found = await self._look(http)
            except (httpx.TransportError, LogError, json.JSONDecodeError):
                found = None
            if found == Leftovers() or (found is not None and time.monotonic() > end):
                return found
            await asyncio.sleep(0.1)

    async def extra_consumers(self, within: float = 45.0) -> int:
        """How many more there are than before. A dead reader's are gone when they have been idle for half a minute."""
        end = time.monotonic() + within
        while (extra := await self.count_consumers() - self._consumers) > 0 and time.monotonic() < end:
            await asyncio.sleep(0.5)
        return extra

    async def _look(self, http: httpx.AsyncClient) -> Leftovers:
        work = await self._log.api(f"STREAM.INFO.{names.WORK}")
        consumers = await self._log.api(f"CONSUMER.LIST.{names.WORK}")
        leases = await Bucket(self._log, Publisher(self._log), names.CONTROL).scan("run.>")
        executors = (await http.get("/v1/executors")).json()["items"]
        return Leftovers(
            queued=work["state"]["messages"],
            unacked=sum(each["num_ack_pending"] for each in consumers.get("consumers") or []),
            leases=len(leases),
            slots=sum(each["busy"] for each in executors),
            processes=tuple(self._strays()),
        )

    async def count_consumers(self) -> int:
        counts = [
            (await self._log.api(f"STREAM.INFO.{stream}"))["state"]["consumer_count"] for stream in _STREAMS
        ]
        return sum(counts)

    def _strays(self) -> list[str]:
        """Under an executor there may be its warden, and nothing else, once all has ended."""
        found = []
        for name, pid in self._pids().items():
            if name.startswith("executor"):
                for child in _descendants(pid):
                    command = _command(child)
                    if command and "warden" not in command:
                        found.append(f"{name}: {command}")
        return found

    def _pids(self) -> dict[str, int]:
        names_ = [*self._installation.component_names, *self._installation.broker_names]
        return {name: pid for name in names_ if (pid := self._installation.pid(name)) is not None}


def _settled(outcomes: list[Outcome], had_effects: set[str] | None) -> bool:
    known = {outcome.run_id for outcome in outcomes}
    ended = all(outcome.status in ENDED for outcome in outcomes)
    return bool(outcomes) and ended and (had_effects or set()) <= known


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    except OSError:
        pass
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""
