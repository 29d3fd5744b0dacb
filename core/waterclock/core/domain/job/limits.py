"""How much a definition may weigh."""

from msgspec import Struct


class DefinitionLimits(Struct, frozen=True, kw_only=True):
    payload_bytes: int = 1 << 20
    body_bytes: int = 2 << 20
    """A whole definition: payload, metadata, nodes and all. The log must take it as one message."""
    depth: int = 64


DEFAULT_LIMITS = DefinitionLimits()
