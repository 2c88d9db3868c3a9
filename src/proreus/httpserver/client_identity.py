"""Who counts as one client: whatever is shared out is shared out among these."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4_096)
def client_of(address: str) -> str:
    """The client behind a numeric address: the address itself, of IPv6 the network of 2**64 of them.

    A service has one token, so that all who are let in have the same: the address tells them apart.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
