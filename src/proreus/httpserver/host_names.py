"""Names of this machine, and the names under which a door is reached.

A web page may make a browser on this machine send requests to it, under any name that the page's owner lets
point here. The browser says which name it was (Host) and whose page it is (Origin).
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare(host)).is_loopback
    except ValueError:
        return False


def bare(host: str) -> str:
    """An address without the brackets of IPv6."""
    return host.removeprefix("[").removesuffix("]")


@lru_cache(maxsize=256)
def is_named(host: bytes, names: frozenset[str]) -> bool:
    """Whether a Host header (name and port) names loopback or one of these, which are in lower case."""
    text = host.decode("latin-1").strip().lower()
    name = text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
    return is_loopback(name) or bare(name).removesuffix(".") in names
