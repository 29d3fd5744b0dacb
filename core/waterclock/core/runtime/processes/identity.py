"""Postgres refuses to run as root. Who it runs as then, and how that user reaches the files it needs."""

import ctypes
import os
import pwd
import sys
from pathlib import Path

import msgspec

_CANDIDATES = ("postgres", "nobody")

_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    uid: int
    gid: int
    name: str


def unprivileged() -> Identity | None:
    """The user to run a server as that refuses root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Identity(uid=entry.pw_uid, gid=entry.pw_gid, name=name)
    raise OSError(f"root may not run Postgres, and no user {' or '.join(_CANDIDATES)} exists to run it as")


def hand_over(path: Path, identity: Identity | None) -> None:
    if identity is not None:
        os.chown(path, identity.uid, identity.gid)


def become(identity: Identity) -> None:
    """Turn this (just forked) process into `identity`, still able to reach what root can.

    The clone, the virtual environment and the data may lie below a directory closed to others, such as /root.
    Keeping one capability across exec opens them to this process alone; a wider mode would open them to all.
    """
    os.setgroups([])
    os.setgid(identity.gid)
    if sys.platform != "linux":
        os.setuid(identity.uid)
        return
    # Without the fix-up the change of user keeps capabilities, and access(2), which initdb asks, heeds them.
    _libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setuid(identity.uid)
    # The first lets it read, no more; but containers commonly withhold that one.
    if not _keep_only(_CAP_DAC_READ_SEARCH):
        _keep_only(_CAP_DAC_OVERRIDE)


def _keep_only(capability: int) -> bool:
    bit = 1 << capability
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    kept: int = _libc.capset(header, effective_permitted_inheritable)
    return kept == 0 and _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0
