"""What `kube` remembers changes nothing but its speed: with and without it every decision is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.rng import next_below, seeded
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import KubeVersion, PolicyOptions, Strategy, make_policy
from proreus.worlds.pods.policies.rules import policy as binding
from proreus.worlds.pods.policies.rules.choose import choose, find_feasible, kube_node
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.memory import (
    catch_up,
    forget_class,
    known_hopeless,
    known_verdict,
    new_memory,
    note_hopeless,
)
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.policies.rules.preempt import choose_preemption
from proreus.worlds.pods.policies.rules.spread_memory import prepare_known
from proreus.worlds.pods.simulation.kernel import APPLIED, FINISHED, advance, apply
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.filters import OK, RESOURCES
from proreus.worlds.pods.state.legality import local_refusal, prepare
from proreus.worlds.pods.state.placement import place, remove
from tests.worlds.pods.strategies import FLAVOURS, workloads

VERSIONS: tuple[KubeVersion, ...] = ("1.34", "1.35", "1.36")
STRATEGIES: tuple[Strategy, ...] = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
RELATED = (*FLAVOURS, *("affinity", "anti", "spread") * 4)
NOWHERE = -1


@pytest.fixture(scope="module", autouse=True)
def always_with_cells() -> Iterator[None]:
    """Also where classes hardly repeat."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "_CACHE_REPEATS", 0)
        yield


def kube(name: str = "kube", seed: int = 0, *, cache: bool = True, **options: Any) -> RulePolicy:
    """The rule with or without its memory."""
    policy = make_policy(name, PolicyOptions(**options), seed)
    assert isinstance(policy, RulePolicy)
    return RulePolicy(replace(policy.options, cache=cache))


def repeated(workload: Workload, times: int) -> Workload:
    """The same pods again and again, each time after the last of them came: classes are asked about often."""
    span = workload.pods[-1].arrival + 1.0
    pods = tuple(
        replace(pod, name=f"{pod.name}-{turn}", arrival=pod.arrival + turn * span)
        for turn in range(times)
        for pod in workload.pods
    )
    return replace(workload, pods=pods)


class Beside:
    """One run, decided about twice: by a rule with a memory and by one without."""

    def __init__(self, compiled: Compiled, knowing: RulePolicy, plain: RulePolicy) -> None:
        self.world = PodsWorld(compiled)
        self.cluster, self.state, self.scratch = compiled.cluster, self.world.state, self.world.scratch
        self.knowing = knowing.rule_for(compiled, self.state)
        self.plain = plain.rule_for(compiled, self.state)
        self.preempted = 0

    def run(self, stray: int) -> None:
        """Every decision twice; one in so many is another than the rule's, so that anything may happen."""
        draws = seeded(stray)
        nodes = self.state.first.shape[0]
        while (pod := advance(self.cluster, self.state, self.world.run)) != FINISHED:
            action, devices = self.agree_on(pod)
            if next_below(draws, stray) == 0:
                action, devices = next_below(draws, 2 * nodes + 1), 0
            choice = (action, devices)
            if apply(self.cluster, self.state, self.world.run, self.scratch, pod, choice) != APPLIED:
                delay = (2 * nodes, 0)
                assert apply(self.cluster, self.state, self.world.run, self.scratch, pod, delay) == APPLIED
            elif nodes <= action < 2 * nodes:
                self.preempted += 1

    def agree_on(self, pod: int) -> tuple[int, int]:
        """The choice of both, after everything that leads to it was compared."""
        c = int(self.cluster.pod_class[pod])
        knowing, plain = self.search(self.knowing, c), self.search(self.plain, c)
        assert knowing == plain
        both = [choose(self.cluster, self.state, self.scratch, r, pod) for r in (self.knowing, self.plain)]
        assert both[0] == both[1]
        self.same_memory()
        return both[0]

    def search(self, rule: PodRule, c: int) -> tuple[object, ...]:
        """Feasible nodes in order, next start, node, totals, node to evict from; the rule is as it was."""
        cursor, rng = rule.cursor.copy(), rule.rng.copy()
        count = find_feasible(self.cluster, self.state, self.scratch, rule, c)
        feasible, following = self.scratch.nodes[:count].tolist(), int(rule.cursor[0])
        rule.cursor[:] = cursor
        chosen = kube_node(self.cluster, self.state, self.scratch, rule, c)
        totals = rule.totals[:count].tolist() if count > 1 else []
        evicting = choose_preemption(self.cluster, self.state, self.scratch, rule, c)
        drawn = int(rule.rng[0])
        rule.cursor[:], rule.rng[:] = cursor, rng
        return feasible, following, chosen, totals, evicting, drawn

    def same_memory(self) -> None:
        assert self.knowing.cursor[0] == self.plain.cursor[0]
        assert self.knowing.rng[0] == self.plain.rng[0]


@settings(max_examples=60)
@given(
    workloads(most_pods=14, flavours=RELATED),
    st.sampled_from(VERSIONS),
    st.sampled_from(STRATEGIES),
    st.sampled_from(("kube", "kube_plus")),
    st.integers(2, 40),
)
def test_random_histories_decision_by_decision(
    workload: Workload, version: KubeVersion, strategy: Strategy, name: str, stray: int
) -> None:
    compiled = compile_workload(repeated(workload, 8))
    options: dict[str, Any] = {"kube_version": version, "kube_strategy": strategy}
    knowing, plain = kube(name, 5, **options), kube(name, 5, cache=False, **options)
    Beside(compiled, knowing, plain).run(stray)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_crowded_cluster_decision_by_decision(version: KubeVersion) -> None:
    """Sampling, pods that are tried again in vain, evictions, budgets, and a ring that is lapped."""
    compiled = compile_workload(generate("large", 1, nodes=130, pods=900, peak_load=1.3, apart_pods=0.2))
    knowing, plain = kube(seed=2, kube_version=version), kube(seed=2, cache=False, kube_version=version)
    beside = Beside(compiled, knowing, plain)
    beside.run(50)
    assert beside.preempted > 10
    assert beside.state.counts[0] > beside.state.changed.shape[0]
    assert 0 < knowing.scores_computed() < plain.scores_computed()


@pytest.mark.parametrize("name", ["kube", "kube_plus"])
def test_a_whole_run_is_the_same(name: str) -> None:
    compiled = compile_workload(generate("large", 3, nodes=120, pods=700, peak_load=1.2))
    knowing, plain = simulate(compiled, kube(name)), simulate(compiled, kube(name, cache=False))
    assert repr(knowing.log) == repr(plain.log)


def test_cells_are_not_worth_it_where_classes_hardly_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_workload(generate("small", 0))
    monkeypatch.setattr(binding, "_CACHE_REPEATS", 1 + len(compiled.workload.pods) // len(compiled.specs))
    memory = kube().rule_for(compiled, PodsWorld(compiled).state).memory
    assert memory.judged.size == 0 and memory.barren.size == len(compiled.specs)


def test_without_room_for_cells_only_those_that_fit_nowhere_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "_CACHE_BYTES", 1)
    compiled = compile_workload(generate("large", 1, nodes=110, pods=500, peak_load=1.3))
    beside = Beside(compiled, kube(), kube(cache=False))
    assert beside.knowing.memory.judged.size == 0 and beside.knowing.memory.sums.size == 0
    beside.run(60)
    assert (beside.knowing.memory.barren >= 0).any()


@settings(max_examples=40)
@given(workloads(most_pods=20, flavours=RELATED), st.integers(0, 99))
def test_sums_per_domain_are_those_that_are_counted_anew(workload: Workload, seed: int) -> None:
    compiled = compile_workload(workload)
    world, policy = PodsWorld(compiled), kube()
    cluster, state, scratch = compiled.cluster, world.state, world.scratch
    memory, draws = policy.rule_for(compiled, state).memory, seeded(seed)
    for _ in range(60):
        pod = next_below(draws, len(workload.pods))
        if state.pod_node[pod] >= 0:
            remove(cluster, state, pod)
        else:
            place(cluster, state, pod, next_below(draws, len(workload.nodes)), 0, 0.0)
        c = next_below(draws, len(compiled.specs))
        prepare_known(cluster, state, memory, c, scratch)
        known = (scratch.spread_count.tolist(), scratch.spread_min.tolist())
        prepare(cluster, state, c, scratch)
        assert known == (scratch.spread_count.tolist(), scratch.spread_min.tolist())


def full_cluster(priority: int) -> tuple[PodsWorld, PodRule, int]:
    """Three nodes full of pods of that priority; the rule; a class of priority 10 that fits on none."""
    nodes = tuple(Node(f"n{i}", Resources(cpu=1000, memory=GIB, pods=10)) for i in range(3))
    small, large = PodSpec(Resources(cpu=900), priority=priority), PodSpec(Resources(cpu=950), priority=10)
    idle = PodSpec(Resources(cpu=1), priority=-1)  # somebody whom all others might evict, but not there
    pods = (*(Pod(f"s{i}", small) for i in range(3)), Pod("large", large), Pod("idle", idle))
    compiled = compile_workload(Workload("full", nodes, pods))
    world = PodsWorld(compiled)
    for i in range(3):
        place(world.cluster, world.state, i, i, 0, 0.0)
    return world, kube().rule_for(compiled, world.state), int(compiled.cluster.pod_class[3])


def test_nodes_that_did_not_change_are_not_judged_again() -> None:
    """Room that comes without a note in the ring is not seen; noted, it is."""
    world, rule, c = full_cluster(priority=10)
    cluster, state, scratch = world.cluster, world.state, world.scratch
    assert kube_node(cluster, state, scratch, rule, c) == NOWHERE
    state.free[1, 0] += 900
    assert kube_node(cluster, state, scratch, rule, c) == NOWHERE
    assert (
        known_verdict(cluster, state, rule.memory, c, 1) == RESOURCES != local_refusal(cluster, state, c, 1)
    )
    state.changed[state.counts[0] % state.changed.shape[0]] = 1
    state.counts[0] += 1
    assert kube_node(cluster, state, scratch, rule, c) == 1


def test_a_failed_dry_run_is_not_repeated() -> None:
    """Nobody of lower priority to evict; a change behind the memory's back is not seen, a noted one is."""
    world, rule, c = full_cluster(priority=10)
    cluster, state, scratch = world.cluster, world.state, world.scratch
    assert choose_preemption(cluster, state, scratch, rule, c) == NOWHERE
    assert all(known_hopeless(rule.memory, c, n) for n in range(3))
    cluster.classes.priority[cluster.pod_class[2]] = 0
    assert choose_preemption(cluster, state, scratch, rule, c) == NOWHERE
    remove(cluster, state, 2)
    place(cluster, state, 2, 2, 0, 0.0)
    assert choose_preemption(cluster, state, scratch, rule, c) == 2


def test_a_node_that_evicting_does_not_help_can_still_take_a_pod() -> None:
    """Nobody can be evicted from an empty node; that is no reason to refuse it."""
    world, rule, c = full_cluster(priority=10)
    cluster, state, scratch = world.cluster, world.state, world.scratch
    remove(cluster, state, 0)
    catch_up(state, rule.memory)
    note_hopeless(cluster, state, rule.memory, c, 0)
    assert known_hopeless(rule.memory, c, 0)
    assert known_verdict(cluster, state, rule.memory, c, 0) == OK
    assert kube_node(cluster, state, scratch, rule, c) == 0


def test_a_class_in_the_row_of_another() -> None:
    world, rule, c = full_cluster(priority=10)
    cluster, state, scratch = world.cluster, world.state, world.scratch
    assert kube_node(cluster, state, scratch, rule, c) == NOWHERE
    cluster.classes.request[c, 0] = 100
    assert kube_node(cluster, state, scratch, rule, c) == NOWHERE
    forget_class(rule.memory, c)
    assert kube_node(cluster, state, scratch, rule, c) != NOWHERE


def test_a_state_that_was_cleared_is_judged_anew() -> None:
    world, rule, c = full_cluster(priority=10)
    cluster, state, scratch = world.cluster, world.state, world.scratch
    assert kube_node(cluster, state, scratch, rule, c) == NOWHERE
    for pod in range(3):
        remove(cluster, state, pod)
    state.counts[0] = 0
    assert kube_node(cluster, state, scratch, rule, c) != NOWHERE


def test_a_memory_takes_no_more_than_it_may() -> None:
    cluster = compile_workload(generate("large", 0, nodes=300, pods=900)).cluster
    ample = new_memory(cluster, 1 << 40)
    cells = (ample.judged, ample.verdict, ample.scored, ample.score)
    rows = (ample.counted, ample.counted_in, ample.sums, ample.homes)
    taken = sum(array.nbytes for array in (*cells, *rows))
    assert all(array.size > 0 for array in (*cells, *rows))
    assert new_memory(cluster, taken).judged.size > 0
    assert new_memory(cluster, taken - 1).judged.size == 0
    assert new_memory(cluster, taken - 1).sums.size == 0
