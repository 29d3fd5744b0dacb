"""What our processes keep to themselves: their memory, their environment, and what a component does not need at all."""

import ctypes
import os
import sys

import msgspec

from waterclock.core.runtime.settings import Settings, environment_variable

_PR_SET_DUMPABLE = 4

_ALERTS = ("alert_secret", "alert_routing_key")
_NOT_NEEDED = {
    "scheduler": ("token", "nats_issuer_seed", "database_url", "secrets_key", *_ALERTS),
    "executor": ("token", "nats_issuer_seed", "database_url", *_ALERTS),
    "projector": ("token", "nats_issuer_seed", "secrets_key"),
    "api": _ALERTS,
}
"""Settings with a secret that a component has no use for. What it does not have, nobody can take from it."""
_WITHOUT_STORE = ("projector",)
_DEFAULTS = Settings()
_SETTINGS = frozenset(environment_variable(name) for name in Settings.__struct_fields__)


def close_to_inspection() -> None:
    """Memory, environment and open files of this process cannot be read by others of the same user, as jobs may be."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def needed_by(component: str, settings: Settings) -> Settings:
    without = {name: getattr(_DEFAULTS, name) for name in _NOT_NEEDED.get(component, ())}
    return msgspec.structs.replace(settings, **without)


def environment_for(component: str) -> dict[str, str]:
    """Our own variables as far as they are a component's business: not our settings, which it is given otherwise."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _SETTINGS and not (component in _WITHOUT_STORE and name.startswith("AWS_"))
    }


def forget_secrets(component: str) -> None:
    """Out of the environment that handlers, and whatever they start, would find them in."""
    for name in _NOT_NEEDED.get(component, ()):
        os.environ.pop(environment_variable(name), None)
