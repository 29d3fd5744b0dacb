"""Proof of origin: HMAC-SHA256 over `<timestamp>.<body>`, with the name of the key so that keys can be changed.

A receiver calls `verify` with the header values and the body as it came, byte for byte.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256

KEY_ID = "Waterclock-Key-Id"
TIMESTAMP = "Waterclock-Timestamp"
SIGNATURE = "Waterclock-Signature"
WINDOW_SECONDS = 300
"""How old a call may be: what was overheard cannot be repeated later."""
_LONGEST_TIME = 12


def signed(body: bytes, *, secret: str, key_id: str, now: int) -> dict[str, str]:
    """Headers for a call at `now`, in seconds since the epoch."""
    return {KEY_ID: key_id, TIMESTAMP: str(now), SIGNATURE: f"v1={_digest(secret, str(now), body)}"}


def verify(
    body: bytes, *, key_id: str, timestamp: str, signature: str, secrets: Mapping[str, str], now: int
) -> bool:
    """Whether a call comes from who has the secret of that key, unchanged and just now."""
    secret = secrets.get(key_id)
    if (
        secret is None
        or not (timestamp.isascii() and timestamp.isdecimal())
        or len(timestamp) > _LONGEST_TIME
    ):
        return False
    if abs(now - int(timestamp)) > WINDOW_SECONDS or not signature.isascii():
        return False
    return hmac.compare_digest(signature, f"v1={_digest(secret, timestamp, body)}")


def _digest(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, sha256).hexdigest()
