"""What a command prints: JSON for programs, words for people."""

import sys
from typing import Any

import msgspec


def print_json(value: Any) -> None:
    document = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.buffer.write(document + b"\n")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """For people, beside the answer."""
    print(text, file=sys.stderr)


def progress(text: str) -> None:
    """One line on the terminal that the next one replaces; an empty text clears it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
