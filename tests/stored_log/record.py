"""Record a log of one version of waterclock, for the tests of later versions to replay.

    .venv/bin/python tests/stored_log/record.py --program /path/to/that/version/.venv/bin/waterclock 0.1.0

Runs `waterclock up` of that version and speaks to it from outside only. It makes a small history with every kind of job
and event, kills everything in the middle, starts again, and stops in good order. Stored in the directory named after
the version, each as compressed JSON lines:

    killed.jsonl.gz     the streams as the kill left them
    stopped.jsonl.gz    the streams after recovery and an orderly stop, with the owners' last snapshots
    traffic.jsonl.gz    messages that streams do not keep: work items, heartbeats, index entries, claims
    rows.jsonl.gz       the read models that version had made of the stopped log
"""

import argparse
import asyncio
import base64
import gzip
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import nats
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

HERE = Path(__file__).parent
PARTITIONS = 4
TOKEN = "the-token-of-a-recorded-history"
STREAMS = ("JOBS", "RUNS", "WORK", "KV_timing", "KV_control", "OBJ_artifacts")
TABLES = ("jobs", "job_runs", "job_attempts", "dead_letters", "workflows", "workflow_runs", "workflow_nodes")
TAPPED = ("wc.>", "$KV.>")
ENDED = ("SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED")


class Recorded:
    """The program under record: its process, its REST interface, its servers."""

    def __init__(self, program: Path, data: Path) -> None:
        self._program = program
        self.data = data
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "WATERCLOCK_PARTITIONS": str(PARTITIONS),
            "WATERCLOCK_TOKEN": TOKEN,
            "WATERCLOCK_ALERT_WEBHOOK": "http://127.0.0.1:9/nobody",  # so that alerts keep their state
            "PYTHONPATH": str(HERE),
        }
        command = [self._program, "up", "--data", self.data, "--port", "0"]
        with (self.data.parent / "up.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*map(str, command), "--worker", "recorded_worker:worker"],
                env=environment,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        until(lambda: httpx.get(f"{self.connection['http']}/readyz").status_code == 200, "ready", 90)

    @property
    def connection(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data / "connection.json").read_text())
        return found

    @property
    def admin_url(self) -> str:
        """As the administrator of the embedded server, who sees every subject."""
        users = json.loads((self.data / "nats" / "credentials.json").read_text())["users"]
        return f"nats://admin:{users['admin']}@{self.connection['nats'].rpartition('@')[2]}"

    def processes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = json.loads((self.data / "processes.json").read_text())
        return found

    def signal(self, component: str, how: signal.Signals) -> None:
        os.kill(self.processes()[component][0], how)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(60) == 0

    def kill(self) -> None:
        assert self._process is not None
        pids = [pid for of_one in self.processes().values() for pid in of_one]
        self._process.kill()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def call(self, verb: str, path: str, body: Any = None, *, token: str = TOKEN, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        answer = httpx.request(
            verb, self.connection["http"] + path, json=body, headers=headers, timeout=30, **options
        )
        if answer.status_code >= 300:
            raise AssertionError(f"{verb} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def job(self, job_id: str, **fields: Any) -> str:
        self.call("POST", "/v1/jobs", {"job_id": job_id, **fields})
        return job_id

    def latest(self, job_id: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.call("GET", f"/v1/jobs/{job_id}/status")["latest_run"]
        return found

    def run_id(self, job_id: str, *states: str) -> str:
        """The job's latest run, once it is in one of these states."""

        def found() -> str:
            run = self.latest(job_id)
            return str(run["run_id"]) if run is not None and run["status"] in states else ""

        return str(until(found, f"{job_id} to be {' or '.join(states)}"))

    def ended(self, *job_ids: str) -> None:
        for job_id in job_ids:
            self.run_id(job_id, *ENDED)

    def completed(self, job_id: str) -> None:
        until(lambda: self.call("GET", f"/v1/jobs/{job_id}")["status"] == "COMPLETED", f"{job_id} completed")


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(httpx.TransportError, FileNotFoundError, json.JSONDecodeError):
            if found := condition():
                return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


# -- the history ----------------------------------------------------------------------------------------------


def first_part(system: Recorded) -> None:
    """Everything that can be seen to its end."""
    _every_kind_of_task(system)
    _every_outcome(system)
    _schedules(system)
    _dependencies(system)
    _fan_out(system)
    _workflows(system)
    _backfills(system)
    _namespaces(system)


def _every_kind_of_task(system: Recorded) -> None:
    artifact = _upload(system, b'#!/bin/sh\necho "{\\"args\\": \\"$*\\"}"\n', "hello.sh")
    url = system.connection["http"] + "/healthz"
    system.job("shell", command="echo '{\"rows\": 3}'", labels={"team": "data"}, metadata={"wiki": [1, None]})
    system.job(
        "argv",
        command=["echo", "hi"],
        priority=50,
        tier="medium",
        env={"A": "b"},
        timeout_seconds=20,
        secrets=["A"],
    )
    system.job("artifact", artifact=artifact, args=["one", "two"], limits={"cpu_seconds": 10})
    system.job("http", http={"method": "GET", "url": url, "headers": {"X-Test": "1"}, "ok": [200]})
    system.job("handler", job_type="echo", payload={"text": "größer", "n": 2**53 - 1, "f": 0.1, "none": None})
    system.job("keyed", job_type="echo", concurrency_key="k", concurrency_limit=1, retention={"days": 30})
    system.job("rated", job_type="echo", rate_key="r", rate_per_second=5)
    system.job("late", command="true", schedule="2030-01-01T00:00:00Z")
    system.call(
        "POST", "/v1/jobs", {"name": "by key", "command": "true"}, headers={"Idempotency-Key": "once"}
    )
    batch = "\n".join(json.dumps({"name": f"batch {n}", "job_type": "echo", "payload": n}) for n in range(5))
    httpx.post(
        system.connection["http"] + "/v1/jobs:batch",
        content=batch,
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-ndjson"},
    ).raise_for_status()
    system.ended("shell", "argv", "artifact", "http", "handler", "keyed", "rated")


def _every_outcome(system: Recorded) -> None:
    quick = {"initial_seconds": 0.1, "jitter": False}
    system.job("flaky", job_type="flaky", payload={"succeeds_at": 3}, max_retries=5, retry=quick)
    system.job("dead", command="echo broken >&2; exit 3", max_retries=1, retry=quick)
    system.job("redriven", command="exit 4")
    system.job("slowly", command="sleep 60", timeout_seconds=0.5)
    system.job("snoozing", job_type="snoozing")
    system.job("pointless", job_type="pointless")
    system.job("once", job_type="slow", payload={"seconds": 2.5}, delivery="exactly_once")
    system.job("stopped", command="sleep 60")
    system.job("unserved", job_type="nobody_serves_this")
    system.job("lost", command="sleep 3", critical=True)
    system.job("returned", command="sleep 12")
    system.call("POST", f"/v1/runs/{system.run_id('stopped', 'RUNNING')}/cancel", {"note": "enough"})
    system.call("POST", f"/v1/runs/{system.run_id('unserved', 'QUEUED')}/cancel")
    system.ended(
        "flaky", "dead", "redriven", "slowly", "snoozing", "pointless", "once", "stopped", "unserved"
    )
    system.call("POST", "/v1/dead-letters/redrive", {"run_ids": [system.run_id("redriven", "FAILED")]})
    until(lambda: system.latest("redriven")["attempt_number"] == 2, "the second attempt")  # type: ignore[index]
    system.job("killed-with-its-executor", command="sleep 2")
    system.run_id("killed-with-its-executor", "RUNNING")
    system.signal("executor", signal.SIGKILL)
    system.ended("killed-with-its-executor", "lost", "redriven")
    system.job("handed-back", job_type="slow", payload={"seconds": 20})
    run_id = system.run_id("handed-back", "RUNNING")
    system.signal("executor", signal.SIGTERM)
    until(
        lambda: (
            "returned"
            in {event["type"] for event in system.call("GET", f"/v1/runs/{run_id}/events")["items"]}
        ),
        "the attempt to be handed back",
    )
    system.run_id("handed-back", "RUNNING")
    system.call("DELETE", "/v1/jobs/handed-back")
    system.ended("handed-back", "returned")


def _schedules(system: Recorded) -> None:
    daily = {"cron_expression": "30 2 * * *", "timezone": "Europe/Paris", "command": "true"}
    system.job("daily", **daily, exclude=["2026-12-25"], jitter_seconds=30, start_deadline_seconds=60)
    system.job("edited", **daily, dst_gap="skip", dst_overlap="both")
    system.call(
        "PATCH", "/v1/jobs/edited", {"priority": 7, "cron_expression": ["0 4 * * *", "0 16 * * MON#2"]}
    )
    system.job("paused", **daily)
    system.call("POST", "/v1/jobs/paused/pause", {"note": "holidays"})
    system.job("resumed", **daily)
    system.call("POST", "/v1/jobs/resumed/pause")
    system.call("POST", "/v1/jobs/resumed/resume")
    system.job("cancelled", **daily)
    system.call("DELETE", "/v1/jobs/cancelled")
    system.call("POST", "/v1/jobs/daily/skip", {"note": "not tonight"})
    system.call("POST", "/v1/jobs/daily/runNow")
    system.job("thrice", every="1s", max_fires=3, command="true")
    for overlap in ("skip", "queue_one", "queue_all", "cancel_previous", "terminate_previous", "allow"):
        system.job(
            f"overlap-{overlap.replace('_', '-')}",
            every="1s",
            max_fires=3,
            overlap=overlap,
            command="sleep 1.4",
        )
    system.job("fragile", every="1s", pause_on_failure=2, command="exit 1")
    system.job("caught-up", every="1s", job_type="echo", catch_up={"policy": "all", "window_seconds": 2})
    until(lambda: system.call("GET", "/v1/jobs/fragile")["status"] == "PAUSED", "fragile to be paused")
    system.call("POST", "/v1/jobs/caught-up/skip", {})
    system.call("POST", "/v1/jobs/caught-up/pause")
    time.sleep(4)
    system.call("POST", "/v1/jobs/caught-up/resume", {"missed": True})
    system.completed("thrice")
    until(lambda: len(system.call("GET", "/v1/jobs/caught-up/runs")) >= 3, "caught up")
    system.call("DELETE", "/v1/jobs/caught-up")
    for overlap in ("skip", "queue-one", "queue-all", "cancel-previous", "terminate-previous", "allow"):
        system.completed(f"overlap-{overlap}")


def _dependencies(system: Recorded) -> None:
    """Names that fall into different partitions, so that one owner tells the other."""
    system.job("upstream-a", schedule="@yearly", job_type="echo")
    system.job("upstream-b", schedule="@yearly", job_type="echo")
    system.job("downstream", dependencies=["upstream-a", "upstream-b"], job_type="echo")
    system.job("farther", dependencies=["downstream"], command="true")
    system.job("half", dependencies=["upstream-a", "late"], command="true")
    system.job("hourly", every="1s", max_fires=2, job_type="echo", overlap="allow")
    system.job(
        "beside",
        every="1s",
        max_fires=2,
        dependencies=["hourly"],
        dependency_rule="same_time",
        command="true",
    )
    for job_id in ("upstream-a", "upstream-b"):
        system.call("POST", f"/v1/jobs/{job_id}/runNow")
    system.ended("downstream", "farther")
    system.completed("hourly")


def _fan_out(system: Recorded) -> None:
    lines = _upload(system, b"alpha\nbeta\ngamma\n", "lines.txt")
    system.job("spread", job_type="member", fan_out={"over": {"range": 5}, "tolerated_failures": "50%"})
    system.job("strict", job_type="member", fan_out={"over": [0, 1, 2, 3], "max_concurrency": 1})
    system.job("by-line", job_type="echo", fan_out={"over": {"lines": lines}, "max_concurrency": 2})
    system.ended("spread", "strict", "by-line")


def _workflows(system: Recorded) -> None:
    nodes: list[dict[str, Any]] = [
        {"id": "fetch", "command": 'echo \'{"files": ["a", "b", "c"]}\'', "max_retries": 1},
        {
            "id": "each",
            "job_type": "echo",
            "map": {"over": ["a", "b", "c"], "max_concurrency": 2},
            "depends_on": ["fetch"],
        },
        {"id": "never", "command": "true", "depends_on": ["fetch"], "condition": 'parameters.mode == "full"'},
        {"id": "fails", "command": "exit 1", "depends_on": ["fetch"]},
        {"id": "blocked", "command": "true", "depends_on": ["fails"]},
        {
            "id": "report",
            "job_type": "echo",
            "payload": {"files": "{{ nodes.fetch.output.files }}"},
            "depends_on": ["each", "fails"],
            "trigger_rule": "all_done",
        },
    ]
    _workflow(system, "flow", nodes)
    wave = system.call("POST", "/v1/workflows/flow/runNow", {"parameters": {"mode": "delta"}})[
        "workflow_run_id"
    ]
    until(lambda: _wave_ended(system, wave), "the wave")
    system.call("POST", f"/v1/workflow-runs/{wave}/rerun", {"from": ["fails"], "note": "again"})
    until(lambda: _wave_ended(system, wave), "the rerun")
    held: list[dict[str, Any]] = [
        {"id": "hold", "job_type": "nobody_serves_this"},
        {"id": "after", "command": "true", "depends_on": ["hold"]},
    ]
    _workflow(system, "held", held)
    marked = system.call("POST", "/v1/workflows/held/runNow")["workflow_run_id"]
    until(lambda: _node(system, marked, "hold") == "QUEUED", "the node to wait")
    system.call(
        "POST", f"/v1/workflow-runs/{marked}/nodes/hold/mark", {"status": "SUCCESS", "note": "by hand"}
    )
    until(lambda: _wave_ended(system, marked), "the marked wave")
    stopped = system.call("POST", "/v1/workflows/held/runNow")["workflow_run_id"]
    until(lambda: _node(system, stopped, "hold") == "QUEUED", "the node to wait")
    system.call("POST", f"/v1/workflow-runs/{stopped}/cancel")
    until(lambda: _wave_ended(system, stopped), "the cancelled wave")


def _workflow(system: Recorded, workflow_id: str, nodes: list[dict[str, Any]]) -> None:
    fields = {"workflow_id": workflow_id, "name": workflow_id, "schedule": "@yearly", "nodes": nodes}
    system.call("POST", "/v1/workflows", fields)


def _wave_ended(system: Recorded, wave: str) -> bool:
    return system.call("GET", f"/v1/workflow-runs/{wave}")["status"] in ENDED


def _node(system: Recorded, wave: str, node: str) -> str:
    nodes = system.call("GET", f"/v1/workflow-runs/{wave}")["nodes"]
    return next(str(found["status"]) for found in nodes if found["id"] == node)


def _backfills(system: Recorded) -> None:
    span = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-05T00:00:00Z"}
    backfill = system.call("POST", "/v1/jobs/daily/backfill", {**span, "max_active": 2})["backfill_id"]
    system.job("backfilled", schedule="@daily", command="sleep 0.5")
    steered = system.call("POST", "/v1/jobs/backfilled/backfill", span)["backfill_id"]
    system.call("POST", f"/v1/backfills/{steered}/pause")
    system.call("POST", f"/v1/backfills/{steered}/resume")
    system.call("POST", f"/v1/backfills/{steered}/cancel")
    until(lambda: system.call("GET", f"/v1/backfills/{backfill}")["status"] == "COMPLETED", "the backfill")


def _namespaces(system: Recorded) -> None:
    system.call("PUT", "/v1/namespaces/research", {"max_jobs": 10})
    made = system.call(
        "POST", "/v1/tokens", {"scopes": ["submit"], "namespace": "research", "note": "for a test"}
    )
    system.call("POST", "/v1/jobs", {"job_id": "elsewhere", "command": "true"}, token=made["token"])
    revoked = system.call("POST", "/v1/tokens", {"scopes": ["read"]})
    system.call("DELETE", f"/v1/tokens/{revoked['token_id']}")


def second_part(system: Recorded) -> None:
    """Things that are in the middle when everything is killed."""
    system.job("survivor", command="sleep 4", max_retries=2)
    system.job("survivor-once", job_type="slow", payload={"seconds": 4}, delivery="exactly_once")
    system.job("waits", every="1s", max_fires=6, overlap="queue_all", command="sleep 1.2")
    system.job("missed", every="1s", max_fires=600, job_type="echo", overlap="allow")
    system.job(
        "spread-on",
        job_type="slow",
        payload={"seconds": 2},
        fan_out={"over": {"range": 6}, "max_concurrency": 2},
    )
    nodes: list[dict[str, Any]] = [
        {"id": "a", "job_type": "slow", "payload": {"seconds": 3}},
        {"id": "b", "job_type": "echo", "payload": "{{ nodes.a.output }}", "depends_on": ["a"]},
    ]
    _workflow(system, "going", nodes)
    system.call("POST", "/v1/workflows/going/runNow")
    span = {"from": "2026-05-01T00:00:00Z", "to": "2026-05-06T00:00:00Z"}
    system.job("backfilled-on", schedule="@daily", command="sleep 1")
    system.call("POST", "/v1/jobs/backfilled-on/backfill", span)
    system.job("retried-on", command="exit 1", max_retries=2, retry={"initial_seconds": 3, "jitter": False})
    system.run_id("survivor", "RUNNING")
    system.run_id("survivor-once", "RUNNING")
    system.run_id("retried-on", "RETRYING")
    until(lambda: len(system.call("GET", "/v1/jobs/waits/runs")) >= 2, "two runs that overlap")


def third_part(system: Recorded) -> None:
    """After the restart: all that was in the middle comes to its end, and nothing more is due."""
    system.ended("survivor", "survivor-once", "spread-on", "retried-on")
    system.completed("waits")
    until(lambda: system.call("GET", "/v1/jobs/missed/runs?status=MISSED"), "missed fires")
    system.call("DELETE", "/v1/jobs/missed")
    [wave] = system.call("GET", "/v1/workflows/going/runs")
    until(
        lambda: system.call("GET", f"/v1/workflow-runs/{wave['workflow_run_id']}")["status"] in ENDED,
        "the wave",
    )
    until(
        lambda: all(
            each["status"] in ("COMPLETED", "CANCELLED")
            for each in system.call("GET", "/v1/backfills")["items"]
        ),
        "the backfills",
    )


def _upload(system: Recorded, content: bytes, name: str) -> str:
    answer = httpx.post(
        system.connection["http"] + "/v1/artifacts",
        content=content,
        params={"name": name},
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/octet-stream"},
    )
    answer.raise_for_status()
    return str(answer.json()["artifact"])


# -- recording it ---------------------------------------------------------------------------------------------


class Tap:
    """Everything published while it listens; of messages that differ in little only the first few are kept."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._kept: Counter[str] = Counter()

    async def listen(self, url: str) -> Nats:
        client = await nats.connect(url, allow_reconnect=False)

        async def heard(message: Msg) -> None:
            if message.subject.startswith(
                ("wc.jobs.", "wc.runs.", "wc.lease.", "wc.log.", "$KV.control.snapshot.")
            ):
                return
            kind = ".".join(
                message.subject.split(".")[: 3 if message.subject.startswith("$KV.control.member") else 2]
            )
            self._kept[kind] += 1
            if message.subject.startswith("$KV.control.member") and self._kept[kind] > 40:
                return
            self.lines.append({"subject": message.subject, "data": _text(message.data)})

        for subject in TAPPED:
            await client.subscribe(subject, cb=heard)
        await client.flush()
        return client


async def rows(database: str) -> list[dict[str, Any]]:
    """The read models once they hold all of the log, as JSON that Postgres itself makes."""
    connection = await asyncpg.connect(database)
    try:
        return [
            {"table": table, "row": json.loads(row["row"])}
            for table in TABLES
            for row in await connection.fetch(
                f"SELECT to_jsonb(t)::text AS row FROM waterclock.{table} t ORDER BY 1"
            )
        ]
    finally:
        await connection.close()


async def quiet(system: Recorded) -> None:
    """Wait until nothing happens any more, and all that has happened is in the read models."""
    before = None
    while before is None or before != (ends := await projected_ends(system)) or ends is None:
        before = await projected_ends(system)
        await asyncio.sleep(3)


async def projected_ends(system: Recorded) -> list[int] | None:
    """Where the log ends in each partition; None while the read models lack some of it."""
    connection = await asyncpg.connect(system.connection["database"])
    client = await nats.connect(system.admin_url)
    try:
        found = await connection.fetch("SELECT stream, partition, position FROM waterclock.projection_state")
        at = {(row["stream"], row["partition"]): row["position"] for row in found}
        ends = []
        for partition in range(PARTITIONS):
            for stream, subject in (("JOBS", f"wc.jobs.{partition}.>"), ("RUNS", f"wc.runs.{partition}")):
                body = json.dumps({"last_by_subj": subject}).encode()
                last = json.loads((await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", body)).data)
                ends.append(last["message"]["seq"] if "message" in last else 0)
                if at.get((stream, partition), 0) < ends[-1]:
                    return None
        return ends
    finally:
        await client.close()
        await connection.close()


async def dump(binary: Path, data: Path, scratch: Path) -> list[dict[str, Any]]:
    """Every message of the streams, read by a server of its own from a copy of their files."""
    server, url = await asyncio.to_thread(_serve_copy, binary, data, scratch)
    try:
        client = await nats.connect(url)
        try:
            return [line for stream in STREAMS async for line in _messages(client, stream)]
        finally:
            await client.close()
    finally:
        server.terminate()
        server.wait()


def _serve_copy(binary: Path, data: Path, scratch: Path) -> tuple[subprocess.Popen[bytes], str]:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(data / "nats" / "jetstream", scratch / "jetstream")
    ports = scratch / "ports"
    ports.mkdir()
    server = subprocess.Popen(
        [
            str(binary),
            "-js",
            "-sd",
            str(scratch),
            "-a",
            "127.0.0.1",
            "-p",
            "-1",
            "--ports_file_dir",
            str(ports),
        ],
        stderr=subprocess.DEVNULL,
    )
    found = until(lambda: next(iter(ports.glob("*.ports")), None), "the server's ports", 20)
    return server, str(until(lambda: json.loads(found.read_text())["nats"][0], "the server's address", 20))


async def _messages(client: Nats, stream: str) -> Any:
    info = json.loads((await client.request(f"$JS.API.STREAM.INFO.{stream}")).data)
    sequence = info["state"]["first_seq"]
    yield {"stream": stream, "last": info["state"]["last_seq"]}
    while sequence <= info["state"]["last_seq"]:
        body = json.dumps({"seq": sequence, "next_by_subj": ">"}).encode()
        answer = json.loads((await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", body)).data)
        if "message" not in answer:
            return
        message = answer["message"]
        line = {
            "stream": stream,
            "sequence": message["seq"],
            "subject": message["subject"],
            "time": message["time"],
            "data": _text(base64.b64decode(message.get("data", ""))),
        }
        if "hdrs" in message:
            line["headers"] = base64.b64decode(message["hdrs"]).decode()
        yield line
        sequence = message["seq"] + 1


def _text(data: bytes) -> str:
    """Text as it is, so that a person can read it with zcat; anything else in base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def write(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{file.name}: {text.count(chr(10))} lines, {file.stat().st_size} bytes")


async def record(program: Path, target: Path, directory: Path) -> None:
    system = Recorded(program, directory / "data")
    tap = Tap()
    binary = program.parent / "nats-server"
    try:
        system.start()
        listener = await tap.listen(system.admin_url)
        await asyncio.to_thread(first_part, system)
        await asyncio.to_thread(second_part, system)
        system.kill()
        with suppress(Exception):
            await listener.close()
        write(target / "killed.jsonl.gz", await dump(binary, system.data, directory / "copy"))
        await asyncio.sleep(12)  # longer than the grace in which a late fire still counts as punctual
        system.start()
        listener = await tap.listen(system.admin_url)
        await asyncio.to_thread(third_part, system)
        await quiet(system)
        write(target / "rows.jsonl.gz", await rows(system.connection["database"]))
        await listener.close()
        system.stop()
        write(target / "stopped.jsonl.gz", await dump(binary, system.data, directory / "copy"))
        write(target / "traffic.jsonl.gz", tap.lines)
    except BaseException:
        print((directory / "up.log").read_text()[-4000:])
        with suppress(Exception):
            system.kill()
        raise


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--program", type=Path, required=True, help="the `waterclock` of that version")
    arguments.add_argument("version")
    given = arguments.parse_args()
    target = HERE / given.version
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(record(given.program.absolute(), target, Path(directory)))


if __name__ == "__main__":
    main()
