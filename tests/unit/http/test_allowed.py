"""Requests go to addresses that anybody can reach, and to those that are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.http.allowed import AllowedAddresses
from tidegate.model.errors import WrongDefinitionError

NOBODY = AllowedAddresses.parse("")


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111"])
def test_what_anybody_can_reach_is_allowed(address: str) -> None:
    assert NOBODY.permits("example.org", address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104 (it is refused)
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",  # a cloud's metadata
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "ff02::1",
    ],
)
def test_what_only_this_machine_or_network_can_reach_is_refused(address: str) -> None:
    assert not NOBODY.permits("example.org", address)


def test_networks_and_hosts_are_named() -> None:
    allowed = AllowedAddresses.parse(" hooks.internal , 10.1.0.0/16, ::1 ,")
    assert allowed.permits("example.org", "10.1.2.3")
    assert not allowed.permits("example.org", "10.2.2.3")
    assert allowed.permits("Hooks.Internal.", "192.168.1.1")
    assert not allowed.permits("hooks.internal.example.org", "192.168.1.1")
    assert allowed.permits("example.org", "::1")
    assert not allowed.permits("example.org", "127.0.0.1")


def test_an_address_that_is_mapped_is_the_one_that_it_is() -> None:
    assert AllowedAddresses.parse("127.0.0.0/8").permits("localhost", "::ffff:127.0.0.1")


@pytest.mark.parametrize("text", ["10.1.2.3/16", "10.0.0.0/33", "::g", "10.0.0.0/x", "hooks:8080", "http://hooks"])
def test_what_is_no_network_is_refused_by_name(text: str) -> None:
    with pytest.raises(WrongDefinitionError, match=r"TIDEGATE_HTTP_ALLOWED: .* is neither a host nor a network"):
        AllowedAddresses.parse(f"hooks.internal, {text}")


@given(st.ip_addresses(), st.sampled_from(["example.org", "localhost"]))
def test_nothing_that_is_not_global_is_allowed_unless_it_is_named(address: object, host: str) -> None:
    text = str(address)
    is_global = getattr(address, "is_global", False) and not getattr(address, "is_multicast", False)
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        is_global = mapped.is_global and not mapped.is_multicast
    assert NOBODY.permits(host, text) == is_global
