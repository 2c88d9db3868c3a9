"""A cluster and the work that comes to it: what a reader or a generator returns and a world runs."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.node import Node
from proreus.model.pod import Pod
from proreus.model.selectors import Selector


@dataclass(frozen=True)
class DisruptionBudget:
    """At most so many of the selected pods may be disturbed; exactly one bound is given."""

    name: str
    selector: Selector
    namespace: str = "default"
    min_available: int | None = None
    max_unavailable: int | None = None
    allowed: int | None = None
    """What whoever keeps the budget says may be disturbed now; counts instead of the bound, where known."""

    def __post_init__(self) -> None:
        if (self.min_available is None) == (self.max_unavailable is None):
            raise ValueError("a disruption budget has either minAvailable or maxUnavailable")


@dataclass(frozen=True)
class Workload:
    """Nodes, pods in order of arrival, and the budgets that preemption must respect."""

    name: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    budgets: tuple[DisruptionBudget, ...] = ()
    ticked: bool = False
    """Run in one-second ticks with the k8s simulator's contention rules, not in steady time."""

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ValueError("a workload needs at least one node")
        names = {node.name for node in self.nodes}
        if len(names) != len(self.nodes):
            raise ValueError("two nodes have the same name")
        unknown = {pod.node for pod in self.pods if pod.node} - names
        if unknown:
            raise ValueError(f"pods are on nodes that do not exist: {', '.join(sorted(unknown))}")
        arrivals = [pod.arrival for pod in self.pods]
        if arrivals != sorted(arrivals):
            raise ValueError("pods are not in order of arrival")
