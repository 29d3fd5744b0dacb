"""A projector in a process of its own, to be killed."""

import os
import subprocess
import sys
from types import TracebackType

from projector_rig.service import settings
from waterclock.core.runtime.settings import as_environment

_CODE = """
import sys
from waterclock.core.runtime.lifecycle import run_service
from waterclock.core.runtime.settings import load
from waterclock.projector.service import run
sys.exit(run_service("projector", run, load({})))
"""


class ProjectorProcess:
    def __init__(self, nats_url: str, database_url: str) -> None:
        self._environment = {**os.environ, **as_environment(settings(nats_url, database_url))}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "ProjectorProcess":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", _CODE], env=self._environment)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
