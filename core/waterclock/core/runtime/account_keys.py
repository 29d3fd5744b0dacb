"""The key of a NATS account (nkey): who holds its seed signs, and the server that knows its public half believes it.

`Issuer` writes the two documents (JWTs) that an auth callout is answered with.
"""

import base64
import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

Claims = Mapping[str, Any]

_HEAD = {"typ": "JWT", "alg": "ed25519-nkey"}


def new_issuer_seed() -> str:
    import nkeys  # not for every command: it takes a while to load

    return bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_ACCOUNT)).decode()


class Issuer:
    def __init__(self, seed: str) -> None:
        import nkeys

        self._key = nkeys.from_seed(bytearray(seed.encode()))
        self.public_key = bytes(self._key.public_key).decode()

    def sign(self, claims: Claims) -> str:
        body = {**claims, "iss": self.public_key, "iat": int(time.time())}
        body["jti"] = base64.b32encode(hashlib.sha256(_compact(body)).digest()).decode().rstrip("=")
        text = f"{_base64(_compact(_HEAD))}.{_base64(_compact(body))}"
        return f"{text}.{_base64(bytes(self._key.sign(text.encode())))}"


def claims_of(token: bytes) -> dict[str, Any]:
    """What a JWT says. Its signature is not looked at: this one came from the server, over our own connection."""
    _, body, _ = token.split(b".")
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
    return found


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
