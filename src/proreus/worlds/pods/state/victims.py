"""Whom preemption evicts from a node: kube-scheduler's dry run, disruption budgets included."""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.legality import (
    has_relations,
    local_refusal,
    refusal,
    related_refusal,
    shift_prepared,
)
from proreus.worlds.pods.state.placement import shift_room, shift_terms

# Why evicting does not help: the node itself is too small for that, or pods elsewhere are in the way.
HOPELESS, ELSEWHERE = -1, -2

# Marks of the pods under consideration on a node.
_KEPT = 0
_LOWER = 1
_VIOLATING = 2
_VICTIM = 3
_VIOLATING_VICTIM = 4


@compiled
def allowed_disruptions(cluster: Cluster, state: State, b: int) -> int:
    """How many pods of budget b may be disturbed now; those that wait for a node are disturbed already."""
    if cluster.budgets.allowed[b] >= 0:
        return cluster.budgets.allowed[b]
    healthy, wanted = state.healthy[b], cluster.budgets.min_available[b]
    if cluster.budgets.max_unavailable[b] >= 0:
        wanted = max(state.expected[b], healthy) - cluster.budgets.max_unavailable[b]
    return max(0, healthy - max(wanted, 0))


@compiled
def more_important(cluster: Cluster, state: State, a: int, b: int) -> bool:
    """Kube's order of pods: higher priority, then earlier start, then placed earlier."""
    first, second = (
        cluster.classes.priority[cluster.pod_class[a]],
        cluster.classes.priority[cluster.pod_class[b]],
    )
    if first != second:
        return first > second
    if state.pod_since[a] != state.pod_since[b]:
        return state.pod_since[a] < state.pod_since[b]
    return state.pod_rank[a] < state.pod_rank[b]


@compiled
def choose_victims(cluster: Cluster, state: State, c: int, n: int, scratch: Scratch) -> tuple[int, int]:
    """(number of victims, budgets violated) of placing class c on node n; below 0 if evicting does not help.

    HOPELESS, 0: nor will it as long as the node stays as it is. ELSEWHERE, 0: pods elsewhere are against it.
    The victims are left at the front of `scratch.pods`: those that violate a budget first, then the
    others, each most important first. `prepare` must have run for class c; the state and what was prepared
    are as before when this returns.
    """
    if not room_by_eviction(cluster, state, c, n):
        return HOPELESS, 0
    priority = cluster.classes.priority[c]
    total = 0
    pod = state.first[n]
    while pod >= 0:
        if cluster.classes.priority[cluster.pod_class[pod]] < priority:
            # Insertion keeps the list sorted by importance; nodes hold at most a few hundred pods.
            at = total
            while at > 0 and more_important(cluster, state, pod, scratch.pods[at - 1]):
                scratch.pods[at] = scratch.pods[at - 1]
                at -= 1
            scratch.pods[at] = pod
            total += 1
        pod = state.following[pod]

    for i in range(total):
        _shift(cluster, state, scratch, c, (scratch.pods[i], n, -1))
    hopeless = local_refusal(cluster, state, c, n) != OK
    if hopeless or related_refusal(cluster, state, c, n, scratch) != OK:
        for i in range(total):
            _shift(cluster, state, scratch, c, (scratch.pods[i], n, 1))
        return HOPELESS if hopeless else ELSEWHERE, 0

    _mark_violations(cluster, state, scratch, total)
    violations = 0
    for mark, outcome in ((_VIOLATING, _VIOLATING_VICTIM), (_LOWER, _VICTIM)):
        for i in range(total):  # reprieve those whose eviction would break a budget first
            if scratch.flags[i] != mark:
                continue
            pod = scratch.pods[i]
            _shift(cluster, state, scratch, c, (pod, n, 1))
            if refusal(cluster, state, c, n, scratch) == OK:
                scratch.flags[i] = _KEPT
            else:
                _shift(cluster, state, scratch, c, (pod, n, -1))
                scratch.flags[i] = outcome
                if mark == _VIOLATING:
                    violations += 1
    victims = _collect(scratch, total)
    for i in range(victims):
        _shift(cluster, state, scratch, c, (scratch.pods[i], n, 1))
    return victims, violations


@compiled
def room_by_eviction(cluster: Cluster, state: State, c: int, n: int) -> bool:
    """Whether node n has pods of lower priority than class c, and would have every resource without them."""
    classes = cluster.classes
    lower = False
    pod = state.first[n]
    while pod >= 0 and not lower:
        lower = classes.priority[cluster.pod_class[pod]] < classes.priority[c]
        pod = state.following[pod]
    if not lower:
        return False
    for r in range(state.free.shape[1]):
        need, free = classes.request[c, r], state.free[n, r]
        pod = state.first[n]
        while pod >= 0 and free < need:
            other = cluster.pod_class[pod]
            if classes.priority[other] < classes.priority[c]:
                free += classes.request[other, r]
            pod = state.following[pod]
        if free < need and need > 0:
            return False
    return True


@compiled
def shift_lower(cluster: Cluster, state: State, scratch: Scratch, c: int, step: tuple[int, int]) -> int:
    """All pods of lower priority than class c leave the node or come back; step = (node, -1 or 1).

    Returns how many there are. As in the dry run below, the reverse step restores everything.
    """
    n, sign = step
    lower = 0
    pod = state.first[n]
    while pod >= 0:
        if cluster.classes.priority[cluster.pod_class[pod]] < cluster.classes.priority[c]:
            _shift(cluster, state, scratch, c, (pod, n, sign))
            lower += 1
        pod = state.following[pod]
    return lower


@compiled
def _shift(cluster: Cluster, state: State, scratch: Scratch, c: int, step: tuple[int, int, int]) -> None:
    """A step of the dry run for class c: the pod leaves the node or comes back; step = (pod, node, -1 or 1).

    Only what the filters of class c read is changed, and all of that is whole numbers: the reverse step
    restores it. The pod stays in the node's list.
    """
    pod, n, sign = step
    other = cluster.pod_class[pod]
    shift_room(cluster, state, other, (n, state.pod_devices[pod]), sign)
    if has_relations(cluster, c):
        shift_terms(cluster, state, other, n, sign)
        shift_prepared(cluster, scratch, c, (other, n), sign)


@compiled
def _mark_violations(cluster: Cluster, state: State, scratch: Scratch, total: int) -> None:
    """Flag each pod of the list by whether evicting it, after those before it, breaks a budget."""
    budgets = state.healthy.shape[0]
    for b in range(budgets):
        scratch.taken[b] = 0
    for i in range(total):
        scratch.flags[i] = _LOWER
        c = cluster.pod_class[scratch.pods[i]]
        for b in range(budgets):
            if cluster.budgets.selects[b, c]:
                scratch.taken[b] += 1
                if scratch.taken[b] > allowed_disruptions(cluster, state, b):
                    scratch.flags[i] = _VIOLATING


@compiled
def _collect(scratch: Scratch, total: int) -> int:
    """Move the victims to the front of the list: budget-breaking ones first, order kept otherwise."""
    victims = 0
    for wanted in (_VIOLATING_VICTIM, _VICTIM):
        for i in range(victims, total):
            if scratch.flags[i] == wanted:
                pod, flag = scratch.pods[i], scratch.flags[i]
                at = i
                while at > victims:
                    scratch.pods[at] = scratch.pods[at - 1]
                    scratch.flags[at] = scratch.flags[at - 1]
                    at -= 1
                scratch.pods[victims] = pod
                scratch.flags[victims] = flag
                victims += 1
    return victims
