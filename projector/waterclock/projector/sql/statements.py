"""The named statements of `sql/queries.sql`."""

from functools import cache
from pathlib import Path

from waterclock.core.sql import load_statements

_statements = cache(load_statements)


def statement(name: str) -> str:
    return _statements(Path(__file__).parent / "queries.sql")[name]
