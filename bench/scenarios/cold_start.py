"""How long a new user waits: from `waterclock up` on an empty directory to the first finished job."""

import http.client
import json
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.plan import Plan
from bench.result import Result
from bench.system import start, stop

_WITHIN = 30.0


async def cold_start(plan: Plan) -> AsyncGenerator[Result, None]:
    """The best and the worst of a few starts: the first one finds no file in the cache."""
    times = [_one_start() for _ in range(plan.choose(3, quick=1))]
    ready, finished = (sorted(each) for each in zip(*times, strict=True))
    yield Result(
        name="cold_start",
        figures={
            "starts": len(times),
            "ready_s": round(ready[0], 2),
            "first_finished_s": round(finished[0], 2),
            "first_finished_worst_s": round(finished[-1], 2),
        },
    )


def _one_start() -> tuple[float, float]:
    """Seconds until it was ready, and until a command submitted then had ended."""
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory:
        data = Path(directory) / "data"
        began = time.perf_counter()
        up = start(data)
        try:
            ready = time.perf_counter() - began
            connection = json.loads((data / "connection.json").read_text())
            _call(
                connection, "POST", "/v1/jobs", {"job_id": "first", "name": "first", "command": ["/bin/true"]}
            )
            deadline = time.monotonic() + _WITHIN
            while not _ended(_call(connection, "GET", "/v1/jobs/first/status")):
                if time.monotonic() > deadline:
                    raise RuntimeError("the first job did not end")
                time.sleep(0.005)
            return ready, time.perf_counter() - began
        finally:
            stop(up)


def _ended(status: dict[str, Any]) -> bool:
    run = status.get("latest_run")
    return run is not None and run["status"] == "SUCCESS"


def _call(connection: dict[str, str], verb: str, path: str, body: object = None) -> dict[str, Any]:
    client = http.client.HTTPConnection(urlsplit(connection["http"]).netloc, timeout=10)
    try:
        headers = {"Authorization": f"Bearer {connection['token']}", "Content-Type": "application/json"}
        client.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = client.getresponse()
        said: dict[str, Any] = json.loads(answer.read())
        if answer.status >= 400:
            raise RuntimeError(f"{verb} {path}: {said}")
        return said
    finally:
        client.close()
