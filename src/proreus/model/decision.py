"""What a policy may decide about one pod, and the flat numbering of it.

With n nodes the flat action space has 2n + 2 numbers: 0..n-1 place on that
node, n..2n-1 preempt on that node and place there, 2n delay, 2n+1 reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias, assert_never

from proreus.model.errors import IllegalDecision


@dataclass(frozen=True)
class Place:
    """Run the pod on `node`; `devices` is a bit mask of GPUs, 0 lets the rule of tightest fit choose."""

    node: int
    devices: int = 0


@dataclass(frozen=True)
class Preempt:
    """Evict lower-priority pods from `node`, chosen by the kube rules, and place the pod there."""

    node: int


@dataclass(frozen=True)
class Delay:
    """Try again later, after the queue's back-off."""


@dataclass(frozen=True)
class Reject:
    """Never run this pod."""


Decision: TypeAlias = Place | Preempt | Delay | Reject


def action_count(nodes: int) -> int:
    """How many flat actions a cluster of so many nodes has."""
    return 2 * nodes + 2


def to_action(decision: Decision, nodes: int) -> int:
    """The flat number of a decision (the choice of devices is not part of it)."""
    if isinstance(decision, Place | Preempt) and not 0 <= decision.node < nodes:
        raise IllegalDecision(f"{decision}: there is no such node among {nodes}")
    match decision:
        case Place(node=node):
            return node
        case Preempt(node=node):
            return nodes + node
        case Delay():
            return 2 * nodes
        case Reject():
            return 2 * nodes + 1
        case _:
            assert_never(decision)


def from_action(action: int, nodes: int) -> Decision:
    """The decision behind a flat number."""
    if not 0 <= action < action_count(nodes):
        raise IllegalDecision(f"action {action} is outside 0..{action_count(nodes) - 1}")
    if action < nodes:
        return Place(action)
    if action < 2 * nodes:
        return Preempt(action - nodes)
    return Delay() if action == 2 * nodes else Reject()


def meant(decision: object, nodes: int) -> Decision:
    """A decision, or the one behind a flat number; anything else is an illegal decision."""
    if isinstance(decision, Place | Preempt | Delay | Reject):
        return decision
    if isinstance(decision, bool) or not isinstance(decision, Integral):
        raise IllegalDecision(f"{decision!r} is neither a decision about a pod nor the number of one")
    return from_action(int(decision), nodes)
