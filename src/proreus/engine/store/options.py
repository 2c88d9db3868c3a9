"""What can be said about any store when it is opened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Bounds of a store."""

    history: int = 20_000
    """`memory` and `sqlite` keep at least so many of the last revisions, for watches and for older lists."""
    history_bytes: int = 64 << 20
    """But fewer where what they superseded takes more room than this."""
    compact_seconds: float = 300.0
    """`etcd` is asked to forget what is older than this; 0: somebody else compacts it."""
    timeout: float = 5.0
    """So long an answer may take before the store counts as unavailable."""
    held: int = 20_000
    """So many changes are held in memory for watches; one that lags further reads the history."""
    held_bytes: int = 32 << 20
    """But fewer where their values, those before them included, take more room than this."""
    holds: str = "Secrets of a cluster"
    """What is kept there by whoever opens it: told where every user of the machine may read it."""

    accept_loss: bool = False
    """Open a file though it lacks what was acknowledged, with what is there."""


DEFAULTS = StoreOptions()
