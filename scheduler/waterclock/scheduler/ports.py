"""What a partition's shell needs from the outside, opened once by the service."""

from msgspec import Struct, field

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.definitions import Definitions
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.clock import Clock
from waterclock.core.store.store import Store
from waterclock.proto.spec import JobSpec
from waterclock.scheduler.metrics import Tally


class Ports(Struct, frozen=True, kw_only=True):
    connection: Connection
    publisher: Publisher
    definitions: Definitions
    timing: Bucket
    control: Bucket
    artifacts: Store
    clock: Clock
    instance: str
    tally: Tally = field(default_factory=Tally)
    partitions: int

    async def spec_at(self, job_id: str, version: int) -> JobSpec | None:
        """A definition as it was at a version; None when the log no longer holds it."""
        found = await self.definitions.at(job_id, version)
        return None if found is None else found.job.spec
