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

_FACTORS = {
    "TaintToleration": "fewer taints",
    "NodeAffinity": "nodes that it prefers",
    "NodeResourcesFit": "free room",
    "PodTopologySpread": "spread",
    "InterPodAffinity": "pods that it wants near or far",
    "NodeResourcesBalancedAllocation": "balance of CPU and memory",
    "ImageLocality": "images that are there",
    "GpuFragmentation": "GPUs that stay usable",
    "NetworkAndDisk": "free network and disk",
    "TargetLoadPacking": "measured load near its target",
    "LoadVariationRiskBalancing": "steady measured load",
}
"""Score plugins in plain words."""
_LARGEST = 1e15


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What one policy wanted to do with a pod."""

    policy: str
    action: str
    """place, preempt, delay or reject."""
    node: str = ""


@dataclass(frozen=True, slots=True)
class DecisionAnnotation:
    """A decision, why it came about, and what a policy in the shadow would have done."""

    choice: PolicyChoice
    reasons: tuple[str, ...]
    shadow: PolicyChoice | None = None
    would: str = ""
    """What that would have changed."""
    fallback: bool = False
    """Whether the policy was too slow, wrong or unsure, and the kube rules decided."""
    version: str = ""
    """Which weights decided; "": those of a rule, which has none."""
    milliseconds: float | None = None
    """That it took; None: nobody noted it."""
    runner_up: str = ""
    """The node that came next."""

    @property
    def differs(self) -> bool:
        """Whether the shadow would have done something else."""
        mine, other = self.choice, self.shadow
        return other is not None and (mine.action, mine.node) != (other.action, other.node)

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        document: dict[str, Any] = {
            "policy": self.choice.policy,
            "action": self.choice.action,
            "node": self.choice.node,
            "reasons": list(self.reasons),
            "fallback": self.fallback,
            "version": self.version,
            "milliseconds": self.milliseconds,
            "next": self.runner_up,
            "shadow": None,
        }
        if self.shadow is not None:
            document["shadow"] = {
                "policy": self.shadow.policy,
                "action": self.shadow.action,
                "node": self.shadow.node,
                "differs": self.differs,
                "would": self.would,
            }
        return document


def read_decision(text: str | None) -> DecisionAnnotation | None:
    """The note in an annotation; None where there is none."""
    if not text:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    beside = document.get("shadow")
    shadow = beside if isinstance(beside, dict) else None
    return DecisionAnnotation(
        _choice(document),
        tuple(_reasons(document)),
        None if shadow is None else _choice(shadow),
        "" if shadow is None else str(shadow.get("would", "")),
        document.get("fallback") not in (None, "", _NOMINATED),
        str(document.get("version", "")),
        document["ms"] if _is_number(document.get("ms")) else None,
        str(runner_up.get("node", "")) if isinstance(runner_up := document.get("next"), dict) else "",
    )


def scores_told(note: Mapping[str, Any]) -> str:
    """What the chosen node scored, and which factors put it before the next best; "" where none is told."""
    if "score" not in note:
        return ""
    message = f"{note.get('node', 'it')} scored {note['score']}"
    runner_up = note.get("next")
    if not isinstance(runner_up, dict):
        return message
    if runner_up.get("score") == note["score"]:
        message += f", and so did {runner_up.get('node')}"
    else:
        message += f", next came {runner_up.get('node')} with {runner_up.get('score')}"
    factors = list(_pairs(note.get("factors")))
    if len(factors) == 1 and list(factors[0][1:]) == [note["score"], runner_up.get("score")]:
        return f"{message} ({_named(factors[0][0])})"
    for words, better in ((": ahead by ", True), ("; behind by ", False)):
        parts = [
            f"{_named(name)} ({mine:.4g}, not {other:.4g})"
            for name, mine, other in factors
            if (mine > other) == better
        ]
        message += words + " and ".join(parts) if parts else ""
    return message


def _use_told(note: Mapping[str, Any]) -> str:
    """How full the chosen node gets, and how full the next best would have got."""
    mine, runner_up = _shares(note.get("use")), note.get("next")
    if mine is None:
        return ""
    message = f"{note.get('node', 'it')} is at {mine[0]:.0%} CPU and {mine[1]:.0%} memory with it"
    theirs = _shares(runner_up.get("use")) if isinstance(runner_up, dict) else None
    if isinstance(runner_up, dict) and theirs is not None:
        message += f", {runner_up.get('node')} would be at {theirs[0]:.0%} and {theirs[1]:.0%}"
    return message


def _pairs(factors: object) -> Iterator[tuple[str, float, float]]:
    """Name, of the chosen node, of the next best; whatever else stands there is left out."""
    for name, pair in factors.items() if isinstance(factors, dict) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair)):
            yield str(name), pair[0], pair[1]


def _shares(use: object) -> tuple[float, float] | None:
    parts: list[Any] = [use.get("cpu"), use.get("memory")] if isinstance(use, dict) else []
    return (parts[0], parts[1]) if parts and all(map(_is_number, parts)) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _named(factor: str) -> str:
    plain = _FACTORS.get(factor)
    return f"{plain} [{factor}]" if plain else factor


def _choice(note: Mapping[str, Any]) -> PolicyChoice:
    policy = str(note.get("policy", ""))
    if "node" in note:
        return PolicyChoice(policy, "place", str(note["node"]))
    if "preempts" in note:
        return PolicyChoice(policy, "preempt", str(note["preempts"]))
    return PolicyChoice(policy, str(note.get("decision", "delay")))


def _reasons(note: Mapping[str, Any]) -> Iterator[str]:
    fallback = str(note.get("fallback") or "")
    if fallback == _NOMINATED:
        yield "room was made for it there before"
    elif fallback:
        why = _FALLBACKS.get(fallback, fallback)
        if note.get("why"):
            why += f" ({note['why']})"
        yield f"the kube rules decided in place of {note.get('policy', 'the policy')}: {why}"
    if scores := scores_told(note):
        yield scores
    if use := _use_told(note):
        yield use
    if "feasible" in note:
        how = "" if fallback or "score" in note else _UNSCORED.get(str(note.get("policy")), "")
        yield f"{note['feasible']} of {note.get('of', '?')} nodes could take it" + (how and f", {how}")
    refused = note.get("refused")
    if isinstance(refused, dict) and refused:
        yield "the others: " + ", ".join(f"{count} {why}" for why, count in sorted(refused.items()))
