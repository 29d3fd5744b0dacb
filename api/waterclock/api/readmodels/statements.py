"""The SQL of this package: statements by name, from the files beside it."""

from pathlib import Path

from waterclock.core.sql import load_statements

_DIRECTORY = Path(__file__).parent / "sql"
_LITERALLY = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\"})


def load(file: str) -> dict[str, str]:
    return load_statements(_DIRECTORY / file)


def containing(text: str | None) -> str | None:
    """A pattern for LIKE that matches the text anywhere, taken literally."""
    return None if not text else f"%{text.translate(_LITERALLY)}%"
