"""The keys that secrets are encrypted with: in a file of mode 0600 in the data directory, or `WATERCLOCK_SECRETS_KEY`.

Both hold one key or several, 32 bytes each in base64. The first encrypts; all of them decrypt, so that a new key can
come into use while secrets of the one before are still there. A key's id is made from the key, and stands with
everything that it encrypted.
"""

import fcntl
import hashlib
import os
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager

from waterclock.core.runtime.data_directory import write_private
from waterclock.core.runtime.settings import Settings, SettingsError, environment_variable

FILE = "secrets.key"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class KeyMissing(Exception):
    """There is no key, or not the one that something was encrypted with."""


class Damaged(Exception):
    """The key is there and does not open it: it was changed, or belongs to another name."""


class Keyring:
    """The first key encrypts, each of them decrypts what it has encrypted."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {key_id(key): key for key in keys}

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._keys)

    @property
    def current(self) -> str:
        if not self._keys:
            raise KeyMissing("there is no key to encrypt secrets with")
        return next(iter(self._keys))

    def encrypt(self, text: str, about: bytes) -> tuple[str, bytes]:
        """The key's id and the encrypted text, which can only be read `about` the same thing."""
        # Loading it takes a moment, and most programs have no secret to deal with.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_BYTES)
        return self.current, nonce + AESGCM(self._keys[self.current]).encrypt(nonce, text.encode(), about)

    def decrypt(self, key: str, encrypted: bytes, about: bytes) -> str:
        """Raises KeyMissing or Damaged."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if key not in self._keys:
            raise KeyMissing(f"it is encrypted with the key {key}, which is not here")
        nonce, rest = encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:]
        try:
            return AESGCM(self._keys[key]).decrypt(nonce, rest, about).decode()
        except (InvalidTag, ValueError):
            raise Damaged("it is damaged, or not what it is called") from None


class SecretKeys:
    """Where the keys of an installation are. The environment wins over the file."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.secrets_key
        self._file = settings.data.absolute() / FILE
        self._known: Keyring | None = None

    @property
    def from_environment(self) -> bool:
        return self._given is not None

    def keyring(self) -> Keyring:
        """As it was read last; without keys if there are none."""
        return self._known or self.read()

    def read(self) -> Keyring:
        """As it is now: somebody may have added a key."""
        text, where = self._given, environment_variable("secrets_key")
        if text is None:
            where = str(self._file)
            try:
                text = self._file.read_text()
            except FileNotFoundError:
                text = ""
            except OSError as error:
                raise KeyMissing(f"{where} cannot be read: {error.strerror}") from None
        self._known = Keyring(parse_keys(text, where))
        return self._known

    def ensure(self) -> None:
        """Make the file with a first key, unless there is one, or the environment has it."""
        if self._given is None:
            with self._locked():
                if not self._file.exists():
                    self._write([new_key()])

    def add(self) -> Keyring:
        """A new key that encrypts from now on. Those before stay, to decrypt."""
        with self._locked():
            self._write([new_key(), *self._read_file()])
        return self.read()

    def prune(self, used: Container[str]) -> Keyring:
        """Forget the keys that nothing is encrypted with, but for the one before the current: somebody may be about to
        write what it has just encrypted with that."""
        with self._locked():
            keys = self._read_file()
            self._write([key for place, key in enumerate(keys) if place < 2 or key_id(key) in used])
        return self.read()

    def _read_file(self) -> list[bytes]:
        return parse_keys(self._file.read_text() if self._file.exists() else "", str(self._file))

    def _write(self, keys: Iterable[bytes]) -> None:
        write_private(self._file, _spelled(keys), durable=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Several apis may share a directory: a key that one of them has just made must not be lost."""
        lock = os.open(self._file.with_name(f"{FILE}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def new_key() -> bytes:
    return os.urandom(_KEY_BYTES)


def key_id(key: bytes) -> str:
    return hashlib.sha256(b"waterclock secrets key\0" + key).hexdigest()[:12]


def parse_keys(text: str, where: str) -> list[bytes]:
    """Keys separated by commas or lines. What is wrong is told without showing any of it."""
    found = []
    for word in re.split(r"[\s,]+", text.strip()):
        if not word:
            continue
        try:
            key = urlsafe_b64decode(word.replace("+", "-").replace("/", "_") + "=" * (-len(word) % 4))
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise SettingsError(
                "secrets_key", "32 bytes in base64, as of `openssl rand -base64 32`", word, where
            )
        found.append(key)
    return found


def _spelled(keys: Iterable[bytes]) -> str:
    return "".join(f"{urlsafe_b64encode(key).decode()}\n" for key in keys)
