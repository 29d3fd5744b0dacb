"""Who may do what: making and revoking tokens, and what namespaces may hold."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Forbidden, NotFound
from waterclock.api.queries.access import token_answer
from waterclock.api.registry import handles
from waterclock.proto import methods
from waterclock.proto.answers import Namespace, Token
from waterclock.proto.commands import QuotaRequest, TokenRef, TokenRequest


@handles(methods.TOKENS_CREATE)
async def create(app: Application, request: TokenRequest, caller: Caller) -> Token:
    if not caller.sees(request.namespace):
        raise Forbidden.field("namespace", f"your token is for {caller.namespace}")
    grant, secret = await app.tokens.make(request, caller.actor)
    return token_answer(grant, secret)


@handles(methods.TOKENS_REVOKE)
async def revoke(app: Application, request: TokenRef, caller: Caller) -> Token:
    known = [grant for grant in app.tokens.all() if grant.token_id == request.token_id]
    if not known or not caller.sees(known[0].namespace):
        raise NotFound.because(f"there is no token {request.token_id}")
    await app.tokens.revoke(request.token_id)
    return token_answer(known[0])


@handles(methods.NAMESPACES_LIMIT)
async def limit(app: Application, request: QuotaRequest, caller: Caller) -> Namespace:
    if not caller.everywhere:
        raise Forbidden.because("a namespace does not set its own quota")
    return await app.quotas.set(request.namespace, request.max_jobs)
