"""Structured logs on stderr: lines for people on a terminal, JSON objects otherwise.

Modules use the standard library (`logging.getLogger(__name__)`) and pass facts as `extra`:
`log.warning("child ended", extra={"child": "nats", "exit_code": -9})`.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Literal

import msgspec

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\x1b": "\\e"})
_PLAIN = "\x1b[0m"
_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m", "DEBUG": "\x1b[2m"}


def setup(
    component: str,
    *,
    level: str = "info",
    format: Literal["auto", "human", "json"] = "auto",
) -> None:
    """Route all logging of this process to stderr. Call once, first thing."""
    human = sys.stderr.isatty() if format == "auto" else format == "human"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HumanLines(component, colour=sys.stderr.isatty()) if human else JsonLines(component))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def facts(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class HumanLines(logging.Formatter):
    """`09:30:01.123 WARNING supervisor  child ended  child=nats exit_code=-9`"""

    def __init__(self, component: str, *, colour: bool = False) -> None:
        super().__init__()
        self._component = component
        self._colours = _COLOURS if colour else {}

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        pairs = "".join(f" {key}={_one_word(value)}" for key, value in facts(record).items())
        text = f"{record.getMessage().translate(_ESCAPES)}{' ' if pairs else ''}{pairs}"
        colour = self._colours.get(record.levelname, "")
        level = f"{colour}{record.levelname:<7}{_PLAIN if colour else ''}"
        line = f"{time} {level} {self._component:<10} {text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One object a line: time, level, component, logger, message, then the facts."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "component": self._component,
            "logger": record.name,
            "message": record.getMessage(),
            **facts(record),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return self._encode(entry).decode(errors="replace")


def _one_word(value: object) -> str:
    text = str(value).translate(_ESCAPES)
    return f'"{text}"' if " " in text or text == "" else text
