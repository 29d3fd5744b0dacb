"""`waterclock secret`: set, list, delete, rotate-key. A value never stands on a command line, where others see it."""

import getpass
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.exits import WrongUsage
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, Json, Watch
from waterclock.api.cli.output import note, print_json, table
from waterclock.api.cli.session import connected
from waterclock.proto import methods
from waterclock.proto.answers import Secret
from waterclock.proto.commands import DeleteSecret, SetSecret
from waterclock.proto.queries import Nothing

secret = typer.Typer(
    name="secret", help="Values that jobs name and nobody sees.", no_args_is_help=True, add_completion=False
)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@secret.command("set")
def set_secret(
    name: Name,
    from_file: Annotated[
        Path | None, typer.Option(help="Take the file's content, exactly as it is.", metavar="FILE")
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Set a secret, from standard input (without the line break at its end), a file, or a question on the terminal.

    waterclock secret set db-password < password.txt

    waterclock submit nightly --env PGPASSWORD=secret:db-password -- pg_dump prod
    """
    fields = {"name": name, "value": _value(name, from_file)}
    with connected(data) as wire:
        made = wire.call(methods.SECRETS_SET, decoding.convert(fields, SetSecret, text=False))
    if json:
        print_json(made)
    else:
        print(f"{made.name} set (version {made.version})")


def _value(name: str, file: Path | None) -> str:
    try:
        if file is not None:
            return file.read_text(encoding="utf-8")
        if sys.stdin.isatty():
            return getpass.getpass(f"value of {name}: ")
        return sys.stdin.buffer.read().decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise WrongUsage(f"the value of {name} is not UTF-8 text; encode it, say as base64") from None


@secret.command("list")
def list_secrets(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List secrets: what there is, never a value."""
    with connected(data) as wire:
        _SECRETS.show(lambda: wire.call(methods.SECRETS_LIST, Nothing()), json=json, watch=watch)


def _secret_table(secrets: Sequence[Secret]) -> str:
    rows = [(one.name, str(one.version), output.ago(one.updated_at), one.actor) for one in secrets]
    heads = ("SECRET", "VERSION", "SET", "BY")
    return table(heads, rows) if rows else "no secrets; set one with `waterclock secret set NAME`"


_SECRETS = Listing[Secret](key=lambda one: one.name, text=_secret_table)


@secret.command("delete")
def delete(name: Name, json: Json = False, data: Data = None) -> None:
    """Delete a secret. Attempts that need it fail from then on."""
    with connected(data) as wire:
        gone = wire.call(methods.SECRETS_DELETE, decoding.convert({"name": name}, DeleteSecret, text=False))
    print_json(gone) if json else print(f"{gone.name} deleted")


@secret.command("rotate-key")
def rotate_key(json: Json = False, data: Data = None) -> None:
    """Encrypt every secret with a new key; again, if it was cut short. Nothing stops meanwhile."""
    with connected(data) as wire:
        done = wire.call(methods.SECRETS_ROTATE_KEY, Nothing())
    if json:
        print_json(done)
        return
    print(f"{done.encrypted} of {done.secrets} secrets encrypted anew, with the key {done.key_id}")
    if done.former_keys:
        note(f"no longer needed, and kept until the next rotation: {', '.join(done.former_keys)}")
