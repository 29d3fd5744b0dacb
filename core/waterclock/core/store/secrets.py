"""Secrets by name, encrypted: a bucket that holds nothing else.

A record can only be read as what it is: namespace, name and version are part of what the key signs, so that whoever can
write to the bucket cannot pass one secret off as another.
"""

from contextlib import suppress

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.bucket import Bucket, Entry
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.store.secret_keys import Damaged, KeyMissing, Keyring, SecretKeys
from waterclock.proto import names
from waterclock.proto.events import Instant

_TRIES = 5


class NoSuchSecret(Exception):
    pass


class Record(Struct, frozen=True, kw_only=True):
    """As the bucket holds it."""

    version: int
    updated_at: Instant
    actor: str
    key_id: str
    encrypted: bytes


class StoredSecret(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    record: Record
    revision: int


class Reencrypted(Struct, frozen=True, kw_only=True):
    key_id: str
    encrypted: int
    total: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class SecretStore:
    def __init__(self, bucket: Bucket, keys: SecretKeys) -> None:
        self._bucket = bucket
        self._keys = keys

    async def set(self, namespace: str, name: str, value: str, *, actor: str, now: Instant) -> Record:
        """Raises KeyMissing."""
        key = names.secret_key(namespace, name)
        for _ in range(_TRIES):
            entry = await self._bucket.get(key)
            version = 1 if entry is None else _version(entry) + 1
            key_id, encrypted = self._keys.read().encrypt(value, _about(namespace, name, version))
            record = Record(version=version, updated_at=now, actor=actor, key_id=key_id, encrypted=encrypted)
            try:
                if entry is None:
                    await self._bucket.create(key, _encode(record))
                else:
                    await self._bucket.update(key, _encode(record), entry.revision)
            except Conflict:
                continue
            if self._keys.read().current == key_id:
                return record
            # Another key came into use meanwhile: ours may be forgotten soon.
        raise Conflict(f"the secret {name} keeps changing")

    async def get(self, namespace: str, name: str) -> StoredSecret | None:
        entry = await self._bucket.get(names.secret_key(namespace, name))
        return None if entry is None else _stored(entry)

    async def list(self, namespace: str = "*") -> list[StoredSecret]:
        found = []
        for entry in await self._bucket.scan(names.secret_key(namespace, "*")):
            with suppress(Damaged):
                found.append(_stored(entry))
        return sorted(found, key=lambda secret: (secret.namespace, secret.name))

    async def delete(self, namespace: str, name: str) -> StoredSecret | None:
        """What was deleted; None if there was none."""
        found = await self.get(namespace, name)
        if found is not None:
            await self._bucket.delete(names.secret_key(namespace, name))
        return found

    async def value(self, namespace: str, name: str) -> str:
        """Raises NoSuchSecret, KeyMissing or Damaged."""
        found = await self.get(namespace, name)
        if found is None:
            raise NoSuchSecret(name)
        try:
            return self.open(found, self._keys.keyring())
        except KeyMissing:
            # A new key came into use since we read ours, or while we did.
            again = await self.get(namespace, name) or found
            return self.open(again, self._keys.read())

    def open(self, secret: StoredSecret, keyring: Keyring) -> str:
        record = secret.record
        about = _about(secret.namespace, secret.name, record.version)
        return keyring.decrypt(record.key_id, record.encrypted, about)

    async def encrypt_anew(self, keyring: Keyring) -> Reencrypted:
        """Everything that is not encrypted with the current key. Done again it goes on where it was stopped.

        Who sets a secret meanwhile wins: theirs is the newer one, and they have read the new key before.
        """
        total = changed = 0
        for secret in await self.list():
            total += 1
            if secret.record.key_id == keyring.current:
                continue
            about = _about(secret.namespace, secret.name, secret.record.version)
            key_id, encrypted = keyring.encrypt(self.open(secret, keyring), about)
            record = msgspec.structs.replace(secret.record, key_id=key_id, encrypted=encrypted)
            try:
                key = names.secret_key(secret.namespace, secret.name)
                await self._bucket.update(key, _encode(record), secret.revision)
                changed += 1
            except Conflict:
                continue
        return Reencrypted(key_id=keyring.current, encrypted=changed, total=total)


def stored_of(key: str, value: bytes, revision: int) -> StoredSecret:
    """Raises Damaged for what is no record of ours."""
    namespace, _, name = key.partition(".")
    try:
        record = _decode(value)
    except (ValueError, RecursionError):
        raise Damaged("it is no record of a secret") from None
    return StoredSecret(namespace=namespace, name=name, record=record, revision=revision)


def _version(entry: Entry) -> int:
    """What cannot be read is replaced like any other."""
    try:
        return _stored(entry).record.version
    except Damaged:
        return 0


def _stored(entry: Entry) -> StoredSecret:
    return stored_of(entry.key, entry.value, entry.revision)


def _about(namespace: str, name: str, version: int) -> bytes:
    return f"waterclock secret\0{namespace}\0{name}\0{version}".encode()
