"""The filter plugins of kube-scheduler, one function each, in the order in which kube runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proreus.model.node import Effect, Taint, hard_effect
from proreus.model.pod import GPU_WHOLE, Pod, PodTerm, SpreadConstraint
from proreus.model.resources import PODS
from tests.oracles.kube_state import (
    ClusterState,
    amounts,
    named_nodes,
    node_affinity_allows,
    pod_amounts,
    pod_term_matches,
)

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
EVERY_ADDRESS = "0.0.0.0"
DEFAULT_PROTOCOL = "TCP"
SPREAD = "node(s) didn't match pod topology spread constraints"
GPU_NEVER = "node(s) didn't have the requested GPU model or number"


@dataclass(frozen=True)
class FilterResult:
    """Why a node is out, in the plugin's words; `resolvable`: evicting could help (not ...Unresolvable)."""

    plugin: str
    reason: str
    resolvable: bool


def before_filters(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """What PreFilter settles: who names nodes goes to no other, whose claim is missing goes nowhere."""
    names = named_nodes(pod)
    if pod.spec.missing_claim and names != set():
        return FilterResult("VolumeRestrictions", "persistentvolumeclaim not found", False)
    if names is not None and state.nodes[node].name not in names:
        return FilterResult("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]", False)
    return None


def node_name(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """A pod that names its node goes nowhere else."""
    if pod.spec.node_name in ("", state.nodes[node].name):
        return None
    return FilterResult("NodeName", "node(s) didn't match the requested node name", False)


def node_unschedulable(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """A cordoned node takes only pods that tolerate the taint that cordoning stands for."""
    if not state.nodes[node].unschedulable:
        return None
    if any(toleration.tolerates(UNSCHEDULABLE_TAINT) for toleration in pod.spec.tolerations):
        return None
    return FilterResult("NodeUnschedulable", "node(s) were unschedulable", False)


def taint_toleration(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """Every NoSchedule and NoExecute taint must be tolerated."""
    for taint in state.nodes[node].taints:
        if hard_effect(taint.effect) and not any(each.tolerates(taint) for each in pod.spec.tolerations):
            return FilterResult("TaintToleration", "node(s) had untolerated taint(s)", False)
    return None


def node_affinity(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """nodeSelector and required node affinity."""
    if node_affinity_allows(pod, state.nodes[node]):
        return None
    return FilterResult("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", False)


def node_ports(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """No two pods of a node may use one port of one protocol on overlapping addresses."""
    for wanted in pod.spec.host_ports:
        for running in state.on_node(node):
            if any(ports_conflict(wanted, used) for used in running.pod.spec.host_ports):
                return FilterResult(
                    "NodePorts", "node(s) didn't have free ports for the requested pod ports", True
                )
    return None


def ports_conflict(first: tuple[str, str, int], second: tuple[str, str, int]) -> bool:
    """Same protocol and port, and the addresses equal or one of them every address."""
    # Defaults as in Go's HostPortInfo.sanitize: no address is 0.0.0.0, no protocol is TCP.
    addresses = {first[0] or EVERY_ADDRESS, second[0] or EVERY_ADDRESS}
    protocols = {first[1] or DEFAULT_PROTOCOL, second[1] or DEFAULT_PROTOCOL}
    return (
        first[2] == second[2] and len(protocols) == 1 and (len(addresses) == 1 or EVERY_ADDRESS in addresses)
    )


def node_resources_fit(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """Every resource the pod asks for must be free; what it does not ask for is not looked at."""
    allocatable, requested = amounts(state.nodes[node].allocatable), state.requested(node)
    reasons, resolvable = [], True
    wanted, machine = pod.spec.gpu, state.nodes[node]
    if wanted.count and wanted.milli == GPU_WHOLE:
        # Whole devices are the extended resource nvidia.com/gpu.
        if sum(left >= GPU_WHOLE for left in state.gpu_left(node)) < wanted.count:
            reasons.append("Insufficient nvidia.com/gpu")
            resolvable = machine.gpu_count >= wanted.count
    for name, amount in pod_amounts(pod).items():
        if amount > 0 and amount > allocatable.get(name, 0) - requested.get(name, 0):
            reasons.append("Too many pods" if name == PODS else f"Insufficient {name}")
            # Go (fit.go, fitsRequest) marks only real resources as beyond help, never the number of pods;
            # one resource beyond help makes the whole node so.
            if name != PODS and amount > allocatable.get(name, 0):
                resolvable = False
    return FilterResult("NodeResourcesFit", ", ".join(reasons), resolvable) if reasons else None


def gpu(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """An allowed model, and enough devices with a large enough share left (our plugin, not one of kube's)."""
    wanted, machine = pod.spec.gpu, state.nodes[node]
    if wanted.count == 0:
        return None
    if wanted.models and machine.gpu_model not in wanted.models:
        return FilterResult("Gpu", GPU_NEVER, False)
    if machine.gpu_count < wanted.count:
        return FilterResult("Gpu", GPU_NEVER, False)
    if sum(left >= wanted.milli for left in state.gpu_left(node)) < wanted.count:
        return FilterResult("Gpu", "node(s) didn't have enough free GPU share", True)
    return None


def matching_pods(state: ClusterState, constraint: SpreadConstraint, pod: Pod, node: int) -> int:
    """Pods of the incoming pod's namespace on the node that the constraint selects."""
    # An empty selector counts no pod at all (Go: podtopologyspread/common.go, countPodsMatchSelector).
    if not constraint.selector.requirements:
        return 0
    return sum(
        running.pod.spec.namespace == pod.spec.namespace
        and not running.pod.spec.terminating
        and constraint.selector.matches(dict(running.pod.spec.labels))
        for running in state.on_node(node)
    )


def has_all_keys(labels: dict[str, str], constraints: Sequence[SpreadConstraint]) -> bool:
    """Whether a node has the topology key of every constraint."""
    return all(constraint.topology_key in labels for constraint in constraints)


def pod_topology_spread(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """The DoNotSchedule constraints, in the order of the pod; the first that fails gives the verdict."""
    hard = [constraint for constraint in pod.spec.spread if constraint.hard]
    own_labels = state.nodes[node].label_map()
    for constraint in hard:
        if constraint.topology_key not in own_labels:
            return FilterResult("PodTopologySpread", f"{SPREAD} (missing required label)", False)
        counts = domain_counts(state, pod, constraint, hard)
        least = min(counts.values()) if len(counts) >= constraint.min_domains else 0
        itself = 1 if constraint.selector.matches(dict(pod.spec.labels)) else 0
        skew = counts.get(own_labels[constraint.topology_key], 0) + itself - least
        if skew > constraint.max_skew:
            return FilterResult("PodTopologySpread", SPREAD, True)
    return None


def domain_counts(
    state: ClusterState, pod: Pod, constraint: SpreadConstraint, hard: Sequence[SpreadConstraint]
) -> dict[str, int]:
    """Matching pods per value of the topology key, over the nodes that count.

    Those that carry the keys of all hard constraints, not only of this one, and that its policies include.
    """
    counts: dict[str, int] = {}
    for index, machine in enumerate(state.nodes):
        labels = machine.label_map()
        if included(state, pod, constraint, index) and has_all_keys(labels, hard):
            value = labels[constraint.topology_key]
            counts[value] = counts.get(value, 0) + matching_pods(state, constraint, pod, index)
    return counts


def included(state: ClusterState, pod: Pod, constraint: SpreadConstraint, node: int) -> bool:
    """nodeAffinityPolicy and nodeTaintsPolicy: whether the pods of the node count (Go: common.go)."""
    if constraint.honors_affinity and not node_affinity_allows(pod, state.nodes[node]):
        return False
    return not constraint.honors_taints or taint_toleration(state, pod, node) is None


def inter_pod_affinity(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """Required affinity, then the pod's own required anti-affinity, then that of the pods already there."""
    if not affinity_holds(state, pod, node):
        return FilterResult("InterPodAffinity", "node(s) didn't match pod affinity rules", False)
    labels = state.nodes[node].label_map()
    for running in state.running.values():
        there = state.nodes[running.node].label_map()
        for term in pod.spec.anti_affinity.required:
            if same_domain(term, labels, there) and pod_term_matches(term, pod, running.pod):
                return FilterResult("InterPodAffinity", "node(s) didn't match pod anti-affinity rules", True)
    for running in state.running.values():
        there = state.nodes[running.node].label_map()
        for term in running.pod.spec.anti_affinity.required:
            if same_domain(term, labels, there) and pod_term_matches(term, running.pod, pod):
                return FilterResult(
                    "InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules", True
                )
    return None


def same_domain(term: PodTerm, first: dict[str, str], second: dict[str, str]) -> bool:
    """Whether two nodes both have the term's topology key, with one value."""
    return term.topology_key in first and first[term.topology_key] == second.get(term.topology_key)


def affinity_holds(state: ClusterState, pod: Pod, node: int) -> bool:
    """Required pod affinity, with the exception for the first pod of a series that likes itself."""
    terms = pod.spec.affinity.required
    labels = state.nodes[node].label_map()
    if any(term.topology_key not in labels for term in terms):
        return False
    # A running pod counts only if it matches all terms; it then counts for each key its node has.
    pairs = set()
    for running in state.running.values():
        if all(pod_term_matches(term, pod, running.pod) for term in terms):
            there = state.nodes[running.node].label_map()
            pairs |= {
                (term.topology_key, there[term.topology_key]) for term in terms if term.topology_key in there
            }
    if all((term.topology_key, labels[term.topology_key]) in pairs for term in terms):
        return True
    # Go (interpodaffinity/filtering.go, satisfyPodAffinity): "no pod matches anywhere" means that no pair was
    # counted, so a matching pod on a node without any of the keys does not forbid the exception.
    return not pairs and all(pod_term_matches(term, pod, pod) for term in terms)


FILTERS: tuple[Callable[[ClusterState, Pod, int], FilterResult | None], ...] = (
    before_filters,
    node_unschedulable,
    node_name,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources_fit,
    gpu,
    pod_topology_spread,
    inter_pod_affinity,
)


def first_failure(state: ClusterState, pod: Pod, node: int) -> FilterResult | None:
    """The verdict of the first plugin that rejects the node; None if all let it pass."""
    for plugin in FILTERS:
        result = plugin(state, pod, node)
        if result is not None:
            return result
    return None
