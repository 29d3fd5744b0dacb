"""Named statements in `.sql` files, for the projector and the api.

-- name: one_run
-- A line that says what it is for.
SELECT … ;
"""

import re
from pathlib import Path

_HEAD = re.compile(r"^-- name: (\w+)\n(?:-- .*\n)*", re.MULTILINE)


def load_statements(file: Path) -> dict[str, str]:
    """The statements of a file by their names, without the comments above them."""
    _, *parts = _HEAD.split(file.read_text(encoding="utf-8"))
    return {name: statement.strip() for name, statement in zip(parts[::2], parts[1::2], strict=True)}
