"""A handler with an effect, and a store that checks fencing tokens."""

import asyncio
import fcntl
from pathlib import Path

from waterclock.executor import Context, Worker

worker = Worker(slots=4)


class Stale(Exception):
    """A greater token has been seen."""


class TokenStore:
    """A file of lines `token what`. It refuses a writer whose token is smaller than the greatest it has seen."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def write(self, token: int, what: str) -> None:
        with self._file.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            seen = [int(line.split()[0]) for line in file]
            if seen and token < max(seen):
                raise Stale(f"{token} after {max(seen)}")
            file.write(f"{token} {what}\n")

    def read(self) -> list[tuple[int, str]]:
        lines = [line.split() for line in self._file.read_text().splitlines()]
        return [(int(token), what) for token, what in lines]


@worker.handler("effect")
async def effect(context: Context, payload: str) -> None:
    store = TokenStore(Path(payload))
    token = context.fencing_token
    assert token is not None
    store.write(token, "begin")
    await asyncio.sleep(3)
    store.write(token, "effect")
