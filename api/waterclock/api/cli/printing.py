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
