"""What stands in `deploy/` is read by the tools it is for, where they are there, and parsed where not."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "waterclock.rules.yml").read_text())["groups"][0]["rules"]
KINDS = {
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
    "Namespace": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Service": "v1",
}


def documents() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [found for file in files for found in yaml.safe_load_all(file.read_text())]


def test_rules_name_metrics_that_there_are() -> None:
    told = set(re.findall(r"`(waterclock_\w+)`", (ROOT / "docs" / "metrics.md").read_text()))
    for rule in RULES:
        for metric in re.findall(r"waterclock_\w+", rule["expr"]):
            assert metric.removesuffix("_bucket") in told, f"{rule['alert']}: {metric}"
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_promtool_takes_them() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing (Debian's prometheus): the rules were only parsed")
    for command in (("rules", "waterclock.rules.yml"), ("config", "--syntax-only", "prometheus.yml")):
        checked = subprocess.run(
            [promtool, "check", *command],
            cwd=DEPLOY / "prometheus",
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("unit", ["waterclock.service", "waterclock@.service"])
def test_units_drain_and_come_back(unit: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / unit)
    service = parser["Service"]
    assert re.fullmatch(r"/opt/waterclock/bin/waterclock (up .*|%i)", service["ExecStart"])
    assert (service["KillSignal"], service["User"]) == ("SIGTERM", "waterclock")
    assert int(service["TimeoutStopSec"]) > 10, "longer than grace_seconds"
    assert parser["Install"]["WantedBy"] == "multi-user.target"


def test_manifests_are_of_known_kinds_and_complete() -> None:
    found = documents()
    assert [one["kind"] for one in found if KINDS.get(one["kind"]) != one["apiVersion"]] == []
    (kustomization,) = [one for one in found if one["kind"] == "Kustomization"]
    files = {file.name for file in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    deployments = {one["metadata"]["name"]: one for one in found if one["kind"] == "Deployment"}
    assert deployments.keys() == {
        f"waterclock-{part}" for part in ("api", "executor", "projector", "scheduler")
    }
    for name, deployment in deployments.items():
        pod = deployment["spec"]["template"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        (container,) = pod["spec"]["containers"]
        assert container["args"] == [name.removeprefix("waterclock-")]
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        given = {each["secretRef"]["name"] for each in container["envFrom"] if "secretRef" in each}
        reads_secrets = name in ("waterclock-api", "waterclock-executor")
        assert given == {"waterclock", *(["waterclock-secrets-key"] if reads_secrets else [])}
    for generated in kustomization["secretGenerator"]:
        for file in generated["envs"]:
            assert (DEPLOY / "kubernetes" / file).exists()


def test_kubectl_builds_them() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is missing: the manifests were only parsed")
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert len([*yaml.safe_load_all(built.stdout)]) >= 13


def test_a_stat_of_text_looks_at_text() -> None:
    """Without `fields` Grafana looks at numbers alone and shows "No data"."""
    texts = 0
    for file in (DEPLOY / "grafana" / "dashboards").glob("*.json"):
        for panel in json.loads(file.read_text())["panels"]:
            if panel["type"] == "stat" and panel["fieldConfig"]["defaults"].get("unit") == "string":
                assert panel["options"]["reduceOptions"]["fields"] == "/.*/", panel["title"]
                texts += 1
    assert texts > 0
