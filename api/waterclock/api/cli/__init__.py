"""The command line. This file stays light: what a command needs is imported when it runs."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    from waterclock.core.runtime.nats_without_aiohttp import import_nats_without_aiohttp

    import_nats_without_aiohttp()

    from waterclock.api.cli.program import run

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
