"""A secret is set, used by jobs of every kind, and echoed by all of them; then its value is looked for everywhere (F7,
S11, S12): in every file of the data directory (streams, objects, Postgres with its WAL, logs), every answer, every
process.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.program import Program, program
from support.waiting import wait_until

VALUE = "c4nary" + "".join(reversed("-edoc-lanigiro-eht-ni-ton"))
"""Put together, so that this file does not hold it either."""
FORMS = [VALUE.encode()]

WORKER = """
from waterclock.executor import Worker

worker = Worker(queue="canary")

@worker.handler("echo_async")
async def echo_async(context, payload):
    return _echo(context, payload)

@worker.handler("echo_thread")
def echo_thread(context, payload):
    return _echo(context, payload)

@worker.handler("echo_process", run_in="process")
def echo_process(context, payload):
    return _echo(context, payload)

def _echo(context, payload):
    value = context.secret("canary")
    context.log("it is " + value)
    context.progress(0.5, "note " + value)
    if payload == "fail":
        raise RuntimeError("bad password " + value)
    return {"pw": value, value: 1}
"""

HOLD = 'echo "{\\"pw\\": \\"$PW\\"}"; echo "$PW" >&2; while [ ! -e "$GO" ]; do sleep 0.05; done'


@pytest.fixture(scope="module")
def waterclock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    directory = tmp_path_factory.mktemp("canary")
    (directory / "canary_worker.py").write_text(WORKER)
    environment = {"PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}
    flags = ("--worker", "canary_worker:worker")
    with program(directory / "data", *flags, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[str, list[str]]]:
    """A server that answers with what it was sent, and what it was sent."""
    heard: list[str] = []

    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.headers["Authorization"]
            heard.append(sent)
            body = f'{{"authorization": "{sent}"}}'.encode()
            self.send_response(400 if self.path == "/bad" else 200, sent)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()


def run_version(clock: Program, job_id: str) -> int:
    return int(clock.get(f"/v1/jobs/{job_id}/versions")[0]["version"])


def test_it_is_nowhere(waterclock: Program, echo: tuple[str, list[str]], tmp_path: Path) -> None:
    answers: list[str] = []
    said = waterclock.cli("secret", "set", "canary", stdin=f"{VALUE}\n")
    assert said.returncode == 0, said.stderr
    answers += [said.stdout, said.stderr]
    url, heard = echo
    go = tmp_path / "go"
    by_reference = {"secret": "canary"}
    definitions: list[dict[str, Any]] = [
        {"name": "p", "command": HOLD, "env": {"PW": by_reference, "GO": str(go)}},
        {"name": "f", "command": 'echo "bad $PW" >&2; exit 3', "env": {"PW": by_reference}},
        {
            "name": "a",
            "command": ["sh", "-c", 'echo "$PW"; exec "/no/such/$PW"'],
            "env": {"PW": by_reference},
        },
        {"name": "h", "http": {"url": f"{url}/good", "headers": {"Authorization": by_reference}}},
        {
            "name": "b",
            "http": {"url": f"{url}/bad", "headers": {"Authorization": by_reference}},
            "max_retries": 0,
        },
    ]
    for handler in ("echo_async", "echo_thread", "echo_process"):
        definitions.append({"name": handler, "handler": handler, "queue": "canary"})
        definitions.append({"name": handler, "handler": handler, "queue": "canary", "payload": "fail"})
    ids = [waterclock.post("/v1/jobs", definition)["job_id"] for definition in definitions]
    nodes = [
        {"id": "one", "command": 'echo "{\\"pw\\": \\"$PW\\"}"', "env": {"PW": by_reference}},
        {"id": "two", "command": "echo '{{ nodes.one.output.pw }}'", "depends_on": ["one"]},
    ]
    wave_of = waterclock.post("/v1/workflows", {"name": "w", "nodes": nodes})["workflow_id"]
    wave = waterclock.post(f"/v1/workflows/{wave_of}/runNow", {}, status=202)["workflow_run_id"]

    # While one of them runs: only its own process has it, in its environment.
    held = wait_until(lambda: _holders("environ"), "the job's process to have it")
    assert _holders("cmdline") == []
    program_pids = {pid for pids in waterclock.processes().values() for pid in pids}
    assert not program_pids & set(held)
    assert all(
        b"WATERCLOCK_RUN_ID=" in (_read(f"/proc/{pid}/environ") or b"WATERCLOCK_RUN_ID=") for pid in held
    )
    go.touch()

    runs = [waterclock.run_of(job_id, 60) for job_id in ids]
    statuses = [run["status"] for run in runs]
    assert statuses == ["SUCCESS", "FAILED", "FAILED", "SUCCESS", "FAILED", *["SUCCESS", "FAILED"] * 3], runs
    assert heard == [VALUE, VALUE] or sorted(heard) == [VALUE, VALUE]
    assert runs[0]["output"] == {"pw": "***"}
    wait_until(lambda: waterclock.get(f"/v1/workflow-runs/{wave}")["status"] == "SUCCESS", "the wave")

    for job_id, run in zip(ids, runs, strict=True):
        for path in ("", "/runs", "/why", "/versions", f"/versions/{run_version(waterclock, job_id)}"):
            answers.append(waterclock.http.get(f"/v1/jobs/{job_id}{path}").text)
        for path in ("", "/events", "/why", "/log"):
            answers.append(waterclock.http.get(f"/v1/runs/{run['run_id']}{path}").text)
    for path in (
        "jobs",
        "secrets",
        "audit/access",
        "dead-letters",
        f"workflow-runs/{wave}",
        "status",
        "executors",
        "export",
    ):
        answers.append(waterclock.http.get(f"/v1/{path}").text)
    answers.append(waterclock.http.get("/metrics").text)
    for words in (
        ("secret", "list"),
        ("jobs",),
        ("export",),
        ("run", runs[1]["run_id"]),
        ("logs", runs[0]["run_id"]),
    ):
        told = waterclock.cli(*words)
        answers += [told.stdout, told.stderr]
    assert "***" in "".join(answers)
    assert [answer for answer in answers if VALUE in answer] == []

    assert waterclock.cli("secret", "rotate-key").returncode == 0
    again = waterclock.post("/v1/jobs", {"name": "again", "command": "true", "env": {"PW": by_reference}})
    assert waterclock.run_of(again["job_id"])["status"] == "SUCCESS"
    assert _files_with_it(waterclock.data) == []
    assert VALUE not in waterclock.log()
    assert _holders("environ") == []


def test_nor_when_all_is_written_and_closed(waterclock: Program) -> None:
    """What a server holds back until it stops is in its files then."""
    waterclock.stop()
    try:
        assert _files_with_it(waterclock.data) == []
        assert VALUE not in waterclock.log()
    finally:
        waterclock.start()


def _files_with_it(directory: Path) -> list[str]:
    files = [file for file in directory.rglob("*") if file.is_file()]
    assert len(files) > 500, "that is not all of a data directory"
    return [str(file) for file in files if any(form in _read(str(file)) for form in FORMS)]


def _holders(part: str) -> list[int]:
    """Processes with it in their command line or environment; not this one, which has it in neither."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if VALUE.encode() in _read(f"/proc/{pid}/{part}")]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def test_a_kill_in_the_middle_of_a_change_of_keys_loses_none(waterclock: Program) -> None:
    values = {f"many-{number}": f"value-{number}-{VALUE[:6]}" for number in range(60)}
    for name, value in values.items():
        assert waterclock.http.put(f"/v1/secrets/{name}", json={"value": value}).status_code == 204
    keys = waterclock.data / "secrets.key"
    before = keys.read_text().splitlines()

    def rotate() -> None:
        with suppress(httpx.TransportError):
            waterclock.http.post("/v1/secrets:rotateKey")

    rotation = threading.Thread(target=rotate)
    rotation.start()
    wait_until(lambda: keys.read_text().splitlines()[0] != before[0], "the new key")
    killed = waterclock.kill("api")
    rotation.join()
    wait_until(lambda: waterclock.processes()["api"] not in ([], [killed]), "another api")
    wait_until(lambda: waterclock.http.get("/readyz").status_code == 200, "the api to answer")
    command = " && ".join(f'test "$M{number}" = "{value}"' for number, value in enumerate(values.values()))
    env = {f"M{number}": {"secret": name} for number, name in enumerate(values)}
    job = {"name": "all", "command": command, "env": env}
    assert waterclock.run_of(waterclock.post("/v1/jobs", job)["job_id"])["status"] == "SUCCESS"
    # If it was cut short this goes on, and if it had just been done there is another key; either way none is lost.
    done = waterclock.post("/v1/secrets:rotateKey", status=200)
    assert done["secrets"] == len(values) + 1
    assert waterclock.run_of(waterclock.post("/v1/jobs", job)["job_id"])["status"] == "SUCCESS"
    assert len(keys.read_text().split()) == 2
