"""Writes docs/man/waterclock.1 from the commands themselves: `python -m waterclock.api.cli.manual`."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from typer.main import get_command

from waterclock.api.cli.program import program
from waterclock.api.cli.reference import commands_of

PAGE = Path(__file__).parents[4] / "docs" / "man" / "waterclock.1"

_HEAD = r""".\" Made by python -m waterclock.api.cli.manual: do not edit.
.TH WATERCLOCK 1 "" "waterclock {version}" "User Commands"
.SH NAME
waterclock \- run every job on time, once, and be able to say why
.SH SYNOPSIS
.B waterclock
.RI [ --data " " DIR ]
.I COMMAND
.RI [ ARGUMENT ...]
.SH DESCRIPTION
A distributed job scheduler. \fBwaterclock up\fR starts everything on one machine; the other commands ask it. Ids may be
shortened to a beginning that only one has. Listings have \fB\-\-json\fR: one document, with what was found under
\fIitems\fR.
.SH OPTIONS
.TP
.BI \-\-data " DIR"
Which \fBwaterclock up\fR is meant: where it keeps its data.
.TP
.B \-\-version
Show the version and exit.
.TP
.BR \-h ", " \-\-help
Show help and exit; also of each command.
.TP
.BR \-\-install\-completion ", " \-\-show\-completion
Complete commands, options and ids in the current shell.
.SH COMMANDS
"""
_TAIL = r""".SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
What was asked about failed.
.TP
.B 2
Wrong usage, or something was refused.
.TP
.B 3
Not found.
.TP
.B 4
The system cannot be reached.
.SH ENVIRONMENT
.TP
.B WATERCLOCK_DATA
The data directory, as \fB\-\-data\fR.
.TP
.BI WATERCLOCK_ NAME
Any setting, before waterclock.toml and after an option.
.TP
.BR NO_COLOR ", " TERM=dumb
No colours.
.SH FILES
.TP
.I waterclock.toml
Settings, in the current directory.
.TP
.I DIR/connection.json
How to reach what \fBwaterclock up\fR has started.
"""


def page() -> str:
    root: Any = get_command(program)
    parts = [_HEAD.replace("{version}", version("waterclock"))]
    parts += [
        "\n".join(_section(" ".join(words), command)) + "\n" for words, command in commands_of(root, ())
    ]
    return "".join([*parts, _TAIL])


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    usage = " ".join(argument.metavar or argument.name.upper() for argument in arguments)
    yield f".SS waterclock {_text(name)} {_text(usage)}".rstrip()
    for paragraph in (command.help or "").split("\n\n"):
        said = " ".join(paragraph.split())
        if said.startswith("waterclock ") or " | waterclock " in said:
            yield from (".EX", _line(said), ".EE")
        elif said:
            yield from (_line(said), ".PP")
    for option in options:
        value = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
        names = ", ".join((*option.opts, *option.secondary_opts))
        yield from (
            ".TP",
            rf"\fB{_text(names)}\fR\fI{_text(value)}\fR",
            _line(" ".join((option.help or "").split())),
        )


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)


def _line(text: str) -> str:
    """A line that is none of roff's own."""
    plain = _text(text) or "\\&"
    return rf"\&{plain}" if re.match(r"[.']", plain) else plain


def main() -> None:
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    print(PAGE)


if __name__ == "__main__":
    main()
