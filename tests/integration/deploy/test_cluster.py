"""A job all the way through what docker-compose.yml describes: three NATS nodes, a user for each component, S3."""

import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from integration.deploy.cluster import NODES, Cluster
from waterclock.core.runtime.ports import LOOPBACK
from waterclock.core.runtime.processes.process import Process

COMPONENTS = ("scheduler", "executor", "projector", "api")


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as scope:
        yield scope


def until_gone(process: Process) -> None:
    process.kill()
    process.wait_blocking(10)


def test_a_job_in_the_cluster(
    tmp_path: Path, database_url: str, s3_endpoint: str, processes: ExitStack
) -> None:
    cluster = Cluster(tmp_path, database_url=database_url, s3_endpoint=s3_endpoint)
    for name in NODES:
        processes.callback(until_gone, cluster.node(name))
    first, again = cluster.run_to_its_end("setup"), cluster.run_to_its_end("setup")
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert first.stdout == "ready for components: 16 partitions, 3 replicas, s3://waterclock\n"
    for name in COMPONENTS:
        processes.callback(until_gone, cluster.component(name))

    http = processes.enter_context(
        httpx.Client(
            base_url=f"https://{LOOPBACK}:{cluster.api_port}",
            headers={"Authorization": f"Bearer {cluster.token}"},
            transport=httpx.HTTPTransport(
                retries=40, verify=ssl.create_default_context(cafile=cluster.certificates / "ca" / "ca.crt")
            ),
        )
    )
    answer = http.post("/v1/jobs", json={"name": "hello", "command": "echo from the cluster"})
    assert answer.status_code == 201, answer.text
    status = f"/v1/jobs/{answer.json()['job_id']}/status"
    deadline = time.monotonic() + 30
    while (run := http.get(status).json()["latest_run"] or {}).get("status") != "SUCCESS":
        assert time.monotonic() < deadline, run
    assert http.get(f"/v1/runs/{run['run_id']}/log").text == "from the cluster\n"
    assert http.put("/v1/secrets/from-here", json={"value": "known to both"}).status_code == 204
    answer = http.post(
        "/v1/jobs", json={"name": "s", "command": "echo $X", "env": {"X": {"secret": "from-here"}}}
    )
    status = f"/v1/jobs/{answer.json()['job_id']}/status"
    deadline = time.monotonic() + 30
    while (run := http.get(status).json()["latest_run"] or {}).get("status") != "SUCCESS":
        assert time.monotonic() < deadline, run
    denied = [name for name in NODES if "Permissions Violation" in (tmp_path / f"{name}.log").read_text()]
    assert denied == []
