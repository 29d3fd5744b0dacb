"""The long form writes what it found into docs/reliability.md."""

import os

import pytest

from chaos.report import VERDICTS, write_table


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("WATERCLOCK_CHAOS") == "long" and VERDICTS:
        write_table()
