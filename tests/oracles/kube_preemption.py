"""Preemption as kube-scheduler does it: which pods of a node would have to go, and which node is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proreus.model.pod import Pod
from proreus.model.workload import DisruptionBudget
from tests.oracles.kube_filters import first_failure
from tests.oracles.kube_state import ClusterState, Running

LEAST_CANDIDATES = 100
CANDIDATE_PERCENT = 10
PRIORITY_SHIFT = 2**31
"""Makes every priority non-negative, so that one more victim never lowers the sum."""


@dataclass(frozen=True)
class Candidate:
    """A node and the pods to evict from it: those that violate a budget first, each part by importance."""

    node: int
    victims: tuple[Running, ...]
    violations: int


def candidate_count(potential: int) -> int:
    """How many candidates are enough, of so many nodes on which preemption might help."""
    return min(potential, max(LEAST_CANDIDATES, potential * CANDIDATE_PERCENT // 100))


def dry_run(
    state: ClusterState, budgets: Sequence[DisruptionBudget], pod: Pod, node: int
) -> Candidate | None:
    """Evict all less important pods, then let stay whom we can; the state is as before afterwards."""
    lower = [running for running in state.on_node(node) if running.pod.spec.priority < pod.spec.priority]
    # Most important first: higher priority, then earlier start, then placed earlier.
    lower.sort(key=lambda running: (-running.pod.spec.priority, running.start, running.order))
    violating, others = split_by_budget(state, budgets, lower)
    everything = dict(state.running)
    try:
        for running in lower:
            state.remove(running.pod.name)
        if first_failure(state, pod, node) is not None:
            return None
        victims_violating = [running for running in violating if not reprieve(state, pod, running)]
        victims_others = [running for running in others if not reprieve(state, pod, running)]
    finally:
        state.running = everything
    victims = (*victims_violating, *victims_others)
    # No victim: the pod fits as things are, or nothing could be evicted. Either way preemption is no help.
    return Candidate(node, victims, len(victims_violating)) if victims else None


def reprieve(state: ClusterState, pod: Pod, running: Running) -> bool:
    """Put the evicted pod back, on its own GPU devices, if the incoming pod still fits beside it."""
    state.restore(running)
    if first_failure(state, pod, running.node) is None:
        return True
    state.remove(running.pod.name)
    return False


def split_by_budget(
    state: ClusterState, budgets: Sequence[DisruptionBudget], pods: Sequence[Running]
) -> tuple[list[Running], list[Running]]:
    """Pods whose eviction breaks a budget, and the others; every pod looked at uses up its budgets."""
    allowed = [disruptions_allowed(state, budget) for budget in budgets]
    violating: list[Running] = []
    others: list[Running] = []
    for running in pods:
        breaks = False
        for index, budget in enumerate(budgets):
            if covers(budget, running.pod):
                allowed[index] -= 1
                breaks = breaks or allowed[index] < 0
        (violating if breaks else others).append(running)
    return violating, others


def covers(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the budget protects the pod.

    As in Go (filterPodsWithPDBViolation) an empty selector protects nothing and a pod without labels is
    never protected.
    """
    return (
        budget.namespace == pod.spec.namespace
        and bool(pod.spec.labels)
        and bool(budget.selector.requirements)
        and budget.selector.matches(dict(pod.spec.labels))
    )


def disruptions_allowed(state: ClusterState, budget: DisruptionBudget) -> int:
    """How many of the protected pods, anywhere in the cluster, may go now; all that run are healthy.

    As in Go (controller/disruption, getExpectedPodCount) pods that wait for a node are expected, too.
    """
    healthy = sum(covers(budget, running.pod) for running in state.running.values())
    if budget.min_available is not None:
        return max(0, healthy - budget.min_available)
    assert budget.max_unavailable is not None  # the model demands exactly one bound
    expected = healthy + sum(covers(budget, pod) for pod in state.waiting)
    return max(0, healthy - max(0, expected - budget.max_unavailable))


def find_candidates(
    state: ClusterState, budgets: Sequence[DisruptionBudget], pod: Pod, potential: Sequence[int], offset: int
) -> list[Candidate]:
    """Candidates from `offset` in the list of potential nodes (Go: DryRunPreemption), until there are enough.

    Enough is: one that violates no budget, and `candidate_count` in all. Go's list of violating candidates
    holds no more than that number; those found beyond it are dropped.
    """
    wanted = candidate_count(len(potential))
    clean: list[Candidate] = []
    violating: list[Candidate] = []
    for step in range(len(potential)):
        candidate = dry_run(state, budgets, pod, potential[(offset + step) % len(potential)])
        if candidate is None:
            continue
        if candidate.violations == 0:
            clean.append(candidate)
        elif len(violating) < wanted:
            violating.append(candidate)
        if clean and len(clean) + len(violating) >= wanted:
            break
    return clean + violating


def hardship(candidate: Candidate) -> tuple[int, int, int, int, float]:
    """What to minimise, first difference first."""
    priorities = [running.pod.spec.priority for running in candidate.victims]
    highest = max(priorities)
    earliest = min(running.start for running in candidate.victims if running.pod.spec.priority == highest)
    return (
        candidate.violations,
        highest,
        sum(priority + PRIORITY_SHIFT for priority in priorities),
        len(candidate.victims),
        -earliest,
    )
