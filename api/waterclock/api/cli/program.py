"""Which command is which function, and how a command line ends: in an answer, or in one line and an exit code.

Only the command that was called is imported and built: typer would take a tenth of a second for all of them.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from waterclock.api.cli.exits import Exit, exit_of

COMMANDS = {
    "up": "serve",
    "console": "console",
    "submit": "submit",
    "apply": "apply",
    "batch": "apply",
    "import": "apply",
    "export": "export",
    "jobs": "jobs",
    "job": "jobs",
    "runs": "runs",
    "run": "runs",
    "attempts": "runs",
    "logs": "runs",
    "upcoming": "overview",
    "stats": "overview",
    "watch": "overview",
    "dead": "runs",
    "update": "jobs",
    "versions": "versions",
    "diff": "versions",
    "rollback": "versions",
    "pause": "jobs",
    "resume": "jobs",
    "cancel": "jobs",
    "cancel-run": "runs",
    "run-now": "jobs",
    "retry": "runs",
    "redrive": "runs",
    "next": "explain",
    "backfill": "backfill",
    "skip-next": "jobs",
    "why": "explain",
    "audit": "explain",
    "workflow": "workflow",
    "artifact": "artifact",
    "token": "access",
    "namespace": "access",
    "secret": "secret",
    "executors": "fleet",
    "queues": "fleet",
    "partitions": "fleet",
    "status": "fleet",
    "doctor": "fleet",
    "top": "fleet",
    "setup": "serve",
    "nats-config": "serve",
    "quarantine": "access",
    "scheduler": "serve",
    "executor": "serve",
    "projector": "serve",
    "api": "serve",
}
"""Command -> the module in `commands` with a function of that name. Other commands are made from the method table."""

_FUNCTIONS = {"import": "import_", "nats-config": "nats_config"}


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        from waterclock.api.cli.method_command import rows

        return list(dict.fromkeys((*COMMANDS, *rows())))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            module = import_module(f"waterclock.api.cli.commands.{COMMANDS[cmd_name]}")
            defined = getattr(module, _FUNCTIONS.get(cmd_name, cmd_name.replace("-", "_")))
        else:
            defined = _made_from_row(cmd_name)
        if defined is None:
            return None
        if isinstance(defined, typer.Typer):
            _complete(defined, cmd_name)
            return get_command(defined)
        single = typer.Typer(add_completion=False)
        single.command(cmd_name)(defined)
        return get_command(single)


def _made_from_row(name: str) -> Callable[..., None] | None:
    from waterclock.api.cli.method_command import command_of, rows

    row = rows().get(name)
    return None if row is None else command_of(row)


def _complete(group: typer.Typer, name: str) -> None:
    """Adds the commands of a group that are made from rows."""
    from waterclock.api.cli.method_command import command_of, rows

    there = {
        command.name or getattr(command.callback, "__name__", "") for command in group.registered_commands
    }
    for word, row in rows(name).items():
        if word not in there:
            group.command(word)(command_of(row))


program = typer.Typer(
    cls=_Commands,
    name="waterclock",
    help="Run every job on time, once, and be able to say why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"waterclock {version('waterclock')}")
        raise typer.Exit()


@program.callback()
def _root(
    data: Annotated[
        str | None, typer.Option(help="Where `waterclock up` keeps its data.", metavar="DIR")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    if data:
        os.environ["WATERCLOCK_DATA"] = data


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0 done, 1 what was asked about failed, 2 wrong usage, 3 not found, 4 cannot reach the system."""
    command = get_command(program)
    try:
        result = command.main(args=list(arguments), prog_name="waterclock", standalone_mode=False)
    except BaseException as error:
        ending = exit_of(error)
        if ending.message:
            print(f"waterclock: {ending.message}", file=sys.stderr)
        return ending.code
    return int(result) if isinstance(result, int) else Exit.DONE
