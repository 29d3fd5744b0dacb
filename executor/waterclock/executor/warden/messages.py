"""The protocol between the executor and its warden: length-prefixed msgpack on a socket pair.

The executor sends requests, the warden sends reports. `number` is the executor's own for a process.
"""

from collections.abc import Iterator
from struct import Struct as Packing
from typing import Any

import msgspec
from msgspec import Struct


class Limits(Struct, frozen=True, array_like=True):
    """Resource limits of one process, in the units of `ulimit`; 0 means none."""

    cpu_seconds: int = 0
    memory_kib: int = 0
    open_files: int = 0
    processes: int = 0
    file_blocks: int = 0
    """Of 512 bytes, the largest file that it may write."""

    @property
    def any(self) -> bool:
        return bool(
            self.cpu_seconds or self.memory_kib or self.open_files or self.processes or self.file_blocks
        )


class Start(Struct, frozen=True, array_like=True, tag=1):
    number: int
    argv: list[str]
    env: dict[str, str]
    directory: str
    stdin: bytes
    output_bytes: int
    """How much output to pass on; the rest is counted and dropped."""
    limits: Limits = Limits()
    identity: tuple[int, int] | None = None
    """User and group to run as; None: our own."""
    lease_seconds: float = 0.0
    """Kill it when so much time has passed without a renewal; 0: it has no lease."""
    unpack: str = ""
    """An archive to unpack into the directory, instead of running a program."""


class Stop(Struct, frozen=True, array_like=True, tag=2):
    """TERM to the process and its descendants, KILL after `grace` seconds; without grace KILL at once."""

    number: int
    grace: float


class Renew(Struct, frozen=True, array_like=True, tag=6):
    """Its lease holds for so many seconds from now."""

    number: int
    seconds: float


class Confined(Struct, frozen=True, array_like=True, tag=7):
    """The first report: what protects this machine from jobs, each with nothing or with why it does not."""

    protections: dict[str, str]


class StartFailed(Struct, frozen=True, array_like=True, tag=3):
    number: int
    reason: str


class Output(Struct, frozen=True, array_like=True, tag=4):
    """Standard output and error, in the order in which they were written."""

    number: int
    data: bytes


class Exited(Struct, frozen=True, array_like=True, tag=5):
    """The process and all its descendants are gone."""

    number: int
    code: int
    """As in `subprocess`: negative for a signal."""
    cpu_seconds: float
    memory_bytes: int
    """The peak; 0 if it was too small to tell from the warden's own."""
    dropped: int
    """Bytes of output over the limit."""
    last_line: bytes
    """The last line of standard output, if it is not too long to be a value."""
    lapsed: bool
    """Killed because its lease was not renewed."""
    left_behind: int
    """How many processes it left behind, which were killed."""
    orphans: bool
    """When it ended there was an orphan that may be its own or another's."""


Request = Start | Stop | Renew
Report = Confined | StartFailed | Output | Exited

MAX_LINE_BYTES = 64 * 1024

_length = Packing("<I")
_encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_report = msgspec.msgpack.Decoder(Report).decode


def pack(message: Request | Report) -> bytes:
    body = _encode(message)
    return _length.pack(len(body)) + body


class Unpacker:
    """Cuts a byte stream back into message bodies."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Any]:
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        view = memoryview(data)
        while end - at >= 4:
            (length,) = _length.unpack_from(data, at)
            if end - at - 4 < length:
                break
            yield view[at + 4 : at + 4 + length]
            at += 4 + length
        self._rest = data[at:]
