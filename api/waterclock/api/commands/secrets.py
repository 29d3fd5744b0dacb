"""Secrets: set, deleted, and encrypted with a new key. Nothing here answers or records a value."""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Forbidden, Invalid, NotFound, Unavailable
from waterclock.api.queries.secrets import secret_answer
from waterclock.api.registry import handles
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.settings import SettingsError
from waterclock.core.store.secret_keys import Damaged, KeyMissing
from waterclock.core.store.secrets import StoredSecret
from waterclock.proto import methods
from waterclock.proto.answers import KeyRotation, Secret
from waterclock.proto.commands import DeleteSecret, SetSecret
from waterclock.proto.queries import Nothing

_NO_KEY = (
    "this api has no key to encrypt secrets with: `waterclock up` makes one in its data directory, elsewhere set"
    " WATERCLOCK_SECRETS_KEY for every api and executor (`openssl rand -base64 32`)"
)


@handles(methods.SECRETS_SET)
async def set_secret(app: Application, request: SetSecret, caller: Caller) -> Secret:
    if len(request.value.encode(errors="surrogatepass")) > 65_536:
        raise Invalid.field("value", "has more than 65536 bytes")
    try:
        app.secret_keys.read().current  # noqa: B018 - before anything is recorded
        async with app.access_log.change(caller, "secret.set", request.name, caller.namespace):
            record = await app.secrets.set(
                caller.namespace, request.name, request.value, actor=caller.actor, now=now_us()
            )
    except (KeyMissing, SettingsError):
        raise Unavailable.because(_NO_KEY) from None
    stored = StoredSecret(namespace=caller.namespace, name=request.name, record=record, revision=0)
    return secret_answer(stored)


@handles(methods.SECRETS_DELETE)
async def delete(app: Application, request: DeleteSecret, caller: Caller) -> Secret:
    if await app.secrets.get(caller.namespace, request.name) is None:
        raise NotFound.because(f"there is no secret {request.name}")
    async with app.access_log.change(caller, "secret.deleted", request.name, caller.namespace):
        deleted = await app.secrets.delete(caller.namespace, request.name)
    if deleted is None:
        raise NotFound.because(f"there is no secret {request.name}")
    return secret_answer(deleted)


@handles(methods.SECRETS_ROTATE_KEY)
async def rotate_key(app: Application, request: Nothing, caller: Caller) -> KeyRotation:
    """A new key where the key is in our file; where it is given by the environment, the first of those given.

    A rotation that was cut short is gone on with: only when every secret has the newest key is there another.
    """
    if not caller.everywhere:
        raise Forbidden.because(
            "the key is everybody's: an administrator of the default namespace changes it"
        )
    try:
        keyring = app.secret_keys.read()
        async with app.access_log.change(caller, "secret.key_rotated", "secrets", caller.namespace):
            behind = [one for one in await app.secrets.list() if one.record.key_id != keyring.current]
            if not app.secret_keys.from_environment and not behind:
                keyring = app.secret_keys.add()
            done = await app.secrets.encrypt_anew(keyring)
            if not app.secret_keys.from_environment:
                used = {one.record.key_id for one in await app.secrets.list()}
                keyring = app.secret_keys.prune(used)
    except (KeyMissing, SettingsError) as error:
        reason = _NO_KEY if isinstance(error, SettingsError) or "no key" in str(error) else str(error)
        raise Unavailable.because(reason) from None
    except OSError as error:
        raise Unavailable.because(f"the key cannot be written: {error}") from None
    except Damaged as error:
        raise Unavailable.because(f"a secret cannot be read, set it again or delete it: {error}") from None
    return KeyRotation(
        key_id=done.key_id,
        encrypted=done.encrypted,
        secrets=done.total,
        former_keys=tuple(key for key in keyring.ids if key != done.key_id),
    )
