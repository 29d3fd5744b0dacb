"""Addresses that an HTTP job must not reach."""

import pytest

from waterclock.core.runtime.public_addresses import NotPublic, PublicResolver, is_address, require_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(NotPublic):
        require_public(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_let_through_alone(address: str) -> None:
    require_public(address, loopback=True)
    for other in ("10.1.2.3", "169.254.169.254", "0.0.0.0", "fe80::1"):
        with pytest.raises(NotPublic):
            require_public(other, loopback=True)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_a_public_address_passes(address: str) -> None:
    require_public(address)


@pytest.mark.parametrize("name", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_a_name_is_judged_by_what_it_resolves_to(name: str) -> None:
    resolver = PublicResolver()
    with pytest.raises(NotPublic):
        await resolver.resolve(name, 80)
    await resolver.close()


@pytest.mark.parametrize(
    ("host", "written_as_address"),
    [("127.0.0.1", True), ("::1", True), ("example.org", False), ("127.1", False)],
)
def test_what_is_written_as_an_address(host: str, written_as_address: bool) -> None:
    assert is_address(host) is written_as_address
