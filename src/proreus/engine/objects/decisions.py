"""The note that a scheduling agent leaves on a pod, read back: what was decided, in a few plain sentences.

The status page and `proreus describe` both show it; whatever cannot be read is no note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DECISION = "proreus.io/decision"
"""The annotation."""
_NOMINATED = "nominated"
_UNSCORED = {
    "random": "one of them was drawn",
    "round_robin": "it was the next of them in rotation",
    "first_fit": "it was the first of them",
}
"""Rules to which all nodes that may take a pod are alike."""
_FALLBACKS = {
    "deadline": "it was too slow",
    "resting": "it was too slow before, and is left alone for a while",
    "unsure": "it was unsure",
    "wrong": "it decided what the rules forbid",
    "error": "it failed",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What one policy wanted to do with a pod."""

    policy: str
    action: str
    """place, preempt, delay or reject."""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """A decision, why it came about, and what a policy in the shadow would have done."""

    choice: Choice
    reasons: tuple[str, ...]
    shadow: Choice | None = None
    would: str = ""
    """What that would have changed."""
    fallback: bool = False
    """Whether the policy was too slow, wrong or unsure, and the kube rules decided."""

    @property
    def differs(self) -> bool:
        """Whether the shadow would have done something else."""
        mine, other = self.choice, self.shadow
        return other is not None and (mine.action, mine.node) != (other.action, other.node)

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        told: dict[str, Any] = {
            "policy": self.choice.policy,
            "action": self.choice.action,
            "node": self.choice.node,
            "reasons": list(self.reasons),
            "fallback": self.fallback,
            "shadow": None,
        }
        if self.shadow is not None:
            told["shadow"] = {
                "policy": self.shadow.policy,
                "action": self.shadow.action,
                "node": self.shadow.node,
                "differs": self.differs,
                "would": self.would,
            }
        return told


def read_decision(text: str | None) -> Noted | None:
    """The note in an annotation; None where there is none."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    beside = found.get("shadow")
    shadow = beside if isinstance(beside, dict) else None
    return Noted(
        _choice(found),
        tuple(_reasons(found)),
        None if shadow is None else _choice(shadow),
        "" if shadow is None else str(shadow.get("would", "")),
        found.get("fallback") not in (None, "", _NOMINATED),
    )


def _choice(found: Mapping[str, Any]) -> Choice:
    policy = str(found.get("policy", ""))
    if "node" in found:
        return Choice(policy, "place", str(found["node"]))
    if "preempts" in found:
        return Choice(policy, "preempt", str(found["preempts"]))
    return Choice(policy, str(found.get("decision", "delay")))


def _reasons(found: Mapping[str, Any]) -> Iterator[str]:
    fallback = str(found.get("fallback") or "")
    if fallback == _NOMINATED:
        yield "room was made for it there before"
    elif fallback:
        why = _FALLBACKS.get(fallback, fallback)
        if found.get("why"):
            why += f" ({found['why']})"
        yield f"the kube rules decided in place of {found.get('policy', 'the policy')}: {why}"
    runner_up = found.get("next")
    if "score" in found:
        best = f"{found.get('node', 'it')} scored {found['score']}"
        if isinstance(runner_up, dict):
            best += f", next came {runner_up.get('node')} with {runner_up.get('score')}"
        yield best
    if "feasible" in found:
        how = "" if fallback or "score" in found else _UNSCORED.get(str(found.get("policy")), "")
        yield f"{found['feasible']} of {found.get('of', '?')} nodes could take it" + (how and f", {how}")
    refused = found.get("refused")
    if isinstance(refused, dict) and refused:
        yield "the others: " + ", ".join(f"{count} {why}" for why, count in sorted(refused.items()))
