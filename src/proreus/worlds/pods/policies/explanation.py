"""Policies that place pods: their type, and what they all say of nodes that may not take a pod."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, TypeAlias, assert_never, runtime_checkable

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.model.decision import Decision, Delay, Place, Preempt, Reject
from proreus.policies.protocol import Explanation, Policy, Verdict
from proreus.worlds.pods.state.filters import FILTERS
from proreus.worlds.pods.state.observation import PodObservation

PodPolicy: TypeAlias = Policy[PodObservation, Decision]


@runtime_checkable
class Bids(Protocol):
    """What a policy may offer where every decision is told with its score: an explanation takes too long."""

    def bids(self, observation: PodObservation, /) -> tuple[I64, F64]:
        """(nodes that the policy looks at, the score of each, higher is better); asking changes nothing."""
        ...


@runtime_checkable
class DecidesWithBids(Protocol):
    """What a policy may offer besides `bids` where both in one take less than one after the other."""

    def decide_with_bids(self, observation: PodObservation, /) -> tuple[Decision, I64, F64]:
        """(what `decide` returns, and what `bids` would have returned before it)."""
        ...


@runtime_checkable
class Factors(Protocol):
    """What a policy may offer where every decision is told with what its scores are made of."""

    def factors(self, observation: PodObservation, looked_at: I64, of: I64, /) -> dict[str, F64]:
        """By name, what each factor adds to the score of the nodes looked_at[of], higher is better.

        It is asked after the decision, before that is carried out; asking changes nothing.
        """
        ...


@compiled
def chosen_and_next(nodes: I64, scores: F64, chosen: int) -> tuple[int, int]:
    """Where the chosen node stands in the list, and the best of the others, the first of equals; -1: nowhere.

    A score that is no number counts as the best.
    """
    mine, best = -1, -1
    for place in range(nodes.shape[0]):
        if nodes[place] == chosen:
            mine = place if mine < 0 else mine
        elif math.isnan(scores[place]):
            if best < 0 or not math.isnan(scores[best]):
                best = place
        elif scores[place] != -math.inf and (best < 0 or scores[place] > scores[best]):
            best = place
    return mine, best


def explained(
    policy: PodPolicy,
    observation: PodObservation,
    decision: Decision,
    scores: Mapping[int, dict[str, float]],
    note: str,
) -> Explanation:
    """The decision with every node's verdict, given the scores of those that were looked at."""
    return Explanation(
        policy=policy.name,
        subject=observation.subject.name,
        decision=decision,
        verdicts=verdicts(observation, scores),
        note=note,
        told=told(observation, decision),
        chosen=observation.compiled.workload.nodes[decision.node].name
        if isinstance(decision, Place | Preempt)
        else "",
    )


def verdicts(observation: PodObservation, scores: Mapping[int, dict[str, float]]) -> tuple[Verdict, ...]:
    """Every node's verdict, given the scores of those that were looked at."""
    verdicts = []
    for n, code in enumerate(observation.refusals().tolist()):
        plugin, says, _ = FILTERS.get(code, ("", "", False))
        of_node = scores.get(n, {})
        verdicts.append(
            Verdict(
                place=observation.compiled.workload.nodes[n].name,
                refused_by=f"{plugin}: {says}" if code else "",
                scores=of_node,
                total=sum(of_node.values()),
                looked_at=n in scores,
            )
        )
    return tuple(verdicts)


def told(observation: PodObservation, decision: Decision) -> str:
    """What becomes of the pod, in words."""
    workload = observation.compiled.workload
    match decision:
        case Place(node=node):
            return f"goes to {workload.nodes[node].name}"
        case Preempt(node=node):
            victims = observation.victims(node)
            evicted = [workload.pods[p].name for p in victims[0]] if victims else []
            return f"evicts {', '.join(evicted)} from {workload.nodes[node].name} and goes there"
        case Delay():
            return "has to wait: no node may take it"
        case Reject():
            return "is rejected"
        case _:
            assert_never(decision)
