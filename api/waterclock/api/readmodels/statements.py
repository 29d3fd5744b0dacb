"""The SQL of this package: statements by name, from the files beside it."""

import re
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "sql"
_LITERALLY = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\"})
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(file: str) -> dict[str, str]:
    """The statements of a file, each under the name in the `-- name:` line above it."""
    text = (_DIRECTORY / file).read_text()
    parts = _NAME.split(text)[1:]
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def containing(text: str | None) -> str | None:
    """A pattern for LIKE that matches the text anywhere, taken literally."""
    return None if not text else f"%{text.translate(_LITERALLY)}%"
