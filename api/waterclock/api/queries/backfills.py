"""Looking at backfills: what was asked is kept in the control bucket, and how far it is comes from the read models."""

import re
from typing import Literal

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import NotFound
from waterclock.api.readmodels.runs import BackfillProgress, backfill_progress
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.core.runtime.quarantine import read_record
from waterclock.proto import methods
from waterclock.proto.answers import Backfill, Page
from waterclock.proto.codec import decoder
from waterclock.proto.events import Instant
from waterclock.proto.queries import BackfillRef, BackfillsQuery

_FIRES_SHOWN = 1000
_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_~=-]{0,255}@backfill-[a-z0-9]{1,40}$")

BackfillState = Literal["RUNNING", "PAUSED", "CANCELLED"]


class StoredBackfill(Struct, frozen=True, kw_only=True):
    """A backfill as the control bucket keeps it."""

    backfill_id: str
    job_id: str
    start: Instant
    end: Instant
    max_active: int
    fires: tuple[Instant, ...]
    at: Instant
    state: BackfillState = "RUNNING"


_decode = decoder(StoredBackfill)


@handles(methods.BACKFILLS_LIST)
async def list_backfills(app: Application, request: BackfillsQuery, caller: Caller) -> Page[Backfill]:
    entries = await app.control.scan(backfill_key(caller.namespace, "*"))
    found = [read_record(_decode, app.control.stream, entry, None) for entry in entries]
    kept = [one for one in found if one is not None and request.job_id in (None, one.job_id)]
    kept.sort(key=lambda backfill: backfill.at, reverse=True)
    return Page(items=[await with_progress(app, backfill) for backfill in kept])


@handles(methods.BACKFILLS_GET)
async def get(app: Application, request: BackfillRef, caller: Caller) -> Backfill:
    await app.freshness.of_runs(app.partition_of(request.backfill_id))
    return await with_progress(app, await find(app, request.backfill_id, caller))


async def find(app: Application, backfill_id: str, caller: Caller) -> StoredBackfill:
    key = backfill_key(caller.namespace, backfill_id)
    entry = await app.control.get(key) if _ID.match(backfill_id) else None
    found = None if entry is None else read_record(_decode, app.control.stream, entry, None)
    if found is None:
        raise NotFound.because(f"there is no backfill {backfill_id}")
    return found


async def with_progress(app: Application, backfill: StoredBackfill) -> Backfill:
    return backfill_answer(backfill, await backfill_progress(app.pool, backfill.backfill_id))


def backfill_answer(backfill: StoredBackfill, progress: BackfillProgress) -> Backfill:
    over = progress.done + progress.failed >= len(backfill.fires)
    return Backfill(
        backfill_id=backfill.backfill_id,
        job_id=backfill.job_id,
        status="COMPLETED" if over else backfill.state,
        start=datetime_of(backfill.start),
        end=datetime_of(backfill.end),
        max_active=backfill.max_active,
        total=len(backfill.fires),
        done=progress.done,
        failed=progress.failed,
        active=progress.active,
        fires=[datetime_of(fire) for fire in backfill.fires[:_FIRES_SHOWN]],
        created_at=datetime_of(backfill.at),
    )


def backfill_key(namespace: str, backfill_id: str) -> str:
    return f"backfill.{namespace}.{backfill_id}"
