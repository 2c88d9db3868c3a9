"""What kube-scheduler says of a pod that no node takes (Go: framework/types.go, FitError.Error)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from proreus.model.pod import Pod
from tests.oracles.kube_filters import first_failure
from tests.oracles.kube_state import ClusterState


def fit_error(state: ClusterState, pod: Pod) -> str:
    """The first half: why each node is out."""
    reasons = []
    for node in range(len(state.nodes)):
        failure = first_failure(state, pod, node)
        assert failure is not None, "a node takes the pod"
        reasons.append(failure.reason)
    return _histogram(len(state.nodes), reasons)


def preemption_error(state: ClusterState, pod: Pod) -> str:
    """The second half, of a pod that may evict: why that helps on no node (Go: SelectVictimsOnNode)."""
    reasons = []
    for node in range(len(state.nodes)):
        failure = first_failure(state, pod, node)
        lower = [running for running in state.on_node(node) if running.pod.spec.priority < pod.spec.priority]
        if failure is None or not failure.resolvable:
            reasons.append("Preemption is not helpful for scheduling")
        elif not lower:
            reasons.append("No preemption victims found for incoming pod")
        else:
            everything = dict(state.running)
            for running in lower:
                state.remove(running.pod.name)
            remaining = first_failure(state, pod, node)
            state.running = everything
            assert remaining is not None, "evicting helps"
            reasons.append(remaining.reason)
    return f"preemption: {_histogram(len(state.nodes), reasons)}"


def _histogram(nodes: int, reasons: Iterable[str]) -> str:
    """A plugin that gives several reasons for a node counts for each; texts are sorted with their numbers."""
    counts = Counter(reason for of_node in reasons for reason in of_node.split(", "))
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{nodes} nodes are available: {listed}."
