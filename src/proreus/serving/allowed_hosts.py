"""Which names a service answers to.

A web page may make a browser on this machine send requests to it, under any name that the page's owner lets
point here. The browser says which name it was (Host) and whose page it is (Origin): a service on loopback
answers to names of this machine and to those that it was told, and to no page but its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proreus.httpserver.host_names import bare, is_loopback, is_named

NO_CHANGES = (
    "beyond this machine nobody may teach the model or change its version without a token; start the service "
    "with --token-file FILE and send the token, or with --anonymous-updates"
)


@dataclass(frozen=True)
class Visitors:
    """Whom a door answers, and whether they may change anything."""

    names: frozenset[str] | None = None
    """The names of hosts under which it is reached, besides those of loopback; None: any."""
    changes: bool = True
    """Whether whoever is let in may teach the model and change its version."""
    own_pages: bool = False
    """Whether pages that came from the door itself are answered: it knows its names, or wants a token, so
    that no page of another can pass for one."""
    page_changes: bool = False
    """Whether these may change anything: they have shown a token."""

    @classmethod
    def of(cls, host: str, allowed: Sequence[str], *, token: bool, anonymous_updates: bool) -> Visitors:
        """Of a door on `host`: see `proreus serve`."""
        here = is_loopback(host)
        names = frozenset(bare(name).lower() for name in allowed)
        known = names if here or names else None
        return cls(known, here or token or anonymous_updates, known is not None or token, token)

    def know(self, host: bytes) -> bool:
        """Whether a request to this Host (name and port) is meant for the door."""
        return self.names is None or is_named(host, self.names)
