"""Exit codes, and which error ends in which."""

import enum

from msgspec import Struct

from waterclock.api import errors


class Exit(enum.IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4


class Failed(Exception):
    """What was asked about failed; the message says how."""


class Wrong(Exception):
    """The command line cannot be meant like this."""


class Ending(Struct, frozen=True):
    code: int
    message: str = ""


def exit_of(error: BaseException) -> Ending:
    """One line that says what is wrong and what to do next. Anything unforeseen is raised again."""
    match error:
        case Failed():
            return Ending(Exit.FAILED, str(error))
        case Wrong():
            return Ending(Exit.USAGE, str(error))
        case errors.Unreachable():
            return Ending(Exit.UNREACHABLE, _line(str(error)))
        case errors.Refused():
            return _refused(error)
        case KeyboardInterrupt():
            return Ending(130)
        case BrokenPipeError():
            return Ending(Exit.DONE)
        case SystemExit():
            return Ending(error.code if isinstance(error.code, int) else Exit.FAILED)
    return _other(error)


def _refused(error: errors.Refused) -> Ending:
    problem = error.problem
    wrong = "; ".join(f"{e.field}: {e.reason}" if e.field else e.reason for e in problem.errors)
    message = _line(wrong or problem.detail or problem.title)
    match error:
        case errors.NotFound():
            return Ending(Exit.NOT_FOUND, message)
        case errors.Malformed() | errors.Invalid() | errors.TooLarge():
            return Ending(Exit.USAGE, message)
        case errors.Unavailable():
            return Ending(Exit.UNREACHABLE, f"{message}; try again")
        case _:
            return Ending(Exit.FAILED, message)


def _other(error: BaseException) -> Ending:
    from typer import Abort
    from typer import Exit as TyperExit
    from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError

    from waterclock.core.runtime.settings import SettingsError

    match error:
        case SettingsError():
            return Ending(Exit.USAGE, _line(str(error)))
        case TyperExit():
            return Ending(error.exit_code)
        case Abort():
            return Ending(130)
        case NoArgsIsHelpError():
            return Ending(Exit.USAGE)
        case UsageError():
            path = error.ctx.command_path if error.ctx else "waterclock"
            return Ending(Exit.USAGE, f"{_line(error.format_message())} (see `{path} --help`)")
        case ClickException():
            return Ending(error.exit_code, _line(error.format_message()))
    raise error


def _line(text: str) -> str:
    return " ".join(text.split())
