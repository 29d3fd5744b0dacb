"""The same servers as containers, for machines where Docker is there."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs
from testcontainers.postgres import PostgresContainer

_NATS_IMAGE = "nats:2.15"
_POSTGRES_IMAGE = "postgres:18"
_CONFIG = {
    "max_payload": 8 * 1024 * 1024,
    "jetstream": {
        "store_dir": "/data",
        "sync_interval": "always",
        "limits": {"default_max_consumers": 10_000},
    },
}


@contextmanager
def nats() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "nats.conf")
        config.write_text(json.dumps(_CONFIG))
        config.chmod(0o644)
        Path(directory).chmod(0o755)
        container = (
            DockerContainer(_NATS_IMAGE)
            .with_command("--config /etc/waterclock/nats.conf")
            .with_volume_mapping(directory, "/etc/waterclock")
            .with_exposed_ports(4222)
        )
        with container:
            wait_for_logs(container, "Server is ready", timeout=60)
            yield f"nats://{container.get_container_host_ip()}:{container.get_exposed_port(4222)}"


@contextmanager
def postgres() -> Iterator[str]:
    with PostgresContainer(_POSTGRES_IMAGE, driver=None) as container:
        yield container.get_connection_url()
