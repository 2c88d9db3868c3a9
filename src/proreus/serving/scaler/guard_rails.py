"""Guard rails: what becomes of a wanted number of replicas, whoever wants it."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.serving.scaler.trigger_metadata import Rails


@dataclass(frozen=True)
class Railed:
    """A number of replicas, and what kept it from being another one."""

    replicas: int
    why: str = ""


def within(rails: Rails, wanted: int, current: int, calm_seconds: float) -> Railed:
    """calm_seconds: since the number was last changed."""
    stepped = min(max(wanted, current - rails.most_step), current + rails.most_step)
    why = "" if stepped == wanted else f"at most {rails.most_step} at once"
    if stepped < current and calm_seconds < rails.cooldown:
        stepped, why = current, f"fewer only after {rails.cooldown:g} s without a change"
    kept = min(max(stepped, rails.least), rails.most)
    if kept != stepped:
        why = f"at least {rails.least}" if kept > stepped else f"at most {rails.most}"
    return Railed(kept, why)
