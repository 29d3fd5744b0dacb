"""The name of one incarnation of a process: to leases and heartbeats, a restarted one is somebody else."""

import re
import secrets
import socket

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_NOT_IN_SUBJECTS = re.compile(r"[^A-Za-z0-9_-]+")


def instance_id(component: str) -> str:
    """`<component>-<host>-<6 random>`, fit for a token of a subject."""
    host = _NOT_IN_SUBJECTS.sub("-", socket.gethostname())[:32]
    return f"{component}-{host}-{''.join(secrets.choice(_ALPHABET) for _ in range(6))}"
