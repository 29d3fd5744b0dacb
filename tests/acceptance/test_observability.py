"""Metrics, dashboards, why and audit of the real program: every name in a document or on a panel is really there."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.program import Program, program
from support.waiting import wait_until
from waterclock.core.runtime.ports import reserved_port

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
RARE = {
    "waterclock_log_publish_refusals_total",
    "waterclock_executor_claims_total",
    "waterclock_scheduler_partitions_given_up_total",
}
"""Counters by reason that have nothing to show while all goes well."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program in which something of everything has happened."""
    environment = {"WATERCLOCK_ALERT_WEBHOOK": "http://127.0.0.1:9/nobody"}
    with program(tmp_path_factory.mktemp("seeing") / "data", environment=environment) as running:
        jobs: list[dict[str, Any]] = [
            {"job_id": "good", "name": "good", "command": "echo fine"},
            {"job_id": "bad", "name": "bad", "command": "exit 3", "max_retries": 1}
            | {"retry": {"initial_seconds": 0.1}},
            {"job_id": "tick", "name": "tick", "schedule": "every 1s", "command": "true"},
        ]
        for job in jobs:
            running.post("/v1/jobs", job)
        for job_id, status in (("good", "SUCCESS"), ("bad", "FAILED"), ("tick", "SUCCESS")):
            assert running.run_of(job_id)["status"] == status
        yield running


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def shown(lived: Program) -> dict[str, Any]:
    """What the api shows, its own and everybody's; once the projector has told of itself."""

    def complete() -> dict[str, Any] | None:
        found = families(lived.http.get("/metrics").text)
        return found if "waterclock_projection_lag_seconds" in found else None

    return wait_until(complete, "metrics of all components")


def sample_names(found: dict[str, Any]) -> set[str]:
    names = {sample.name for family in found.values() for sample in family.samples}
    typed = {name + {"counter": "_total"}.get(family.type, "") for name, family in found.items()}
    return names | typed


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem} / {panel['title']}", target


# --- metrics -------------------------------------------------------------------------------------------------


def test_every_component_serves_metrics_of_its_own(lived: Program) -> None:
    urls = json.loads((lived.data / "metrics.json").read_text())
    assert set(urls) == {"scheduler", "executor", "projector"}
    marks = {
        "scheduler": "waterclock_scheduler_frames",
        "executor": "waterclock_runs_ended",
        "projector": "waterclock_projection_events",
    }
    for component, places in urls.items():
        for url in places:
            found = families(httpx.get(url, timeout=5).text)
            assert marks[component] in found
            assert sum(sample.value for sample in found[marks[component]].samples) > 0


def test_the_numbers_are_those_of_what_happened(lived: Program) -> None:
    found = shown(lived)

    def value(family: str, **labels: str) -> float:
        samples = [s for s in found[family].samples if labels.items() <= s.labels.items()]
        return float(sum(sample.value for sample in samples if sample.name == f"{family}_total"))

    assert value("waterclock_runs_ended", outcome="failed") == 1
    assert value("waterclock_executor_outcomes", outcome="failed") == 2
    assert value("waterclock_retries") == 1
    assert value("waterclock_dead_letters") == 1
    assert value("waterclock_runs_ended", outcome="succeeded") >= 2
    assert value("waterclock_scheduler_events", event="queued") >= 4


def test_names_follow_the_conventions_and_the_document_knows_them_all(lived: Program) -> None:
    found = {
        name: family
        for name, family in shown(lived).items()
        if name.startswith("waterclock") and not name.endswith("_created")
    }
    for name, family in found.items():
        assert re.fullmatch(r"waterclock_[a-z_]+", name)
        assert family.documentation
        if family.type == "histogram":
            assert name.endswith("_seconds")
    documented = set(
        re.findall(r"^\| `(waterclock_\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    )
    real = {name + ("_total" if family.type == "counter" else "") for name, family in found.items()}
    assert documented - RARE <= real, documented - real
    assert real <= documented, real - documented


# --- dashboards ----------------------------------------------------------------------------------------------


def test_dashboards_are_what_their_source_makes() -> None:
    command = [sys.executable, str(GRAFANA / "build.py"), "--check"]
    check = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")
    assert len(DASHBOARDS) == 5


def test_every_panel_of_sql_runs_on_the_read_models(lived: Program) -> None:
    queries = [(where, target["rawSql"]) for where, target in targets() if "rawSql" in target]
    queries += [
        (path.stem, variable["query"])
        for path in DASHBOARDS
        for variable in json.loads(path.read_text())["templating"]["list"]
    ]
    assert len(queries) > 15

    async def run() -> dict[str, int]:
        connection = await asyncpg.connect(lived.connection["database"])
        try:
            await connection.execute("SET ROLE waterclock_reader")
            return {where: len(await connection.fetch(as_grafana_sends(query))) for where, query in queries}
        finally:
            await connection.close()

    wanted = ("overview / Failed last", "jobs / Fail most", "one-job / Runs", "executors / Executors")
    wait_until(lambda: all(asyncio.run(run())[where] > 0 for where in wanted), f"rows in each of {wanted}")


def as_grafana_sends(query: str) -> str:
    """The macros of Grafana's Postgres data source, as it expands them."""
    begin, end = "'2020-01-01T00:00:00Z'", "'2100-01-01T00:00:00Z'"
    query = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {begin} AND {end}", query)
    query = re.sub(
        r"\$__timeGroupAlias\((\w+), \$__interval\)", r'floor(extract(epoch from \1)/60)*60 AS "time"', query
    )
    query = query.replace("$job", "bad")
    assert "$" not in query, query
    return query


def test_every_metric_on_a_panel_is_really_served(lived: Program, tmp_path: Path) -> None:
    """And understood by Prometheus, where it is installed."""
    served = sample_names(shown(lived)) | RARE
    expressions = [(where, target["expr"]) for where, target in targets() if "expr" in target]
    assert len(expressions) > 40
    for where, expression in expressions:
        used = set(re.findall(r"waterclock_\w+", expression))
        assert used
        assert used <= served, f"{where}: {used - served}"

    if shutil.which("prometheus") is not None:
        understood(lived, tmp_path, expressions)


def understood(lived: Program, where: Path, expressions: list[tuple[str, str]]) -> None:
    with prometheus(where, lived) as http:

        def ask(query: str) -> Any:
            return http.get("/api/v1/query", params={"query": query}).json()

        wait_until(lambda: ask("waterclock_executors")["data"]["result"], "the first scrape")
        for panel, expression in expressions:
            answer = ask(expression.replace("$__rate_interval", "30s"))
            assert answer["status"] == "success", f"{panel}: {answer}"


@contextmanager
def prometheus(where: Path, lived: Program) -> Iterator[httpx.Client]:
    target = lived.connection["http"].removeprefix("http://")
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "waterclock",
                "authorization": {"credentials": lived.connection["token"]},
                "static_configs": [{"targets": [target]}],
            }
        ],
    }
    (where / "prometheus.yml").write_text(json.dumps(config))
    log = where / "log"
    with reserved_port() as port:
        command = [
            "prometheus",
            f"--config.file={where}/prometheus.yml",
            f"--storage.tsdb.path={where}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with log.open("w") as output:
            process = subprocess.Popen(command, stderr=output, stdout=output)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
                wait_until(lambda: http.get("/-/ready").status_code == 200, "Prometheus to listen")
                yield http
        finally:
            process.terminate()
            process.wait(20)


# --- why and audit -------------------------------------------------------------------------------------------


def test_why_and_audit_on_the_command_line(lived: Program) -> None:
    run = lived.run_of("bad")
    why = lived.cli("why", run["run_id"])
    assert (why.returncode, why.stderr) == (0, "")
    assert "it is FAILED: attempt 2 failed" in why.stdout
    assert "WHERE THE TIME WENT" in why.stdout
    moment = json.loads(lived.cli("why", "tick", "--at", "2020-01-01T00:00:00Z", "--json").stdout)
    assert moment["reason"] == "not_created"
    audit = lived.cli("audit", "--json")
    report = json.loads(audit.stdout)
    assert (audit.returncode, report["clean"], report["findings"]) == (0, True, [])
    assert report["expected"] >= 3
