"""Where to preempt: kube-scheduler's search for candidates and its choice among them."""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.memory import (
    Memory,
    catch_up,
    known_hopeless,
    known_verdict,
    note_hopeless,
    remembers,
)
from proreus.worlds.pods.policies.rules.spread_memory import prepare_known
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.filters import CURABLE, OK
from proreus.worlds.pods.state.legality import refusal, related_refusal
from proreus.worlds.pods.state.victims import HOPELESS, choose_victims

_OFFSET = 1 << 31  # makes every 32-bit priority positive, so that fewer victims always weigh less


@compiled
def choose_preemption(cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, c: int) -> int:
    """The node to preempt on for class c, or -1; the search starts at a random candidate."""
    lowest = cluster.classes.priority.min()
    if not cluster.classes.may_preempt[c] or cluster.classes.priority[c] <= lowest:
        return -1
    cells = remembers(rule.memory)
    if cells:
        catch_up(state, rule.memory)
    prepare_known(cluster, state, rule.memory, c, scratch)
    potential = 0
    order = cluster.nodes.visit_order
    for i in range(order.shape[0]):
        n = order[i]
        if cells:
            code = known_verdict(cluster, state, rule.memory, c, n)
            if code == OK:
                code = related_refusal(cluster, state, c, n, scratch)
        else:
            code = refusal(cluster, state, c, n, scratch)
        if CURABLE[code]:
            scratch.nodes[potential] = n
            potential += 1
    if potential == 0:
        return -1
    return best_candidate(cluster, state, scratch, rule, (c, potential, next_below(rule.rng, potential)))


@compiled
def best_candidate(
    cluster: Cluster, state: State, scratch: Scratch, rule: PodRule, search: tuple[int, int, int]
) -> int:
    """The best of the nodes in `scratch.nodes`; search = (class, how many nodes there are, where to start).

    `prepare` must have run for the class.
    """
    c, potential, offset = search
    if remembers(rule.memory):
        catch_up(state, rule.memory)
    wanted = min(potential, max(100, potential // 10))
    best = -1
    best_key = (0, 0, 0, 0, 0.0)
    candidates = 0
    broken = 0
    harmless = False
    for i in range(potential):
        n = scratch.nodes[(offset + i) % potential]
        victims, violations = _victims_on(cluster, state, scratch, rule.memory, (c, n))
        if victims <= 0:
            continue
        if violations > 0:
            broken += 1
            if broken > wanted:
                continue  # kube keeps only so many candidates that break a budget
        candidates += 1
        harmless = harmless or violations == 0
        key = _cost(cluster, state, scratch, victims, violations)
        if best < 0 or key < best_key:
            best, best_key = n, key
        if harmless and candidates >= wanted:
            break
    return best


@compiled
def _victims_on(
    cluster: Cluster, state: State, scratch: Scratch, memory: Memory, pair: tuple[int, int]
) -> tuple[int, int]:
    """`choose_victims` for pair = (class, node), without a dry run where one failed on the node as it is."""
    c, n = pair
    cells = remembers(memory)
    if cells and known_hopeless(memory, c, n):
        return HOPELESS, 0
    victims, violations = choose_victims(cluster, state, c, n, scratch)
    if cells and victims == HOPELESS:
        note_hopeless(cluster, state, memory, c, n)
    return victims, violations


@compiled
def _cost(
    cluster: Cluster, state: State, scratch: Scratch, victims: int, violations: int
) -> tuple[int, int, int, int, float]:
    """Kube's criteria in order, smaller is better: broken budgets, highest priority, sum, number, -start."""
    highest = -(1 << 62)
    total = 0
    for i in range(victims):
        priority = cluster.classes.priority[cluster.pod_class[scratch.pods[i]]]
        highest = max(highest, priority)
        total += priority + _OFFSET
    earliest = math.inf
    for i in range(victims):
        pod = scratch.pods[i]
        if cluster.classes.priority[cluster.pod_class[pod]] == highest:
            earliest = min(earliest, state.pod_since[pod])
    return violations, highest, total, victims, -earliest
