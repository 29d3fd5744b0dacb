"""What docker-compose.yml describes, as processes on loopback: the same files and settings, other addresses."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from waterclock.core.runtime.embedded.nats import nats_server_binary
from waterclock.core.runtime.ports import LOOPBACK, Port
from waterclock.core.runtime.processes.process import Process, spawn

ROOT = Path(__file__).parents[3]
NODES = ("nats-1", "nats-2", "nats-3")


class Cluster:
    def __init__(self, directory: Path, *, database_url: str, s3_endpoint: str) -> None:
        compose: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
        self._ports: list[Port] = []
        self.api_port = self._free_port()
        self._directory = directory
        self._services = compose["services"]
        self._secrets = _secrets()
        self._database_url = database_url
        self.certificates = directory / "tls"
        subprocess.run([ROOT / "deploy" / "make-certificates", self.certificates], check=True)
        # The store and the database of the tests speak no TLS; that ours do is tested by `test_tls` and `test_s3_tls`.
        self._elsewhere = {"https://minio:9000": s3_endpoint}
        for node in NODES:
            self._elsewhere[f"{node}:4222"] = f"{LOOPBACK}:{self._free_port()}"
            self._elsewhere[f"{node}:6222"] = f"{LOOPBACK}:{self._free_port()}"

    def _free_port(self) -> int:
        """Held for as long as the cluster."""
        self._ports.append(Port())
        return self._ports[-1].secure()

    @property
    def token(self) -> str:
        return self._secrets["WATERCLOCK_TOKEN"]

    def environment(self, service: str) -> dict[str, str]:
        given = {name: self._placed(value) for name, value in self._services[service]["environment"].items()}
        given = {name: value.replace("/tls/", f"{self._tls_of(service)}/") for name, value in given.items()}
        if "WATERCLOCK_DATABASE_URL" in given:
            del given["WATERCLOCK_DATABASE_CA"], given["WATERCLOCK_S3_CA"]
            here = {"DATABASE_URL": self._database_url, "METRICS_PORT": str(self._free_port())}
            here |= {"PORT": str(self.api_port), "DATA": str(self._directory / "data")}
            given |= {f"WATERCLOCK_{name}": value for name, value in here.items()}
        return {**os.environ, **given}

    def node(self, name: str) -> Process:
        directory = self._directory / name
        shutil.copytree(ROOT / "deploy" / "nats", directory)
        config = (directory / "nats.conf").read_text()
        addresses = {
            "0.0.0.0:4222": self._elsewhere[f"{name}:4222"],
            "0.0.0.0:6222": self._elsewhere[f"{name}:6222"],
            "127.0.0.1:8222": f"{LOOPBACK}:{self._free_port()}",
            '"/data"': f'"{directory / "data"}"',
        }
        for address, here in addresses.items():
            assert config.count(address) == 1
            config = config.replace(address, here)
        config = config.replace('"/tls/', f'"{self._tls_of(name)}/')
        (directory / "nats.conf").write_text(config)
        return spawn(
            [nats_server_binary(), "--config", str(directory / "nats.conf")],
            env=self.environment(name),
            log=self._directory / f"{name}.log",
        )

    def _tls_of(self, service: str) -> Path:
        """What the service has in /tls."""
        volumes = self._services[service]["volumes"]
        [source] = [volume.partition(":")[0] for volume in volumes if volume.endswith(":/tls:ro")]
        return self.certificates / Path(source).name

    def component(self, name: str) -> Process:
        argv = [sys.executable, "-m", "waterclock.api.cli", *self._services[name]["command"]]
        return spawn(argv, env=self.environment(name), log=self._directory / f"{name}.log")

    def run_to_its_end(self, name: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "waterclock.api.cli", *self._services[name]["command"]]
        return subprocess.run(
            argv, env=self.environment(name), capture_output=True, text=True, timeout=60, check=False
        )

    def _placed(self, value: str) -> str:
        value = re.sub(r"\$\{(\w+)(:\?[^}]*)?\}", lambda found: self._secrets[found[1]], value)
        for address, here in self._elsewhere.items():
            value = value.replace(address, here)
        return value


def _secrets() -> dict[str, str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    made = subprocess.run(
        [ROOT / "deploy" / "make-env"], env=environment, capture_output=True, text=True, check=True
    )
    return dict(line.split("=", 1) for line in made.stdout.splitlines())
