"""Which addresses are public: the judgement behind ``http_fetch``. Pure.

Sources: the IANA registries of special-purpose addresses (RFC 6890, as of 2026), RFC 6052 for addresses of IPv4 in
IPv6, and the metadata services of the large clouds. Python's ``is_global`` is asked too: it knows later entries.
"""

from __future__ import annotations

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google Cloud, Oracle and others
        "169.254.170.2",  # AWS: credentials of a task
        "169.254.170.23",  # AWS: credentials of a pod
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure's own, in a public range
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS: credentials of a pod
        "fd20:ce::254",  # Google Cloud
    )
)
_V4_BLOCKED: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by customers of a carrier
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_V6_PUBLIC: Final = ipaddress.IPv6Network("2000::/3")
_V6_BLOCKED: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # of protocols, Teredo among them, which carries an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which carries one too
        "3fff::/20",
    )
)
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""The upper half of an interface id that carries an IPv4 address (RFC 5214)."""


def is_metadata(address: Address) -> bool:
    """Whether it is a metadata service of a cloud, which gives credentials to whoever asks."""
    inner = _carried(address)
    return address in _METADATA or (inner is not None and inner in _METADATA)


def is_public(address: Address) -> bool:
    """Whether it can only be a host of the public Internet, in whatever form it is written."""
    if is_metadata(address) or address.is_multicast:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _V4_BLOCKED)
    if address.scope_id is not None:
        return False
    inner = _carried(address)
    if inner is not None and not is_public(inner):
        return False
    if address in _NAT64:
        return inner is not None
    return address in _V6_PUBLIC and address.is_global and not any(address in network for network in _V6_BLOCKED)


def is_never_reached(address: Address) -> bool:
    """Whether not even a host that is allowed by its name may lead there: metadata, link-local, multicast, nowhere."""
    inner = _carried(address)
    if inner is not None and is_never_reached(inner):
        return True
    return is_metadata(address) or address.is_link_local or address.is_multicast or address.is_unspecified


def _carried(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, translated, or of an ISATAP interface."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        return low
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return low
    return None
