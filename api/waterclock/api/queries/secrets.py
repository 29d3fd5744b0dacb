"""Looking at secrets: that they are there, never what they are."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.core.store.secrets import StoredSecret
from waterclock.proto import methods
from waterclock.proto.answers import Page, Secret
from waterclock.proto.queries import Nothing


@handles(methods.SECRETS_LIST)
async def list_secrets(app: Application, request: Nothing, caller: Caller) -> Page[Secret]:
    return Page(items=[secret_answer(found) for found in await app.secrets.list(caller.namespace)])


def secret_answer(secret: StoredSecret) -> Secret:
    record = secret.record
    return Secret(
        name=secret.name,
        version=record.version,
        updated_at=datetime_of(record.updated_at),
        actor=record.actor,
    )
