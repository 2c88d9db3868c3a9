"""What a shadow would have done otherwise, and what that would have changed at once."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any, assert_never

from proreus.engine.scheduler.decider import LegalDecision
from proreus.model.decision import Delay, Place, Preempt, Reject
from proreus.model.resources import COL_CPU, COL_MEMORY
from proreus.worlds.pods.state.observation import PodObservation

_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class DecisionEffect:
    """What a decision does at once."""

    node: str = ""
    """"" where the pod waits."""
    evicts: int = 0
    opens_node: bool = False
    """The node was empty before."""
    cpu: float = 0.0
    """Share of the node's CPU that is asked for with the pod on it, before evictions."""
    memory: float = 0.0


@dataclass(frozen=True, slots=True)
class ShadowDifference:
    """A pod that the shadow would have treated otherwise."""

    pod: str
    at: float
    done: DecisionEffect
    shadow: DecisionEffect


@dataclass
class Sums:
    """What the decisions of one side came to, where the two differed."""

    waits: int = 0
    evicts: int = 0
    opens_node: int = 0

    def add(self, effect: DecisionEffect) -> None:
        """One decision more."""
        self.waits += effect.node == ""
        self.evicts += effect.evicts
        self.opens_node += effect.opens_node


@dataclass
class ShadowDifferences:
    """All decisions with a shadow beside them: how many agreed, and the last that did not."""

    agreed: int = 0
    differed: int = 0
    done: Sums = field(default_factory=Sums)
    shadow: Sums = field(default_factory=Sums)
    last: deque[ShadowDifference] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def note(
        self, pod: str, at: float, answers: tuple[LegalDecision, LegalDecision], observation: PodObservation
    ) -> None:
        """One decision more; answers: what was done, what the shadow would have done."""
        done, shadow = (effect_of(answer, observation) for answer in answers)
        if done.node == shadow.node:
            self.agreed += 1
            return
        self.differed += 1
        self.done.add(done)
        self.shadow.add(shadow)
        self.last.append(ShadowDifference(pod, at, done, shadow))

    def told(self) -> dict[str, Any]:
        """As JSON has it, the last differences included."""
        return asdict(self) | {"last": [asdict(shadow_difference) for shadow_difference in self.last]}


def changes(done: DecisionEffect, shadow: DecisionEffect) -> str:
    """What the shadow's choice would have changed at once, in words; "" where it is the same."""
    if done.node == shadow.node:
        return ""
    if not shadow.node:
        return "the pod would wait"
    messages = [
        f"{shadow.node} at {shadow.cpu:.0%} CPU and {shadow.memory:.0%} memory, "
        f"not {done.node} at {done.cpu:.0%} and {done.memory:.0%}"
        if done.node
        else f"{shadow.node} at {shadow.cpu:.0%} CPU and {shadow.memory:.0%} memory, and no wait"
    ]
    if shadow.opens_node != done.opens_node:
        messages.append("an empty node more in use" if shadow.opens_node else "an empty node less in use")
    if shadow.evicts != done.evicts:
        messages.append(f"{shadow.evicts} pods evicted, not {done.evicts}")
    return "; ".join(messages)


def effect_of(answer: LegalDecision, observation: PodObservation) -> DecisionEffect:
    """What carrying out an answer does at once."""
    match answer.decision:
        case Delay() | Reject():
            return DecisionEffect()
        case Place(node=n) | Preempt(node=n):
            cpu, memory = shares_with(observation, n)
            return DecisionEffect(
                node=observation.compiled.workload.nodes[n].name,
                evicts=len(answer.victims),
                opens_node=bool(observation.state.first[n] < 0),
                cpu=cpu,
                memory=memory,
            )
        case _:
            assert_never(answer.decision)


def shares_with(observation: PodObservation, n: int) -> tuple[float, float]:
    """Shares of node n's CPU and memory that are asked for with the pod on it."""
    cluster, c = observation.cluster, observation.pod_class
    sizes, requests, free = cluster.nodes.allocatable, cluster.classes.request, observation.state.free
    # Number by number: for so few, arrays take longer.
    cpu, memory = sizes.item(n, COL_CPU), sizes.item(n, COL_MEMORY)
    return (
        round((cpu - free.item(n, COL_CPU) + requests.item(c, COL_CPU)) / max(cpu, 1), 4),
        round((memory - free.item(n, COL_MEMORY) + requests.item(c, COL_MEMORY)) / max(memory, 1), 4),
    )
