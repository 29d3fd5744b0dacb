"""Looking at tokens and namespaces: an administrator of the default namespace sees all, others their own."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.tokens import Grant
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.proto import methods
from waterclock.proto.answers import Namespace, Page, Token
from waterclock.proto.queries import Nothing


@handles(methods.TOKENS_LIST)
async def list_tokens(app: Application, request: Nothing, caller: Caller) -> Page[Token]:
    return Page(items=[token_answer(grant) for grant in app.tokens.all() if caller.sees(grant.namespace)])


@handles(methods.NAMESPACES_LIST)
async def list_namespaces(app: Application, request: Nothing, caller: Caller) -> Page[Namespace]:
    return Page(items=[found for found in await app.quotas.all() if caller.sees(found.namespace)])


def token_answer(grant: Grant, secret: str | None = None) -> Token:
    return Token(
        token_id=grant.token_id,
        scopes=grant.scopes,
        namespace=grant.namespace,
        note=grant.note,
        rate_per_second=grant.rate_per_second,
        created_at=datetime_of(grant.created_at),
        expires_at=None if grant.expires_at is None else datetime_of(grant.expires_at),
        token=secret,
    )
