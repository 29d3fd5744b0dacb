"""The program as it is shipped: what the rest of the tests switches off for convenience is on."""

import os
from collections.abc import Iterator

import pytest

from support.program import Program, program

JOB_PROCESSES = 100
JOB_FILE_BYTES = 8 << 20


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    kept = os.environ.pop("WATERCLOCK_RUN_AS", None)
    try:
        limits = {
            "WATERCLOCK_JOB_PROCESSES": str(JOB_PROCESSES),
            "WATERCLOCK_JOB_PROCESSES_MAX": str(JOB_PROCESSES),
            "WATERCLOCK_JOB_FILE_BYTES": str(JOB_FILE_BYTES),
            "WATERCLOCK_JOB_FILE_BYTES_MAX": str(2 * JOB_FILE_BYTES),
        }
        with program(tmp_path_factory.mktemp("shipped") / "data", environment=limits) as running:
            yield running
    finally:
        if kept is not None:
            os.environ["WATERCLOCK_RUN_AS"] = kept
