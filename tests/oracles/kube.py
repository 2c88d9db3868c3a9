"""A reference kube-scheduler in plain Python: slow, and simple enough to be believed.

It looks at every pod and node anew for every question. The rules are those of kube-scheduler
(pkg/scheduler of kubernetes/kubernetes) as the fact sheet gives them; comments name the Go source where
the sheet leaves a choice. Only `proreus.model` is used, so that no mistake of the fast code can hide here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from proreus.model.node import Node
from proreus.model.pod import Pod
from proreus.model.workload import DisruptionBudget
from tests.oracles import kube_scores, kube_words
from tests.oracles.kube_filters import FilterResult, first_failure
from tests.oracles.kube_preemption import dry_run, find_candidates, hardship
from tests.oracles.kube_scores import WEIGHTS
from tests.oracles.kube_state import ClusterState, named_nodes, round_robin_by_zone

__all__ = ["WEIGHTS", "FilterResult", "ReferenceKube", "feasible_nodes_to_find"]

ALL_NODES_BELOW = 100
LEAST_PERCENTAGE = 5


def feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """numFeasibleNodesToFind: after how many feasible nodes the search stops; percentage 0 is adaptive."""
    if nodes < ALL_NODES_BELOW:
        return nodes
    if percentage == 0:
        percentage = max(LEAST_PERCENTAGE, 50 - nodes // 125)
    return max(ALL_NODES_BELOW, nodes * percentage // 100)


def heap_root(scored: list[tuple[int, int]]) -> int:
    """The node on top of the heap of (total, node) that Go's container/heap.Init builds, largest first."""
    for start in range(len(scored) // 2 - 1, -1, -1):
        at = start
        while True:  # down(at): swap with the larger child, the left one of equals, while it is larger
            child = 2 * at + 1
            if child >= len(scored):
                break
            if child + 1 < len(scored) and scored[child + 1][0] > scored[child][0]:
                child += 1
            if not scored[child][0] > scored[at][0]:
                break
            scored[at], scored[child] = scored[child], scored[at]
            at = child
    return scored[0][1]


class ReferenceKube:
    """One scheduler and the cluster it believes in."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        version: str = "1.36",
        budgets: Sequence[DisruptionBudget] = (),
        random_below: Callable[[int], int] | None = None,
        percentage: int = 0,
        scoring_strategy: str = "LeastAllocated",
    ) -> None:
        major, minor = version.split(".")[:2]
        self._version = (int(major), int(minor))
        self._state = ClusterState(nodes)
        self._budgets = tuple(budgets)
        self._random_below = random_below or random.Random(0).randrange
        self._percentage = percentage
        self._strategy = scoring_strategy
        self._start = 0

    def place(self, pod: Pod, node: int, now: float = 0.0) -> None:
        """Run `pod` on `node` from `now` on; that it may be there is not checked."""
        self._state.add(pod, node, now)

    def remove(self, pod_name: str) -> None:
        """End a pod."""
        self._state.remove(pod_name)

    def gpu_left(self, node: int) -> list[int]:
        """Milli-GPU left on each device of the node."""
        return self._state.gpu_left(node)

    def node_order(self) -> list[int]:
        """All nodes, round robin over the zones in order of their first node."""
        return list(round_robin_by_zone(self._state.nodes))

    def filter(self, pod: Pod, node: int) -> FilterResult | None:
        """Why the pod cannot go to the node: the first plugin that says no; None if it can."""
        return first_failure(self._state, pod, node)

    def fit_error(self, pod: Pod) -> str:
        """What is said of a pod that no node takes."""
        return kube_words.fit_error(self._state, pod)

    def preemption_error(self, pod: Pod) -> str:
        """What is added where evicting helps on no node."""
        return kube_words.preemption_error(self._state, pod)

    def feasible(self, pod: Pod) -> list[int]:
        """Feasible nodes as visited from the rotating start; one feasible node too many ends the search.

        The next search starts as many nodes further as this one found or refused (schedule_one.go).
        """
        names = named_nodes(pod)
        order = [n for n in self.node_order() if names is None or self._state.nodes[n].name in names]
        if pod.spec.missing_claim:
            order = []
        wanted = feasible_nodes_to_find(len(order), self._percentage)
        nodes: list[int] = []
        refused = 0
        for step in range(len(order)):
            node = order[(self._start + step) % len(order)]
            if self.filter(pod, node) is not None:
                refused += 1
            elif len(nodes) == wanted:
                break
            else:
                nodes.append(node)
        self._start = (self._start + len(nodes) + refused) % len(self._state.nodes)
        return nodes

    def scores(self, pod: Pod, feasible: Sequence[int]) -> dict[str, list[int]]:
        """Normalised scores before weights, aligned with `feasible`; plugins that skip the pod are absent."""
        state = self._state
        every: dict[str, list[int] | None] = {
            "TaintToleration": kube_scores.taint_toleration(state, pod, feasible),
            "NodeAffinity": kube_scores.node_affinity(state, pod, feasible),
            "NodeResourcesFit": kube_scores.node_resources_fit(state, pod, feasible, self._strategy),
            "PodTopologySpread": kube_scores.pod_topology_spread(state, pod, feasible),
            "InterPodAffinity": kube_scores.inter_pod_affinity(state, pod, feasible),
            "NodeResourcesBalancedAllocation": kube_scores.balanced_allocation(
                state, pod, feasible, self._version
            ),
            "ImageLocality": kube_scores.image_locality(state, pod, feasible, self._version),
        }
        return {plugin: values for plugin, values in every.items() if values is not None}

    def totals(self, pod: Pod, feasible: Sequence[int]) -> list[int]:
        """Sum of weight times score per node, aligned with `feasible`."""
        scores = self.scores(pod, feasible)
        return [
            sum(WEIGHTS[plugin] * scores[plugin][index] for plugin in scores)
            for index in range(len(feasible))
        ]

    def choose(self, pod: Pod) -> int | None:
        """The node kube would take, None if no node is feasible; places nothing."""
        feasible = self.feasible(pod)
        if len(feasible) <= 1:
            return feasible[0] if feasible else None
        totals = self.totals(pod, feasible)
        if self._version >= (1, 35):
            return heap_root(list(zip(totals, feasible, strict=True)))
        chosen, best, equals = feasible[0], totals[0], 1
        for node, total in zip(feasible[1:], totals[1:], strict=True):
            if total > best:
                chosen, best, equals = node, total, 1
            elif total == best:
                # Reservoir sampling in visited order, as in selectHost: the k-th equal replaces with 1/k.
                equals += 1
                if self._random_below(equals) == 0:
                    chosen = node
        return chosen

    def victims(self, pod: Pod, node: int) -> tuple[list[str], int] | None:
        """Whom the pod would evict from the node and how many of these break a budget; None if no help."""
        candidate = dry_run(self._state, self._budgets, pod, node)
        if candidate is None:
            return None
        return [running.pod.name for running in candidate.victims], candidate.violations

    def preempt(self, pod: Pod, offset: int = 0) -> tuple[int, list[str]] | None:
        """The node to preempt on and the victims there; evicts nothing.

        `offset` counts in the list of nodes whose filter result is resolvable, taken in node order.
        """
        if not pod.spec.may_preempt:
            return None
        results = {node: self.filter(pod, node) for node in self.node_order()}
        potential = [node for node, result in results.items() if result is not None and result.resolvable]
        candidates = find_candidates(self._state, self._budgets, pod, potential, offset)
        if not candidates:
            return None
        best = min(candidates, key=hardship)
        return best.node, [running.pod.name for running in best.victims]
