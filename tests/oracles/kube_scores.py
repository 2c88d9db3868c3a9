"""The score plugins of kube-scheduler: a number from 0 to 100 for every feasible node, None when skipped."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proreus.model.node import HOSTNAME, Effect, Node
from proreus.model.pod import Pod, PodTerm
from proreus.model.resources import CPU, MEMORY, MIB
from tests.oracles.kube_filters import has_all_keys, included, matching_pods
from tests.oracles.kube_state import ClusterState, node_term_matches, pod_term_matches

MAX_SCORE = 100
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
HARD_POD_AFFINITY_WEIGHT = 1
IMAGE_LEAST = 23 * MIB
IMAGE_MOST_EACH = 1000 * MIB


def taint_toleration(state: ClusterState, pod: Pod, feasible: Sequence[int]) -> list[int]:
    """Fewer untolerated PreferNoSchedule taints are better."""
    raw = [
        sum(
            taint.effect is Effect.PREFER_NO_SCHEDULE
            and not any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
            for taint in state.nodes[node].taints
        )
        for node in feasible
    ]
    most = max(raw, default=0)
    return [MAX_SCORE if most == 0 else MAX_SCORE - MAX_SCORE * count // most for count in raw]


def node_affinity(state: ClusterState, pod: Pod, feasible: Sequence[int]) -> list[int] | None:
    """Weight of the preferred terms that hold; skipped by a pod without preferences."""
    preferred = pod.spec.node_affinity.preferred
    if not preferred:
        return None
    raw = [
        sum(weight for weight, term in preferred if node_term_matches(term, state.nodes[node]))
        for node in feasible
    ]
    most = max(raw, default=0)
    return [0 if most == 0 else MAX_SCORE * weight // most for weight in raw]


def node_resources_fit(state: ClusterState, pod: Pod, feasible: Sequence[int], strategy: str) -> list[int]:
    """LeastAllocated or MostAllocated over CPU and memory, unstated requests counted by their defaults."""
    scores = []
    for node in feasible:
        placed = [running.pod for running in state.on_node(node)]
        parts = []
        for resource, capacity in enumerate(scored_capacity(state.nodes[node])):
            if capacity > 0:
                requested = sum(each.spec.scored_requests()[resource] for each in placed)
                requested += pod.spec.scored_incoming()[resource]
                parts.append(allocation_score(requested, capacity, strategy))
        scores.append(sum(parts) // len(parts) if parts else 0)
    return scores


def scored_capacity(node: Node) -> tuple[int, int]:
    """Allocatable CPU and memory."""
    return node.allocatable.cpu, node.allocatable.memory


def allocation_score(requested: int, capacity: int, strategy: str) -> int:
    """The score of one resource."""
    if strategy == "LeastAllocated":
        return 0 if requested > capacity else (capacity - requested) * MAX_SCORE // capacity
    if strategy == "MostAllocated":
        return min(requested, capacity) * MAX_SCORE // capacity
    raise ValueError(f"the reference knows no scoring strategy {strategy!r}")


def balanced_allocation(
    state: ClusterState, pod: Pod, feasible: Sequence[int], version: tuple[int, int]
) -> list[int] | None:
    """CPU and memory used in like proportion, by real requests; skipped by a pod that asks for neither."""
    asked = (pod.spec.requests.cpu, pod.spec.requests.memory)
    if asked == (0, 0):
        return None
    scores = []
    for node in feasible:
        requested = state.requested(node)
        before = (requested.get(CPU, 0), requested.get(MEMORY, 0))
        after = (before[0] + asked[0], before[1] + asked[1])
        capacity = scored_capacity(state.nodes[node])
        balance_after = balance(after, capacity)
        if version <= (1, 35):
            scores.append(balance_after)
        else:
            scores.append(50 + (50 + balance_after - balance(before, capacity)) // 2)
    return scores


def balance(requested: tuple[int, int], capacity: tuple[int, int]) -> int:
    """100 less the spread of the used shares; a resource the node does not have is left out."""
    shares = [min(1.0, used / there) for used, there in zip(requested, capacity, strict=True) if there > 0]
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * float(MAX_SCORE))


def pod_topology_spread(state: ClusterState, pod: Pod, feasible: Sequence[int]) -> list[int] | None:
    """The ScheduleAnyway constraints: fewer matching pods in the node's domains are better."""
    soft = [constraint for constraint in pod.spec.spread if not constraint.hard]
    if not soft:
        return None
    # Only the scheduler's own constraints forgive a node that lacks a key. Kube applies them when the pod has
    # none of its own, so a single own constraint (hard or soft) brings the demand for all keys.
    demand_keys = any(not constraint.system_default for constraint in pod.spec.spread)
    labels = [node.label_map() for node in state.nodes]
    scored = [node for node in feasible if not demand_keys or has_all_keys(labels[node], soft)]

    raw = dict.fromkeys(scored, 0.0)
    for constraint in soft:
        key = constraint.topology_key
        if key == HOSTNAME:
            counts = {node: matching_pods(state, constraint, pod, node) for node in scored}
            size = len(scored)
        else:
            # A node without the key (system defaults only) makes "" a value too (Go: initPreScoreState).
            values = {labels[node].get(key, "") for node in scored}
            size = len(values)
            per_value = dict.fromkeys(values, 0)
            for node in range(len(state.nodes)):
                # Pods on infeasible nodes count too, if the constraint's policies let their node count.
                counted = not demand_keys or has_all_keys(labels[node], soft)
                if counted and labels[node].get(key, "") in values and included(state, pod, constraint, node):
                    per_value[labels[node].get(key, "")] += matching_pods(state, constraint, pod, node)
            counts = {node: per_value[labels[node].get(key, "")] for node in scored}
        for node in scored:
            if key in labels[node]:
                raw[node] += float(counts[node]) * math.log(size + 2) + float(constraint.max_skew - 1)

    rounded = {node: round_half_up(value) for node, value in raw.items()}
    most, least = max(rounded.values(), default=0), min(rounded.values(), default=0)
    return [
        0
        if node not in rounded
        else MAX_SCORE
        if most == 0
        else MAX_SCORE * (most + least - rounded[node]) // most
        for node in feasible
    ]


def round_half_up(value: float) -> int:
    """Go's math.Round for what is not negative (Python's round would take a half to the even number)."""
    whole = int(value)
    return whole + 1 if value - whole >= 0.5 else whole


def inter_pod_affinity(state: ClusterState, pod: Pod, feasible: Sequence[int]) -> list[int] | None:
    """What the pod prefers of running pods and they of it; skipped when no term of anybody matches."""
    pair_weights: dict[tuple[str, str], int] = {}

    def credit(term: PodTerm, owner: Pod, target: Pod, weight: int, node: int) -> None:
        value = state.nodes[node].label_map().get(term.topology_key)
        if value is not None and pod_term_matches(term, owner, target):
            pair = (term.topology_key, value)
            pair_weights[pair] = pair_weights.get(pair, 0) + weight

    for running in state.running.values():
        other = running.pod
        for weight, term in pod.spec.affinity.preferred:
            credit(term, pod, other, weight, running.node)
        for weight, term in pod.spec.anti_affinity.preferred:
            credit(term, pod, other, -weight, running.node)
        for term in other.spec.affinity.required:
            credit(term, other, pod, HARD_POD_AFFINITY_WEIGHT, running.node)
        for weight, term in other.spec.affinity.preferred:
            credit(term, other, pod, weight, running.node)
        for weight, term in other.spec.anti_affinity.preferred:
            credit(term, other, pod, -weight, running.node)
    # Weights that cancel to zero still count as a match (Go: topologyScore is then not empty).
    if not pair_weights:
        return None

    raw = [
        sum(pair_weights.get(pair, 0) for pair in state.nodes[node].label_map().items()) for node in feasible
    ]
    least, most = min(raw), max(raw)
    # Floating point in this very order, as in Go: 100 * (29 / 100) is 28.999..., so 28.
    return [int(MAX_SCORE * ((value - least) / (most - least))) if most > least else 0 for value in raw]


def image_locality(
    state: ClusterState, pod: Pod, feasible: Sequence[int], version: tuple[int, int]
) -> list[int]:
    """Images already on the node, weighted by their size and by how many nodes have them."""
    images = (*pod.spec.images, *(pod.spec.image_volumes if version >= (1, 36) else ()))
    size: dict[str, int] = {}
    holders: dict[str, set[int]] = {}
    for node, machine in enumerate(state.nodes):
        for name, image_bytes in machine.images:
            # Where sizes differ, that of the first node holds for all (Go: cache.addNodeImageStates).
            size.setdefault(name, image_bytes)
            holders.setdefault(name, set()).add(node)
    most = IMAGE_MOST_EACH * len(pod.spec.images)
    scores = []
    for node in feasible:
        total = 0
        for image in map(tagged, images):
            if node in holders.get(image, ()):
                total += int(float(size[image]) * (len(holders[image]) / len(state.nodes)))
        clamped = max(IMAGE_LEAST, min(total, most))
        scores.append(MAX_SCORE * (clamped - IMAGE_LEAST) // (most - IMAGE_LEAST) if pod.spec.images else 0)
    return scores


def tagged(image: str) -> str:
    """The image name with its tag, "latest" where none is written (Go: normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"
