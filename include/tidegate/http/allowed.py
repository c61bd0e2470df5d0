"""Where requests may go: addresses that anybody can reach, and those that TIDEGATE_HTTP_ALLOWED names.

A definition names a URI, and whoever may write one must not thereby reach what only this machine can: its own services,
its network, a cloud's metadata. What counts is the address of each connection as it is opened, so that neither a name
that resolves anew nor a spelling of an address (2130706433, 0x7f.1, ::ffff:127.0.0.1) leaves a gap.
"""

import ipaddress
from dataclasses import dataclass
from typing import Self

from tidegate.model.errors import WrongDefinitionError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class AllowedAddresses:
    """The networks, and the names of hosts whose every address, that may be reached though they aren't global."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of `hooks.internal, 10.1.0.0/16, ::1`. Raises WrongDefinitionError for a network with bits set behind it."""
        networks: list[Network] = []
        hosts: set[str] = set()
        for each in filter(None, (part.strip() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(each))
            except ValueError as error:
                if "/" in each or ":" in each:
                    raise WrongDefinitionError(
                        f"TIDEGATE_HTTP_ALLOWED: {each!r} is neither a host nor a network ({error}): write a host "
                        "without scheme and port, as in hooks.internal, or a network, as in 10.1.0.0/16"
                    ) from None
                hosts.add(each.lower().rstrip("."))
        return cls(tuple(networks), frozenset(hosts))

    def names(self, host: str) -> bool:
        """Whether somebody has allowed this host itself, by its name or as an address."""
        if host.lower().rstrip(".") in self.hosts:
            return True
        try:
            return any(ipaddress.ip_address(host) in network for network in self.networks)
        except ValueError:
            return False

    def permits(self, host: str, address: str) -> bool:
        """Whether a connection to this address may be opened, for a URI with this host."""
        found: Address = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        is_global = found.is_global and not found.is_multicast
        is_named = host.lower().rstrip(".") in self.hosts
        return is_global or is_named or any(found in network for network in self.networks)


def refusal(host: str, address: str) -> WrongDefinitionError:
    """The error of a host whose address isn't permitted."""
    named = host if host == address else f"{host} ({address})"
    return WrongDefinitionError(
        f"processing.uri: {named} isn't an address that anybody can reach, and none that TIDEGATE_HTTP_ALLOWED names: "
        "nothing was sent there; add the host, or its network as in 10.1.0.0/16, to that variable if it is meant"
    )
