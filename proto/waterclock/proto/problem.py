"""How a refusal looks on the wire: one RFC 9457 document over REST and NATS alike."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

MEDIA_TYPE = "application/problem+json"


class FieldError(Struct, frozen=True, kw_only=True):
    """What is wrong with one field. `field` is its path in the request (`retry.factor`), or "" for the whole."""

    field: str
    reason: str


class Difference(Struct, frozen=True, kw_only=True):
    """One field in which a repeated request differs from what was accepted the first time."""

    field: str
    stored: Any = None
    given: Any = None


class Problem(Struct, frozen=True, kw_only=True):
    status: int
    title: str
    type: str = "about:blank"
    detail: str = ""
    errors: tuple[FieldError, ...] = ()
    differences: tuple[Difference, ...] | UnsetType = UNSET
    retry_after: float | UnsetType = UNSET
    """Seconds after which the same request may succeed."""
