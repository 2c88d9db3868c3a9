"""Over random histories the fast kube rules and the plain reference say the same about everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.rng import next_below, seeded
from proreus.model.node import ZONE, Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, MIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.catalogue import KubeVersion, PolicyOptions, make_policy
from proreus.worlds.pods.policies.rules.choose import heap_root, kube_node
from proreus.worlds.pods.policies.rules.columns import PLUGINS, PodRule
from proreus.worlds.pods.policies.rules.kube_scores import score_nodes
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.state.compile import compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.devices import tightest_devices
from proreus.worlds.pods.state.filters import FILTERS
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.placement import place, remove
from tests.oracles.kube import ReferenceKube
from tests.oracles.kube import heap_root as reference_root
from tests.worlds.pods.strategies import workloads

VERSIONS: tuple[KubeVersion, ...] = ("1.34", "1.35", "1.36")
NOWHERE = -1


def bound_rule(version: KubeVersion, observation: PodObservation, seed: int) -> PodRule:
    """The kube rule of a version over the observed cluster."""
    policy = make_policy("kube", PolicyOptions(kube_version=version), seed)
    assert isinstance(policy, RulePolicy)
    return policy.rule_for(observation.compiled, observation.state)


def agree_on(observation: PodObservation, rule: PodRule, reference: ReferenceKube) -> None:
    """Filters, scores and victims of the pod at hand are the same on every node."""
    pod = observation.subject
    workload = observation.compiled.workload
    codes = observation.refusals().tolist()
    expected = [reference.filter(pod, n) for n in range(len(workload.nodes))]
    assert [(FILTERS[code][0], FILTERS[code][2]) if code else None for code in codes] == [
        result and (result.plugin, result.resolvable) for result in expected
    ]
    feasible = np.array([n for n, code in enumerate(codes) if not code], dtype=np.int64)
    if feasible.size:
        score_nodes(
            observation.cluster, observation.state, rule, observation.pod_class, feasible, feasible.size
        )
        for plugin, values in reference.scores(pod, feasible.tolist()).items():
            assert rule.parts[PLUGINS.index(plugin), : feasible.size].tolist() == values, plugin
    for n, result in enumerate(expected):
        if result is not None:
            victims = observation.victims(n)
            names = None if victims is None else ([workload.pods[p].name for p in victims[0]], victims[1])
            # The reference answers for any node; ours only where evicting can be the cure.
            assert names == (reference.victims(pod, n) if result.resolvable else None), workload.nodes[n].name


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_the_root_of_the_heap_is_that_of_a_heap(totals: list[int]) -> None:
    expected = reference_root([(total, place) for place, total in enumerate(totals)])
    assert heap_root(np.array([*totals, 9], dtype=np.int64), len(totals)) == expected


@settings(max_examples=60)
@given(workloads(most_pods=16), st.sampled_from(VERSIONS), st.integers(0, 3), st.data())
def test_same_choices_over_random_histories(
    workload: Workload, version: KubeVersion, seed: int, data: st.DataObject
) -> None:
    compiled = compile_workload(workload)
    state, scratch = empty_state(compiled.cluster), new_scratch(compiled.cluster)
    draws = seeded(seed)
    reference = ReferenceKube(
        workload.nodes,
        version=version,
        budgets=workload.budgets,
        random_below=lambda bound: next_below(draws, bound),
    )
    rule = bound_rule(version, PodObservation(compiled, state, scratch, 0, 0.0), seed)
    running: list[int] = []
    for index, pod in enumerate(workload.pods):
        observation = PodObservation(compiled, state, scratch, index, pod.arrival)
        agree_on(observation, rule, reference)
        chosen = kube_node(compiled.cluster, state, scratch, rule, observation.pod_class)
        expected = reference.choose(pod)
        assert (None if chosen == NOWHERE else chosen) == expected
        if expected is not None:
            gpu = pod.spec.gpu
            devices = tightest_devices(
                state.gpu_left[expected], workload.nodes[expected].gpu_count, gpu.count, gpu.milli
            )
            place(compiled.cluster, state, index, expected, devices, pod.arrival)
            reference.place(pod, expected, now=pod.arrival)
            running.append(index)
        if running and data.draw(st.sampled_from((False, False, True))):
            gone = running.pop(data.draw(st.integers(0, len(running) - 1)))
            remove(compiled.cluster, state, gone)
            reference.remove(workload.pods[gone].name)


@pytest.mark.parametrize("version", VERSIONS)
def test_same_choices_at_scale(version: KubeVersion) -> None:
    """Sampling, rotation and zones: 260 nodes in three zones, 120 pods of four sizes."""
    nodes = tuple(
        Node(
            f"n{i}",
            Resources(cpu=4000 + 2000 * (i % 3), memory=(16 + 16 * (i % 2)) * GIB, pods=110),
            labels=((ZONE, f"z{(i * i) % 7 % 3}"),),
        )
        for i in range(260)
    )
    menu = [
        PodSpec(Resources(cpu=c, memory=m * MIB)) for c, m in ((100, 500), (1500, 2000), (0, 0), (3900, 100))
    ]
    pods = tuple(Pod(f"p{i}", menu[(7 * i) % 4]) for i in range(120))
    compiled = compile_workload(Workload("scale", nodes, pods))
    state, scratch = empty_state(compiled.cluster), new_scratch(compiled.cluster)
    draws = seeded(5)
    reference = ReferenceKube(nodes, version=version, random_below=lambda bound: next_below(draws, bound))
    rule = bound_rule(version, PodObservation(compiled, state, scratch, 0, 0.0), 5)
    for index, pod in enumerate(pods):
        chosen = kube_node(compiled.cluster, state, scratch, rule, int(compiled.cluster.pod_class[index]))
        assert chosen == reference.choose(pod)
        place(compiled.cluster, state, index, chosen, 0, 0.0)
        reference.place(pod, chosen)
