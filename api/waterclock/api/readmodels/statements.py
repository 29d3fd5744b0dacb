"""The SQL of this package: statements by name, from the files beside it."""

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(file: str) -> dict[str, str]:
    """The statements of a file, each under the name in the `-- name:` line above it."""
    text = files(__package__).joinpath("sql", file).read_text()
    parts = _NAME.split(text)[1:]
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
