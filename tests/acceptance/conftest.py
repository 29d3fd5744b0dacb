"""A running program for each module that asks for one."""

from collections.abc import Iterator

import pytest

from support.program import Program, program


@pytest.fixture(scope="module")
def waterclock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with program(tmp_path_factory.mktemp("waterclock") / "data") as running:
        yield running
