"""`waterclock console`: a link that signs a browser in, once."""

import os
import sys
from typing import Annotated

import typer

from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.output import note, print_json
from waterclock.api.cli.session import connected
from waterclock.api.client.discovery import find
from waterclock.core.runtime.data_directory import read_connection
from waterclock.proto import methods
from waterclock.proto.queries import Nothing


def console(
    url: Annotated[
        str | None, typer.Option(help="The address of the api, where it is another.", metavar="URL")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the link only.")] = False,
    json: Json = False,
    data: Data = None,
) -> None:
    """Open the web console, signed in as you are here.

    The link works once, within ten minutes.
    """
    with connected(data) as wire:
        link = wire.call(methods.SESSIONS_LINK, Nothing())
    address = (url or _address(data)).rstrip("/") + link.path
    if json:
        print_json({"url": address, "expires_at": link.expires_at})
        return
    print(address)
    if link.expires_at is not None:
        note("it works once, within ten minutes")
    if not no_open and _has_display():
        import webbrowser

        webbrowser.open(address)


def _address(data: str | None) -> str:
    settings = find(data=data).settings
    written = read_connection(settings.data)
    if written is not None:
        return written.http
    scheme = "http" if settings.http_cert is None else "https"
    return f"{scheme}://{settings.host}:{settings.port}"


def _has_display() -> bool:
    return sys.stdout.isatty() and (
        sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    )
