"""Records that nobody could read. They may be of any namespace, so they are for who administers all of them."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Forbidden, NotFound
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.core.jetstream.quarantined import drop, quarantined
from waterclock.proto import methods
from waterclock.proto.answers import Page, Quarantined
from waterclock.proto.queries import Nothing, QuarantineRef
from waterclock.proto.work import QuarantinedRecord


@handles(methods.QUARANTINE_LIST)
async def list_records(app: Application, request: Nothing, caller: Caller) -> Page[Quarantined]:
    _check(caller)
    return Page(items=[_answer(record) for record in await quarantined(app.connection)])


@handles(methods.QUARANTINE_SHOW)
async def show(app: Application, request: QuarantineRef, caller: Caller) -> Quarantined:
    return _answer((await _find(app, request.record_id, caller))[0], whole=True)


@handles(methods.QUARANTINE_DROP)
async def drop_record(app: Application, request: QuarantineRef, caller: Caller) -> Quarantined:
    found = await _find(app, request.record_id, caller)
    for record in found:
        await drop(app.publisher, record)
    return _answer(found[0])


async def _find(app: Application, record_id: str, caller: Caller) -> list[QuarantinedRecord]:
    """The same record as each component has found it."""
    _check(caller)
    found = [record for record in await quarantined(app.connection) if _id_of(record) == record_id]
    if not found:
        raise NotFound.because(f"there is no {record_id} in quarantine")
    return found


def _check(caller: Caller) -> None:
    if not caller.everywhere:
        raise Forbidden.because(
            "what cannot be read may be of any namespace: only their administrator sees it"
        )


def _id_of(record: QuarantinedRecord) -> str:
    return f"{record.stream}.{record.sequence}"


def _answer(record: QuarantinedRecord, *, whole: bool = False) -> Quarantined:
    return Quarantined(
        record_id=_id_of(record),
        component=record.component,
        subject=record.subject,
        at=datetime_of(record.at),
        error=record.error,
        size=record.size,
        data=record.data.decode(errors="replace").replace("\0", "\ufffd") if whole else None,
    )
