"""Files only their owner may read, replaced whole or not at all."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically, mode 0600: a reader sees the old content or the new. One writer at a time."""
    growing = path.with_name(f".{path.name}.new")
    growing.unlink(missing_ok=True)
    with open(growing, "w", opener=_private) as file:
        file.write(text)
    os.replace(growing, path)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_EXCL, 0o600)


def private_directory(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
