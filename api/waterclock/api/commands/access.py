"""Who may do what: making and revoking tokens, and what namespaces may hold."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import DEFAULT
from waterclock.api.auth.tokens import new_token_id
from waterclock.api.errors import Conflict, Forbidden, NotFound
from waterclock.api.queries.access import token_answer
from waterclock.api.registry import handles
from waterclock.core.runtime.data_directory import BOOTSTRAP
from waterclock.proto import methods
from waterclock.proto.answers import Namespace, Token
from waterclock.proto.commands import QuotaRequest, TokenRef, TokenRequest


@handles(methods.TOKENS_CREATE)
async def create(app: Application, request: TokenRequest, caller: Caller) -> Token:
    if not caller.sees(request.namespace):
        raise Forbidden.field("namespace", f"your token is for {caller.namespace}")
    if "execute" in request.scopes and not caller.everywhere:
        raise Forbidden.field(
            "scopes", "queues are for all namespaces: only their administrator gives them away"
        )
    detail = f"{','.join(sorted(set(request.scopes)))} {request.note}".strip()
    token_id = new_token_id()
    async with app.access_log.change(caller, "token.created", token_id, request.namespace, detail):
        grant, secret = await app.tokens.make(request, caller.actor, token_id)
    return token_answer(grant, secret)


@handles(methods.TOKENS_REVOKE)
async def revoke(app: Application, request: TokenRef, caller: Caller) -> Token:
    if request.token_id == BOOTSTRAP:
        return await _revoke_bootstrap(app, caller)
    known = [grant for grant in app.tokens.all() if grant.token_id == request.token_id]
    if not known or not caller.sees(known[0].namespace):
        raise NotFound.because(f"there is no token {request.token_id}")
    grant = known[0]
    async with app.access_log.change(caller, "token.revoked", grant.token_id, grant.namespace, grant.note):
        await app.tokens.revoke(request.token_id)
    return token_answer(known[0])


async def _revoke_bootstrap(app: Application, caller: Caller) -> Token:
    """The token of connection.json or WATERCLOCK_TOKEN, for good: it does not come back when the api starts again."""
    token = app.settings.token
    if not caller.everywhere or token is None or app.tokens.is_revoked(token):
        raise NotFound.because(f"there is no token {BOOTSTRAP}")
    if (grant := app.tokens.grant_of(token)) is not None:
        raise Conflict.because(f"the token that settings give is {grant.token_id}: revoke that")
    if not any("admin" in grant.scopes and grant.namespace == DEFAULT for grant in app.tokens.all()):
        raise Conflict.because(
            "it is the only administrator's token: make another one first, or use `waterclock token rotate-admin`"
        )
    async with app.access_log.change(caller, "token.revoked", BOOTSTRAP, DEFAULT):
        return token_answer(await app.tokens.revoke_given(token, caller.actor))


@handles(methods.NAMESPACES_LIMIT)
async def limit(app: Application, request: QuotaRequest, caller: Caller) -> Namespace:
    if not caller.everywhere:
        raise Forbidden.because("a namespace does not set its own quota")
    said = {name: getattr(request, name) for name in request.__struct_fields__ if name != "namespace"}
    limits = ", ".join(f"{name} {value}" for name, value in said.items() if value is not None) or "no limit"
    async with app.access_log.change(caller, "quota.set", request.namespace, request.namespace, limits):
        return await app.quotas.set(request)
