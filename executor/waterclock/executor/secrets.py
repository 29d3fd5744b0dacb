"""The secrets that attempts are given: read and decrypted here, when an attempt starts, and masked in what it says.

A definition names them, and an attempt's definition keeps the names: the values are held beside it, so that nothing
that writes or logs a definition can show one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec

from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, LogUnavailable, NotAllowed
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.settings import SettingsError
from waterclock.core.runtime.tasks import supervised
from waterclock.core.store.secret_keys import Damaged, KeyMissing, SecretKeys
from waterclock.core.store.secrets import NoSuchSecret, SecretStore, StoredSecret, stored_of
from waterclock.executor.attempt_record import Failed, Result, Returned, Succeeded
from waterclock.executor.handler_exceptions import SecretMissing
from waterclock.executor.masking import SecretValues
from waterclock.proto import names
from waterclock.proto.policies import SecretRef, Value
from waterclock.proto.spec import JobSpec

_log = logging.getLogger(__name__)


class AttemptSecrets:
    """Those of one attempt, by name."""

    __slots__ = ("_by_name", "values")

    def __init__(self, spec: JobSpec) -> None:
        self._by_name: dict[str, str] = {}
        self.values = SecretValues(_named_in_clear(spec))

    def __repr__(self) -> str:
        return f"AttemptSecrets({', '.join(self._by_name)})"

    def add(self, name: str, value: str) -> None:
        self._by_name[name] = value
        self.values.add(value)

    def fill(self, values: Mapping[str, Value]) -> dict[str, str]:
        """Variables or headers with the values of the secrets they name."""
        return {
            name: self._by_name[value.secret] if isinstance(value, SecretRef) else value
            for name, value in values.items()
        }

    def masked(self, result: Result) -> Result:
        """How an attempt ended, without them."""
        if self.values.pattern is None:
            return result
        mask = self.values.mask
        if isinstance(result, Succeeded):
            return msgspec.structs.replace(result, output=self.values.mask_json(result.output))
        result = msgspec.structs.replace(result, reason=mask(result.reason))
        if isinstance(result, Failed):
            return msgspec.structs.replace(
                result,
                error_message=mask(result.error_message),
                error=mask(result.error),
                output=self.values.mask_json(result.output),
            )
        if hasattr(result, "error_message"):
            return msgspec.structs.replace(result, error_message=mask(result.error_message))
        return result


def secrets_named(spec: JobSpec) -> list[str]:
    """The secrets that a job's environment or headers name."""
    values = getattr(spec.task, "env", None) or getattr(spec.task, "headers", None)
    if not values:
        return []
    return list(dict.fromkeys(value.secret for value in values.values() if isinstance(value, SecretRef)))


def needs_secrets(spec: JobSpec) -> bool:
    return bool(spec.secrets) or bool(secrets_named(spec))


def _named_in_clear(spec: JobSpec) -> list[str]:
    """`secrets` of a job names variables of its environment, or headers, whose values stand there in clear."""
    if not spec.secrets:
        return []
    values = {**getattr(spec.task, "env", {}), **getattr(spec.task, "headers", {})}
    given = (values.get(name) for name in spec.secrets)
    return [value for value in given if isinstance(value, str)]


class SecretResolver:
    def __init__(self, store: SecretStore) -> None:
        self._store = store

    async def resolve(self, spec: JobSpec) -> AttemptSecrets | Result:
        """The secrets of an attempt; or the result of one that cannot have them."""
        secrets = AttemptSecrets(spec)
        for name in secrets_named(spec):
            try:
                secrets.add(name, await self._store.value(spec.namespace, name))
            except NoSuchSecret:
                return Failed(reason=missing(name, spec.namespace), error="SecretMissing", final=True)
            except (KeyMissing, Damaged, SettingsError) as error:
                return Failed(reason=unreadable(name, error), error="SecretUnreadable")
            except LogUnavailable as error:
                if isinstance(error, NotAllowed):
                    return Failed(reason=unreadable(name, error), error="SecretUnreadable")
                return Returned(reason=f"the secret {name} could not be asked for: {error}")
            except LogError as error:
                return Failed(reason=unreadable(name, error), error="SecretUnreadable")
        return secrets


_READ_ALL_SECONDS = 60.0
_STORED_WITHIN = 2.0


class SecretCache:
    """All secrets as they are now, encrypted, for handlers: those ask while they run, and cannot wait."""

    def __init__(self, connection: Connection, store: SecretStore, keys: SecretKeys) -> None:
        self._connection = connection
        self._store = store
        self._keys = keys
        self._bucket = Bucket(connection, Publisher(connection), names.SECRETS)
        self._known: dict[str, StoredSecret] = {}
        self._changed: set[str] = set()
        self._stale = False
        self._wake = asyncio.Event()
        self._problem = ""

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Where secrets cannot be read at all, handlers that need none go on.

        By single questions: an executor may make no consumer. What is published to the bucket is heard and counts at
        once; a moment later it is looked up, for it may have been refused. After a disconnection all is read again.
        """
        prefix = len(names.kv_subject(names.SECRETS, ""))

        def heard(subject: bytes, _reply: bytes, _header: bytes, data: bytes) -> None:
            key = subject.decode()[prefix:]
            self._note(key, Entry(key=key, value=data, revision=0) if data else None)
            self._changed.add(key)
            self._wake.set()

        def lost() -> None:
            self._stale = True
            self._wake.set()

        async with AsyncExitStack() as scope:
            try:
                end = await self._connection.nc.tap(names.kv_subject(names.SECRETS, ">"), heard)
                scope.callback(end)
                await self._read_all()
            except LogError as error:
                self._problem = str(error)
                _log.warning("handlers can read no secrets", extra={"reason": self._problem})
                yield
                return
            scope.callback(self._connection.on_reconnect(lost))
            tasks = await scope.enter_async_context(supervised())
            tasks.keep(self._read_on(), name="reader of secrets")
            yield

    def value(self, namespace: str, name: str) -> str:
        """Raises SecretMissing."""
        found = self._known.get(names.secret_key(namespace, name))
        if found is None:
            raise SecretMissing(
                unreadable(name, self._problem) if self._problem else missing(name, namespace)
            )
        try:
            try:
                return self._store.open(found, self._keys.keyring())
            except KeyMissing:
                return self._store.open(found, self._keys.read())
        except (KeyMissing, Damaged, SettingsError) as error:
            raise SecretMissing(unreadable(name, error)) from None

    async def _read_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_READ_ALL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(_STORED_WITHIN)
            changed, self._changed = self._changed, set()
            try:
                if self._stale or not changed:
                    await self._read_all()
                for key in changed:
                    self._note(key, await self._bucket.get(key))
            except LogError:
                self._stale = True
                self._changed |= changed

    async def _read_all(self) -> None:
        entries = {entry.key: entry for entry in await self._bucket.walk(">")}
        for key in [*self._known, *entries]:
            self._note(key, entries.get(key))
        self._stale = False

    def _note(self, key: str, entry: Entry | None) -> None:
        self._known.pop(key, None)
        if entry is not None:
            with suppress(Damaged):
                self._known[key] = stored_of(key, entry.value, entry.revision)


def missing(name: str, namespace: str) -> str:
    return f"the secret {name} is not set in the namespace {namespace}: set it with `waterclock secret set {name}`"


def unreadable(name: str, why: object) -> str:
    return (
        f"the secret {name} cannot be read by this executor: {why}; it needs secrets.key of the data directory,"
        " or the WATERCLOCK_SECRETS_KEY that the api has"
    )
