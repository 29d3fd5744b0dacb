"""The named statements of `sql/queries.sql`."""

import re
from functools import cache
from importlib.resources import files

_SECTION = re.compile(r"^-- name: (\w+)\n((?:-- .*\n)+)", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    text = files("waterclock.projector").joinpath("sql/queries.sql").read_text(encoding="utf-8")
    _, *parts = _SECTION.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::3], parts[2::3], strict=True)}


def statement(name: str) -> str:
    return statements()[name]
