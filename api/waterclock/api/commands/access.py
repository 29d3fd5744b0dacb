"""Who may do what: tokens, and what namespaces may hold."""

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.auth.tokens import Grant
from waterclock.api.errors import Forbidden, NotFound
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.proto import methods
from waterclock.proto.answers import Namespace, Page, Token
from waterclock.proto.commands import QuotaRequest, TokenRef, TokenRequest
from waterclock.proto.queries import Nothing


@handles(methods.TOKENS_CREATE)
async def create(app: Application, request: TokenRequest, caller: Caller) -> Token:
    _reaches(caller, request.namespace)
    grant, secret = await app.tokens.make(request, caller.actor)
    return _shown(grant, secret)


@handles(methods.TOKENS_LIST)
async def list_tokens(app: Application, request: Nothing, caller: Caller) -> Page[Token]:
    return Page(items=[_shown(grant) for grant in app.tokens.all() if _sees(caller, grant.namespace)])


@handles(methods.TOKENS_REVOKE)
async def revoke(app: Application, request: TokenRef, caller: Caller) -> Token:
    known = [grant for grant in app.tokens.all() if grant.token_id == request.token_id]
    if not known or not _sees(caller, known[0].namespace):
        raise NotFound.because(f"there is no token {request.token_id}")
    await app.tokens.revoke(request.token_id)
    return _shown(known[0])


@handles(methods.NAMESPACES_LIST)
async def list_namespaces(app: Application, request: Nothing, caller: Caller) -> Page[Namespace]:
    return Page(items=[one for one in await app.quotas.all() if _sees(caller, one.namespace)])


@handles(methods.NAMESPACES_LIMIT)
async def limit(app: Application, request: QuotaRequest, caller: Caller) -> Namespace:
    if not caller.everywhere:
        raise Forbidden.because("a namespace does not set its own quota")
    return await app.quotas.set(request.namespace, request.max_jobs)


def _reaches(caller: Caller, namespace: str) -> None:
    if not _sees(caller, namespace):
        raise Forbidden.field("namespace", f"your token is for {caller.namespace}")


def _sees(caller: Caller, namespace: str) -> bool:
    return caller.everywhere or caller.namespace == namespace


def _shown(grant: Grant, secret: str | None = None) -> Token:
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
