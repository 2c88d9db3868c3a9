"""What one client may hold of what is shared."""

from __future__ import annotations

from proreus.listening.budget import ByteBudget
from proreus.listening.turns import Shares, Turns
from proreus.serving.values import Refusal, Refused


def byte_budget(total: int) -> ByteBudget:
    """So many bytes of requests at once; who wants more is told to come again."""
    return ByteBudget(
        total,
        lambda: Refused(Refusal.EXHAUSTED, "too much is being sent at once; send it again later", "body"),
    )


def fair_turns(shares: Shares | None = None, name: str = "work") -> Turns:
    """Threads for work that may take long; who asks for too much at once is told to come again."""
    return Turns(lambda says: Refused(Refusal.EXHAUSTED, says), shares, name)
