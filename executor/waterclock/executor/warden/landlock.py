"""Landlock: a process gives up all files but those below one directory, and the network, for itself and for good."""

import ctypes
import os

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_READ_FILE, _READ_DIR, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 7, 1 << 8, 1 << 12
_TRUNCATE = 1 << 14
_INSIDE = (
    _READ_FILE | _READ_DIR | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM
)
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights there are to files, by version."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("directory", ctypes.c_int32))


def version() -> int:
    """0: this machine has no Landlock."""
    found: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    return max(0, found)


def fence(directory: int) -> bool:
    """From now on this process reaches nothing but what is below the directory, and what it has open already. Returns
    whether it is so. Needs `no_new_privs`."""
    if (have := version()) == 0:
        return False
    rights = (1 << _FILE_RIGHTS.get(have, 16)) - 1
    wanted = _Ruleset(rights, 3 if have >= 4 else 0)
    size = ctypes.sizeof(wanted) if have >= 4 else 8
    rules = _libc.syscall(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    try:
        inside = _Beneath((_INSIDE | _TRUNCATE) & rights, directory)
        added = _libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(inside), 0)
        return bool(added == 0 and _libc.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)
