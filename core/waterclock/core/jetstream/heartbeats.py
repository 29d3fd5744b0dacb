"""What the components say of themselves in the control bucket."""

from typing import TypeVar

from msgspec import Struct

from waterclock.core.jetstream.bucket import Bucket
from waterclock.proto import names
from waterclock.proto.heartbeats import read_heartbeat

H = TypeVar("H", bound=Struct)


async def read_heartbeats(control: Bucket, component: str, kind: type[H]) -> list[H]:
    """Of all living instances of a component, those that can be read."""
    found = await control.scan(names.member_key(component, "*"))
    return [beat for entry in found if (beat := read_heartbeat(entry.value, kind)) is not None]
