"""What must hold of the repository itself: namespace, names, layers, locks, images."""

import json
import re
import runpy
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import grimp
import pytest
import yaml
from packaging.requirements import Requirement

from waterclock.core.jetstream.access.server_config import new_secrets
from waterclock.core.runtime.account_keys import new_issuer_seed
from waterclock.core.runtime.embedded.postgres_roles import script
from waterclock.core.runtime.settings import load

ROOT = Path(__file__).parents[3]
COMPONENTS = ("api", "core", "executor", "projector", "proto", "scheduler")
LOCKS = ("requirements.lock", "requirements-dev.lock")


def test_waterclock_is_a_namespace_without_a_file_of_its_own() -> None:
    assert all((ROOT / component / "waterclock").is_dir() for component in COMPONENTS)
    assert [path for path in ROOT.glob("*/waterclock/__init__.py") if path.parts[-3] != ".venv"] == []


MODULES = sorted(
    path.relative_to(ROOT)
    for component in COMPONENTS
    for path in (ROOT / component / "waterclock").rglob("*.py")
)
POETRY = {
    *(
        "aftermath",
        "apart",
        "carrier",
        "crew",
        "desk",
        "forsaken",
        "harm",
        "heard",
        "household",
        "keeper",
        "lane",
    ),
    *(
        "ledger",
        "letter",
        "letters",
        "lineage",
        "nemesis",
        "news",
        "post",
        "shelf",
        "shop",
        "stir",
        "story",
        "taking",
    ),
    *("tally", "tape", "tells", "told", "vigil", "ward", "watchman", "witness", "workshop"),
    *("base", "common", "helpers", "manager", "misc", "utils"),
}
FLAT = 18
"""So many modules in one folder can still be taken in; more want a folder of their own."""


def test_no_module_has_a_name_that_only_its_author_understands() -> None:
    tests = [path.relative_to(ROOT) for top in ("tests", "bench") for path in (ROOT / top).rglob("*.py")]
    assert [str(path) for path in [*MODULES, *tests] if path.stem.removeprefix("test_") in POETRY] == []


def test_no_module_is_called_by_what_it_is_doing() -> None:
    """Nouns, not gerunds: `puller`, not pulling."""
    assert [
        str(path) for path in MODULES if re.search(r"(^|_)\w{2,}ing$", path.stem) and path.stem not in _NOUNS
    ] == []


_NOUNS = {
    "daylight_saving",
    "decoding",
    "housekeeping",
    "listing",
    "masking",
    "naming",
    "paging",
    "signing",
    "tracing",
    "wording",
}
"""Words that are names of things in this trade."""


def test_no_folder_holds_more_than_can_be_taken_in() -> None:
    counts = Counter(str(path.parent) for path in MODULES if path.stem != "__init__")
    assert {folder: count for folder, count in counts.items() if count > FLAT} == {}


def test_packages_do_not_import_each_other_in_circles() -> None:
    """In every package its parts, seen as wholes, have an order. The contracts in pyproject.toml say which."""
    graph = grimp.build_graph("waterclock", cache_dir=None)
    found = graph.find_matching_direct_imports("waterclock.** -> waterclock.**")
    imports = {(each["importer"], each["imported"]) for each in found} - _LAZY
    packages = {module.rpartition(".")[0] for module in graph.modules if "." in module}
    circles = {}
    for package in packages:
        edges: dict[str, set[str]] = {}
        for importer, imported in imports:
            one, other = _child(package, importer), _child(package, imported)
            if one and other and one != other:
                edges.setdefault(one, set()).add(other)
        try:
            list(TopologicalSorter(edges).static_order())
        except CycleError as error:
            circles[package] = error.args[1]
    assert circles == {}


_LAZY = {("waterclock.executor.worker", "waterclock.executor.service")}
"""Inside a function: `worker.run()` starts the service that the worker is part of."""


def _child(package: str, module: str) -> str:
    """The part of a package that a module belongs to."""
    return module[len(package) + 1 :].partition(".")[0] if module.startswith(f"{package}.") else ""


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_by_hash_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert re.findall(r"://|index-url|find-links|^-|@ ", text, re.MULTILINE) == []
    blocks = [block for block in re.split(r"\n(?=\S)", text.strip()) if not block.startswith("#")]
    assert len(blocks) > 50
    for block in blocks:
        assert re.match(r"[a-z0-9-]+(\[[a-z,-]+\])?==[^\s]+", block), block
        assert "--hash=sha256:" in block, block


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_satisfies_the_project_s_dependencies(lock: str) -> None:
    """Else somebody changed pyproject.toml and forgot `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    if lock == "requirements-dev.lock":
        wanted += project["optional-dependencies"]["dev"]
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^\s]+)", (ROOT / lock).read_text(), re.MULTILINE))
    for requirement in map(Requirement, wanted):
        assert pinned[requirement.name.lower()] in requirement.specifier, requirement


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return parsed


def test_compose_has_two_of_each_component_and_three_nats(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {
        *("nats-1", "nats-2", "nats-3", "postgres", "minio"),
        *("setup", "scheduler", "executor", "projector", "api"),
    }
    for component in ("scheduler", "executor", "projector", "api"):
        assert services[component]["deploy"]["replicas"] == 2
        assert services[component]["command"] == [component]


def test_compose_refers_only_to_what_it_has(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./deploy/tls/"):
                made = source.removeprefix("./deploy/tls/").split("/")
                assert made[0] in ("ca", "nats", "postgres", "minio", "api")
                continue
            assert (ROOT / source).exists() if source.startswith(".") else source in compose["volumes"]


def test_everything_in_compose_speaks_tls_and_images_can_be_pinned(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for component in ("setup", "scheduler", "executor", "projector", "api"):
        given = services[component]["environment"]
        assert all(given[f"WATERCLOCK_{server}_CA"] == "/tls/ca.crt" for server in ("NATS", "DATABASE", "S3"))
        assert given["WATERCLOCK_S3_ENDPOINT"].startswith("https://")
    assert {"WATERCLOCK_HTTP_CERT", "WATERCLOCK_HTTP_KEY"} <= set(services["api"]["environment"])
    assert "hostssl" in (ROOT / "deploy" / "postgres" / "init.sh").read_text()
    assert (ROOT / "deploy" / "nats" / "nats.conf").read_text().count("tls {") == 2
    for name in ("nats-1", "postgres", "minio"):
        assert re.fullmatch(r"\$\{WATERCLOCK_[A-Z]+_IMAGE:-\S+:\S+\}", services[name]["image"])


def test_only_who_needs_it_has_the_key_of_secrets(compose: dict[str, Any]) -> None:
    having = [
        name
        for name, service in compose["services"].items()
        if "WATERCLOCK_SECRETS_KEY" in service["environment"]
    ]
    assert having == ["executor", "api"]


def test_the_roles_of_a_postgres_of_your_own_are_those_of_the_embedded_one() -> None:
    written = (ROOT / "deploy" / "postgres" / "roles.sql").read_text()
    assert written == script(), "run `python -m waterclock.core.runtime.embedded.postgres_roles`"


def test_the_sbom_names_all_that_is_pinned(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "deploy" / "sbom.py"), run_name="__main__")
    components = json.loads(capsys.readouterr().out)["components"]
    lock = (ROOT / "requirements.lock").read_text()
    assert len(components) == len(re.findall(r"^[A-Za-z0-9]\S*==", lock, re.MULTILINE)) > 50
    assert sum(len(component["hashes"]) for component in components) == lock.count("--hash=sha256:")
    assert "cryptography" in [component["name"] for component in components]


def test_compose_has_no_secret_of_its_own(compose: dict[str, Any]) -> None:
    made = (ROOT / "deploy" / "make-env").read_text() + new_secrets()
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if re.search(r"PASSWORD|TOKEN|SECRET", name):
                variable = re.fullmatch(r"\$\{WATERCLOCK_(\w+)(:\?.*)?\}", str(value))
                assert variable is not None, name
                assert variable[1] in made


def test_components_in_compose_accept_their_settings(compose: dict[str, Any]) -> None:
    for component in ("scheduler", "executor", "projector", "api"):
        given = {
            name: re.sub(r"\$\{\w+(:\?[^}]*)?\}", "s" * 49, value)
            for name, value in compose["services"][component]["environment"].items()
        }
        if component == "api":
            given["WATERCLOCK_NATS_ISSUER_SEED"] = new_issuer_seed()
        settings = load({}, given)
        assert settings.replicas == 3
        assert settings.nats_url is not None
        assert settings.nats_url.count("nats://") == 3
        assert " " not in settings.nats_url
        assert settings.store is not None


def test_the_image_is_built_from_files_that_are_there() -> None:
    text = (ROOT / "Dockerfile").read_text()
    sources = [
        word
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    allowed = (ROOT / ".dockerignore").read_text().split()
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in allowed
