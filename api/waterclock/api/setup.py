"""What must be there before the first component starts on servers of your own: the streams, and the store's bucket."""

from waterclock.core.jetstream.connection import open_log
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.factory import ensure_bucket


async def setup(settings: Settings) -> None:
    """Needs a NATS user that may make streams. Done again it changes what differs, as after an upgrade."""
    async with open_log(settings, name="setup") as log:
        await ensure_streams(log, Layout(partitions=settings.partitions, replicas=settings.replicas))
    await ensure_bucket(settings)
