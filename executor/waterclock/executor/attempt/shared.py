"""What all lanes of an executor share."""

from msgspec import Struct

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.frames import FrameWriter
from waterclock.core.jetstream.work_queue import Acks
from waterclock.core.runtime.settings import Settings
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.attempt.reporter import Reporter
from waterclock.executor.attempt.stop_requests import Stops
from waterclock.executor.in_flight import InHand
from waterclock.executor.intake.claims import Claims
from waterclock.executor.limits.admission import Gates
from waterclock.executor.limits.concurrency import Keys
from waterclock.executor.limits.leases import Fences
from waterclock.executor.limits.rate import Rates
from waterclock.executor.metrics import Tally


class Desk(Struct, frozen=True, kw_only=True):
    executor_id: str
    in_hand: InHand
    acks: Acks
    keep_alive: KeepAlive
    reporter: Reporter
    claims: Claims
    stops: Stops
    fences: Fences
    gates: Gates
    stop_grace: float
    """Seconds between TERM and KILL."""

    @classmethod
    def furnished(
        cls,
        settings: Settings,
        executor_id: str,
        *,
        connection: Connection,
        frames: FrameWriter,
        control: Bucket,
        in_hand: InHand,
        tally: Tally,
    ) -> "Desk":
        acks = Acks(connection)
        partitions = settings.partitions
        return cls(
            executor_id=executor_id,
            in_hand=in_hand,
            acks=acks,
            keep_alive=KeepAlive(
                in_hand,
                acks,
                ack_wait=settings.ack_wait_seconds,
                connected=lambda: connection.nc.is_connected,
            ),
            reporter=Reporter(frames, in_hand, tally, executor_id=executor_id, partitions=partitions),
            claims=Claims(connection, tally, executor_id=executor_id, partitions=partitions),
            stops=Stops(in_hand, grace=settings.stop_grace_seconds),
            fences=Fences(control, executor_id),
            gates=Gates(Keys(control, executor_id), Rates(control)),
            stop_grace=settings.stop_grace_seconds,
        )
