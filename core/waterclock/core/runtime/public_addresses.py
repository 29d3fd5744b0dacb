"""Keeps HTTP jobs on the public net: a job must not reach what only its executor can reach."""

import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_EMBEDS_IPV4 = tuple(
    ipaddress.IPv6Network(network) for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)
"""NAT64, 6to4 and Teredo: addresses that lead to an IPv4 address, which is not checked here."""


class NotPublic(OSError):
    """The address is not on the public net."""


def require_public(address: str, loopback: bool = False) -> None:
    """Raises NotPublic for loopback, private, link-local, shared, multicast, reserved, and ways round them.

    `loopback`: this machine's own addresses are allowed.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        elif any(parsed in network for network in _EMBEDS_IPV4):
            raise NotPublic(f"{address} is not a public address")
    if loopback and parsed.is_loopback:
        return
    if not parsed.is_global or parsed.is_multicast:
        raise NotPublic(f"{address} is not a public address")


class PublicResolver(AbstractResolver):
    """Resolves a name once, and the connection goes to the address that was checked."""

    def __init__(self, loopback: bool = False) -> None:
        self._resolver = ThreadedResolver()
        self._loopback = loopback

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            require_public(each["host"], self._loopback)
        return found

    async def close(self) -> None:
        await self._resolver.close()


def is_address(host: str) -> bool:
    """Whether a host is written as an address. Such a host is not resolved, so it must be checked by itself."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
