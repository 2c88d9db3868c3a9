"""The one policy interface: an observation in, a decision out. Learning lives elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from proreus.model.decision import Decision
from proreus.worlds.pods.state.filters import FILTERS
from proreus.worlds.pods.state.observation import PodObservation


@dataclass(frozen=True)
class NodeVerdict:
    """Why one node was or was not chosen."""

    node: str
    refused_by: str
    """The filter that refused and what it says; "" where the pod may go."""
    scores: dict[str, float]
    """Per score, after weighting; empty where the pod may not go or the node was not looked at."""
    total: float


@dataclass(frozen=True)
class Explanation:
    """A decision with its reasons, node by node."""

    policy: str
    pod: str
    decision: Decision
    verdicts: tuple[NodeVerdict, ...]
    note: str
    """What the table alone does not say: sampling, tie-break, preemption."""


def verdicts(observation: PodObservation, scores: Mapping[int, dict[str, float]]) -> tuple[NodeVerdict, ...]:
    """Every node's verdict, given the scores of those that were looked at."""
    found = []
    for n, code in enumerate(observation.refusals().tolist()):
        plugin, says, _ = FILTERS.get(code, ("", "", False))
        of_node = scores.get(n, {})
        found.append(
            NodeVerdict(
                node=observation.compiled.workload.nodes[n].name,
                refused_by=f"{plugin}: {says}" if code else "",
                scores=of_node,
                total=sum(of_node.values()),
            )
        )
    return tuple(found)


class Policy(Protocol):
    """Decides about pods, one at a time."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def decide(self, observation: PodObservation) -> Decision:
        """What to do with the pod at hand."""
        ...

    def explain(self, observation: PodObservation) -> Explanation:
        """The same decision with its reasons; asking changes nothing."""
        ...
