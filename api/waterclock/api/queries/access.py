"""Looking at tokens, namespaces and who changed them: an administrator of the default namespace sees all, others their
own."""

from waterclock.api.application import Application
from waterclock.api.auth.access_log import AccessEvent
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.tokens import Grant
from waterclock.api.errors import Forbidden, Invalid
from waterclock.api.readmodels.paging import decode_cursor, encode_cursor
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.runtime.data_directory import inbox_of
from waterclock.proto import methods
from waterclock.proto.answers import AccessRecord, Identity, Namespace, Page, Token
from waterclock.proto.names import is_user_id
from waterclock.proto.queries import AccessQuery, Nothing


@handles(methods.TOKENS_LIST)
async def list_tokens(app: Application, request: Nothing, caller: Caller) -> Page[Token]:
    return Page(items=[token_answer(grant) for grant in app.tokens.all() if caller.sees(grant.namespace)])


@handles(methods.NAMESPACES_LIST)
async def list_namespaces(app: Application, request: Nothing, caller: Caller) -> Page[Namespace]:
    return Page(items=[found for found in await app.quotas.all() if caller.sees(found.namespace)])


@handles(methods.WHOAMI)
async def whoami(app: Application, request: Nothing, caller: Caller) -> Identity:
    token_id = caller.actor.removeprefix("token:")
    grant = app.tokens.grant_with_id(token_id)
    over = None if grant is None else grant.expires_at
    return Identity(
        actor=caller.actor,
        namespace=caller.namespace,
        scopes=tuple(sorted(caller.scopes)),
        expires_at=None if over is None else datetime_of(over),
        nats_inbox=inbox_of(token_id),
    )


def token_answer(grant: Grant, secret: str | None = None) -> Token:
    return Token(
        token_id=grant.token_id,
        scopes=grant.scopes,
        namespace=grant.namespace,
        note=grant.note,
        rate_per_second=grant.rate_per_second,
        created_at=datetime_of(grant.created_at),
        expires_at=None if grant.expires_at is None else datetime_of(grant.expires_at),
        queues=grant.queues if "execute" in grant.scopes else (),
        handlers=grant.handlers,
        nats_inbox=inbox_of(grant.token_id),
        token=secret,
    )


@handles(methods.AUDIT_ACCESS)
async def who_did_what(app: Application, request: AccessQuery, caller: Caller) -> Page[AccessRecord]:
    namespace = request.namespace if caller.everywhere else caller.namespace
    if request.namespace not in (None, namespace):
        raise Forbidden.field("namespace", f"your token is for {caller.namespace}")
    if namespace is not None and not is_user_id(namespace):
        raise Invalid.field("namespace", "is not the name of a namespace")
    before = None if request.cursor is None else decode_cursor(request.cursor, tuple[int])[0]
    since = None if request.after is None else instant_of(request.after)
    until = None if request.before is None else instant_of(request.before)
    items: list[AccessRecord] = []
    last = 0
    async for recorded in app.access_log.read(namespace, before, since):
        event = recorded.event
        if (
            (request.action is not None and event.action != request.action)
            or (
                request.actor is not None
                and event.actor.removeprefix("token:") != request.actor.removeprefix("token:")
            )
            or (until is not None and event.at >= until)
        ):
            continue
        if len(items) == request.limit:
            return Page(items=items, next_cursor=encode_cursor((last,)))
        last = recorded.sequence
        items.append(_access_record(event))
    return Page(items=items)


def _access_record(event: AccessEvent) -> AccessRecord:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return AccessRecord(**{**fields, "at": datetime_of(event.at)})
