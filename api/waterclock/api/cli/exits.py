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


class WrongUsage(Exception):
    """The command line cannot be meant like this."""


class ExitWith(Struct, frozen=True):
    code: int
    message: str = ""


def exit_of(error: BaseException) -> ExitWith:
    """One line that says what is wrong and what to do next. Anything unforeseen is raised again."""
    match error:
        case Failed():
            return ExitWith(Exit.FAILED, str(error))
        case WrongUsage():
            return ExitWith(Exit.USAGE, str(error))
        case errors.Unreachable():
            return ExitWith(Exit.UNREACHABLE, _line(str(error)))
        case errors.Refused():
            return _refused(error)
        case KeyboardInterrupt():
            return ExitWith(130)
        case BrokenPipeError():
            return ExitWith(Exit.DONE)
        case SystemExit():
            return ExitWith(error.code if isinstance(error.code, int) else Exit.FAILED)
    return _other(error)


def _refused(error: errors.Refused) -> ExitWith:
    problem = error.problem
    wrong = "; ".join(f"{e.field}: {e.reason}" if e.field else e.reason for e in problem.errors)
    message = _line(wrong or problem.detail or problem.title)
    match error:
        case errors.NotFound():
            return ExitWith(Exit.NOT_FOUND, message)
        case errors.Malformed() | errors.Invalid() | errors.TooLarge():
            return ExitWith(Exit.USAGE, message)
        case errors.Unavailable():
            return ExitWith(Exit.UNREACHABLE, f"{message}; try again")
        case _:
            return ExitWith(Exit.FAILED, message)


def _other(error: BaseException) -> ExitWith:
    from typer import Abort
    from typer import Exit as TyperExit
    from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError

    from waterclock.core.runtime.settings import SettingsError

    match error:
        case SettingsError():
            return ExitWith(Exit.USAGE, _line(str(error)))
        case TyperExit():
            return ExitWith(error.exit_code)
        case Abort():
            return ExitWith(130)
        case NoArgsIsHelpError():
            return ExitWith(Exit.USAGE)
        case UsageError():
            path = error.ctx.command_path if error.ctx else "waterclock"
            return ExitWith(Exit.USAGE, f"{_line(error.format_message())} (see `{path} --help`)")
        case ClickException():
            return ExitWith(error.exit_code, _line(error.format_message()))
    raise error


def _line(text: str) -> str:
    return " ".join(text.split())
