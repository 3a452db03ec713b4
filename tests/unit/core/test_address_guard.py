"""Addresses that outbound connections may and may not have."""

import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from core.errors import Invalid, Unavailable
from core.outbound.addresses import EVERYWHERE, AddressGuard

PUBLIC, EVERY = AddressGuard(), AddressGuard(EVERYWHERE)
SETTING = "notify.private_networks"


class Resolver(AbstractResolver):
    """Resolves every name to the same addresses; without any, to an error."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if not self._addresses:
            raise OSError("no such name")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=0, proto=0, flags=0)
            for address in self._addresses
        ]

    async def close(self) -> None:
        return None


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1",
        "fe80::1%eth0",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "64:ff9b:1::a83f:8110",
        "64:ff9b:1:a9fe:a9:fe00::",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:5601:5601",
    ],
)
@pytest.mark.parametrize("networks", [(), EVERYWHERE, ("169.254.0.0/16", "fe80::/10")])
async def test_metadata_and_special_addresses_are_always_refused(
    address: str, networks: tuple[str, ...]
) -> None:
    """Whichever networks are allowed, and however IPv6 writes an IPv4 address."""
    with pytest.raises(Unavailable, match="link-local or special"):
        await AddressGuard(networks).addresses(address, 443)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "255.255.255.255",
        "::1",
        "fec0::1",
        "fd12::1",
        "::10.1.2.3",
        "::ffff:10.1.2.3",
        "64:ff9b::10.1.2.3",
        "64:ff9b::140.82.121.3",
        "64:ff9b:1::140.82.121.3",
        "2002:8c52:7903::1",
        "2002:7f00:1::",
    ],
)
async def test_private_addresses_are_a_matter_of_settings(address: str) -> None:
    """A translated address is private even if the IPv4 address is public."""
    with pytest.raises(Unavailable, match="private address"):
        await PUBLIC.addresses(address, 443)
    assert await EVERY.addresses(address, 443) == [address]


@pytest.mark.parametrize(
    "address", ["140.82.121.3", "::ffff:140.82.121.3", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]
)
async def test_public_addresses_are_allowed(address: str) -> None:
    assert await PUBLIC.addresses(address, 443) == [address]


async def test_the_operator_may_allow_a_network_and_no_more() -> None:
    guard = AddressGuard(("10.1.0.0/16",))
    assert await guard.addresses("10.1.2.3", 443) == ["10.1.2.3"]
    for refused in ("10.2.0.1", "64:ff9b::10.1.2.3"):
        with pytest.raises(Unavailable):
            await guard.addresses(refused, 443)


async def test_an_allowed_translator_reaches_no_private_network() -> None:
    guard = AddressGuard(("64:ff9b::/96",))
    assert await guard.addresses("64:ff9b::140.82.121.3", 443)
    with pytest.raises(Unavailable, match="private address"):
        await guard.addresses("64:ff9b::10.1.2.3", 443)


@pytest.mark.parametrize("guard", [PUBLIC, EVERY])
@pytest.mark.parametrize(
    "host", ["2852039166", "169.16689662", "0xa9.0xfe.0xa9.0xfe", "127.1", "169.254.169.254."]
)
async def test_an_ambiguous_address_is_refused(guard: AddressGuard, host: str) -> None:
    with pytest.raises(Unavailable, match="dotted-decimal"):
        await guard.addresses(host, 443)


async def test_a_name_is_judged_by_each_of_its_addresses() -> None:
    guard = AddressGuard(resolver=Resolver("140.82.121.3", "10.0.0.1"))
    with pytest.raises(Unavailable, match=r"git\.test has a private address"):
        await guard.addresses("git.test", 443)
    with pytest.raises(Unavailable, match="localhost has a private address"):
        await PUBLIC.addresses("localhost", 443)


async def test_a_name_without_an_address_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"git\.test cannot be resolved"):
        await AddressGuard(resolver=Resolver()).addresses("git.test", 443)


async def test_the_refusal_names_the_setting_and_not_the_address() -> None:
    guard = AddressGuard(error=Invalid, setting=SETTING, resolver=Resolver("10.0.0.1"))
    with pytest.raises(Invalid, match=SETTING) as caught:
        await guard.addresses("git.test", 443)
    assert "10.0.0.1" not in caught.value.message


def test_a_network_that_is_none_is_named() -> None:
    with pytest.raises(Invalid, match=r"notify.private_networks: '10\.1' "):
        AddressGuard(("10.1",), setting=SETTING)
