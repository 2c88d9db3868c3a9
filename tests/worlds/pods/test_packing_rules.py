"""The packing kernels choose what the obvious Python formulas choose."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.decision import Decision, Delay, Place
from proreus.model.node import Node
from proreus.model.pod import GpuRequest, Pod
from proreus.model.workload import Workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.rules.columns import (
    BEST_FIT,
    BINPACK,
    DOT_PRODUCT,
    FGD,
    FLAT,
    GPU_CLUSTERING,
    GPU_PACKING,
    ORDERED,
    RANDOM,
    ROTATING,
    WORST_FIT,
)
from proreus.worlds.pods.policies.rules.policy import RuleOptions, RulePolicy
from proreus.worlds.pods.policies.rules.scores import node_score
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import compile_workload, empty_state
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.placement import place
from tests.oracles.kube_builders import node, pod
from tests.oracles.kube_state import ClusterState, Running
from tests.oracles.packing import PackingOracle, TypicalPod, fragmentation, typical_pods
from tests.worlds.pods.strategies import workloads

RULES = {
    "first_fit": FLAT,
    "best_fit": BEST_FIT,
    "worst_fit": WORST_FIT,
    "dot_prod": DOT_PRODUCT,
    "gpu_packing": GPU_PACKING,
    "gpu_clustering": GPU_CLUSTERING,
    "fgd": FGD,
    "binpack": BINPACK,
}
TIES = {"ordered": ORDERED, "random": RANDOM, "rotating": ROTATING}
USUAL = settings(max_examples=30)

every_rule = pytest.mark.parametrize("rule", sorted(RULES))


def rule_policy(rule: str, *, tie: int = ORDERED, cache: bool = True, seed: int = 0) -> RulePolicy:
    """A packing rule that never preempts."""
    return RulePolicy(RuleOptions(rule, RULES[rule], tie, preempts=False, seed=seed, cache=cache))


def believed(observation: PodObservation) -> ClusterState:
    """What runs where, for the oracle."""
    workload, state = observation.compiled.workload, observation.state
    cluster_state = ClusterState(workload.nodes)
    for p, n in enumerate(state.pod_node.tolist()):
        if n >= 0:
            mask = int(state.pod_devices[p])
            devices = tuple(d for d in range(mask.bit_length()) if mask >> d & 1)
            cluster_state.restore(
                Running(workload.pods[p], n, float(state.pod_since[p]), int(state.pod_rank[p]), devices)
            )
    return cluster_state


@every_rule
@pytest.mark.parametrize("cache", [True, False], ids=["cached", "uncached"])
@USUAL
@given(workload=workloads(most_specs=3))
def test_the_kernel_chooses_what_the_formula_chooses(rule: str, cache: bool, workload: Workload) -> None:
    oracle = PackingOracle(workload)
    policy = rule_policy(rule, cache=cache)
    world = PodsWorld(workload)
    while (observation := world.next_decision()) is not None:
        expected = oracle.choose(rule, believed(observation), observation.subject)
        decision = policy.decide(observation)
        assert decision == (Delay() if expected is None else Place(*expected))
        world.apply(decision)


@every_rule
@pytest.mark.parametrize("tie", sorted(TIES))
@USUAL
@given(workload=workloads(most_specs=3), seed=st.integers(0, 9))
def test_every_tie_break_takes_a_best_node_and_the_cache_changes_nothing(
    rule: str, tie: str, workload: Workload, seed: int
) -> None:
    oracle = PackingOracle(workload)
    score = oracle.scores[rule]
    cached = rule_policy(rule, tie=TIES[tie], seed=seed)
    plain = rule_policy(rule, tie=TIES[tie], seed=seed, cache=False)
    world = PodsWorld(workload)
    while (observation := world.next_decision()) is not None:
        decision = cached.decide(observation)
        assert plain.decide(observation) == decision
        legal = [n for n, code in enumerate(observation.refusals().tolist()) if code == 0]
        if not legal:
            assert decision == Delay()
        else:
            assert isinstance(decision, Place)
            state, subject = believed(observation), observation.subject
            assert score(state, subject, decision.node) == max(score(state, subject, n) for n in legal)
        world.apply(decision)


def three_alike(pods: int) -> Workload:
    """Three equal nodes and pods that change nothing about their order."""
    nodes = tuple(node(f"n{i}", cpu=0) for i in range(3))
    return Workload("alike", nodes, tuple(pod(f"p{i}") for i in range(pods)))


def placed_on(policy: RulePolicy, workload: Workload) -> list[str]:
    """The node of every pod."""
    return [row[2] for row in simulate(compile_workload(workload), policy).log]


def test_ties_rotate_over_equal_nodes() -> None:
    expected = ["n0", "n1", "n2", "n0", "n1", "n2", "n0"]
    assert placed_on(rule_policy("first_fit", tie=ROTATING), three_alike(7)) == expected


def test_ties_by_lot_use_all_equal_nodes_and_depend_on_the_seed() -> None:
    lots = [placed_on(rule_policy("first_fit", tie=RANDOM, seed=seed), three_alike(60)) for seed in range(2)]
    assert lots[0] != lots[1]
    for lot in lots:
        # 60 fair draws of one in three: fewer than 8 of a kind has a probability below one in ten thousand.
        assert all(lot.count(f"n{i}") >= 8 for i in range(3))


def test_random_devices_are_drawn_among_those_that_fit() -> None:
    machine = node("n0", gpus=4, gpu_model="T4")
    workload = Workload("w", (machine,), tuple(pod(f"p{i}", gpu=(1, 600)) for i in range(4)))
    orders = set()
    for seed in range(8):
        world, policy = PodsWorld(workload), make_policy("random", seed=seed)
        masks = []
        while (observation := world.next_decision()) is not None:
            decision = policy.decide(observation)
            assert isinstance(decision, Place)
            masks.append(decision.devices)
            world.apply(decision)
        assert sorted(masks) == [1, 2, 4, 8]
        orders.add(tuple(masks))
    assert len(orders) > 3


@every_rule
def test_the_cache_scores_few_nodes_again(rule: str) -> None:
    """40 nodes, 200 equal pods: the first decision scores every node, each later one what changed."""
    nodes = tuple(node(f"n{i}", gpus=2, gpu_model="T4") for i in range(40))
    pods = tuple(pod(f"p{i}", cpu=500, gpu=(1, 100)) for i in range(200))
    compiled = compile_workload(Workload("repetitive", nodes, pods))
    cached, plain = rule_policy(rule), rule_policy(rule, cache=False)
    assert repr(simulate(compiled, cached).log) == repr(simulate(compiled, plain).log)
    assert plain.scores_computed() == 40 * 200
    assert cached.scores_computed() == 40 + 199


# Hand-worked scores: (rule, nodes, placed as (pod, node, devices), incoming, expected score per node).
BIG = node("big", cpu=8000, memory=8000, gpus=4, gpu_model="T4")
SMALL = node("small", cpu=4000, memory=8000, gpus=2, gpu_model="T4")
CPU_ONLY = (node("a", cpu=8000, memory=8000), node("b", cpu=4000, memory=4000))
Placed = tuple[tuple[Pod, int, int], ...]
Case = tuple[str, tuple[Node, ...], Placed, Pod, list[float]]
CASES: dict[str, Case] = {
    # left over: big (8-2)/8 cpu, (4-1)/4 gpu -> 3/4; small (4-2)/8, (2-1)/4 -> 1/4.
    "best fit": ("best_fit", (BIG, SMALL), (), pod(cpu=2000, gpu=(1, 1000)), [25.0, 75.0]),
    "worst fit": ("worst_fit", (BIG, SMALL), (), pod(cpu=2000, gpu=(1, 1000)), [75.0, 25.0]),
    # Without GPUs memory takes their part: a (8-1)/8, (8-4)/8 -> 11/16; b (4-1)/8, (4-4)/8 -> 3/16.
    "best fit, memory": ("best_fit", CPU_ONLY, (), pod(cpu=1000, memory=4000), [31.0, 81.0]),
    "worst fit, memory": ("worst_fit", CPU_ONLY, (), pod(cpu=1000, memory=4000), [68.0, 18.0]),
    # big 1 * 1/4 + 1 * 1/4 = 1/2; small 1/2 * 1/4 + 1/2 * 1/4 = 1/4; 100 * (1 - product / 2).
    "dot product": ("dot_prod", (BIG, SMALL), (), pod(cpu=2000, gpu=(1, 1000)), [75.0, 87.0]),
    # a 1 * 1/8 + 1 * 1/2 = 5/8; b 1/2 * 1/8 + 1/2 * 1/2 = 5/16.
    "dot product, memory": ("dot_prod", CPU_ONLY, (), pod(cpu=1000, memory=4000), [68.0, 84.0]),
    # All idle: max(33 - 4, 4) and max(33 - 2, 2).
    "packing, idle nodes": ("gpu_packing", (BIG, SMALL), (), pod(gpu=(1, 500)), [29.0, 31.0]),
    # Both share a device with 40 % left: 100 - 40 // 10.
    "packing, shared": (
        "gpu_packing",
        (BIG, SMALL),
        ((pod("x", gpu=(1, 600)), 0, 0b0001), (pod("y", gpu=(1, 600)), 1, 0b01)),
        pod(gpu=(1, 400)),
        [96.0, 96.0],
    ),
    # Both have an idle device to open: 50 - 1.
    "packing, one opened": (
        "gpu_packing",
        (BIG, SMALL),
        ((pod("x", gpu=(1, 600)), 0, 0b0001), (pod("y", gpu=(1, 600)), 1, 0b01)),
        pod(gpu=(1, 1000)),
        [49.0, 49.0],
    ),
    # Three of big's devices must be opened: 50 - 3.
    "packing, three opened": (
        "gpu_packing",
        (BIG,),
        ((pod("x", gpu=(1, 600)), 0, 0b0001),),
        pod(gpu=(3, 1000)),
        [47.0],
    ),
    # Tightest first: 30 % and 40 % left are shared, (30 + 40) // 10 = 7.
    "packing, two shared": (
        "gpu_packing",
        (BIG,),
        ((pod("x", gpu=(1, 700)), 0, 0b0001), (pod("y", gpu=(1, 600)), 0, 0b0010)),
        pod(gpu=(2, 300)),
        [93.0],
    ),
    "packing without GPU": ("gpu_packing", (BIG, SMALL), (), pod(cpu=100), [0.0, 0.0]),
    # big is idle: 25 * (8000 - 4000) // 8000 + 25; small has a shared pod only: 25 * 6500 // 8000 + 75.
    "clustering": (
        "gpu_clustering",
        (BIG, SMALL),
        ((pod("x", gpu=(1, 500)), 1, 0b01),),
        pod(gpu=(1, 300)),
        [37.0, 95.0],
    ),
    # The kind among others: 25 * (8000 - 500) // 8000 + 50; another kind only: 25 * (8000 - 3500) // 8000.
    "clustering among others": (
        "gpu_clustering",
        (SMALL, BIG),
        (
            (pod("x", gpu=(1, 500)), 0, 0b01),
            (pod("y", gpu=(1, 1000)), 0, 0b10),
            (pod("z", gpu=(1, 500)), 1, 0b0001),
        ),
        pod("incoming", gpu=(1, 500)),
        [73.0, 89.0],
    ),
    "clustering, another kind": (
        "gpu_clustering",
        (BIG,),
        ((pod("x", gpu=(1, 500)), 0, 0b0001),),
        pod(gpu=(2, 1000)),
        [14.0],
    ),
    "clustering without GPU": ("gpu_clustering", (BIG, SMALL), (), pod(cpu=100), [0.0, 0.0]),
    # cpu 2/8, gpu 1/4 -> 25 %; cpu 2/4, gpu 1/2 -> 50 %; and 1e-12 per milli-core.
    "binpack": (
        "binpack",
        (BIG, SMALL),
        (),
        pod(cpu=2000, gpu=(1, 1000)),
        [25.0 + 8e-9, 50.0 + 4e-9],
    ),
    # Only what is asked for counts: memory alone, 2000 of it in use on the first: 3/8 and 1/8.
    "binpack, memory alone": (
        "binpack",
        (BIG, SMALL),
        ((pod("x", memory=2000, cpu=4000), 0, 0),),
        pod(memory=1000),
        [37.5 + 8e-9, 12.5 + 4e-9],
    ),
}


def kernel_scores(case: Case) -> list[float]:
    """What the kernel makes of a case."""
    rule, nodes, placed, incoming, _ = case
    workload = Workload("case", nodes, (*(each for each, _, _ in placed), incoming))
    compiled = compile_workload(workload)
    state = empty_state(compiled.cluster)
    for p, (_, n, devices) in enumerate(placed):
        place(compiled.cluster, state, p, n, devices, 0.0)
    bound = rule_policy(rule).rule_for(compiled, state)
    c = int(compiled.cluster.pod_class[len(placed)])
    return [float(node_score(compiled.cluster, state, bound, c, n)) for n in range(len(nodes))]


@pytest.mark.parametrize("case", sorted(CASES))
def test_hand_worked_score(case: str) -> None:
    assert kernel_scores(CASES[case]) == pytest.approx(CASES[case][-1], rel=0, abs=1e-11)


def test_typical_pods_cover_95_percent() -> None:
    """19 of 20 pods share one demand: the twentieth is not typical; with 18 of 20 it is."""
    many, rare = pod("many", cpu=1000, gpu=(1, 500)), pod("one", cpu=2000)
    assert [each.share for each in typical_pods([many] * 19 + [rare])] == [1]
    assert [(each.cpu, each.share) for each in typical_pods([many] * 18 + [rare] * 2)] == [
        (1000, Fraction(9, 10)),
        (2000, Fraction(1, 10)),
    ]


def test_fragmentation_by_hand() -> None:
    """Half the pods want 500 milli, a quarter a device, a quarter none; 300 and 1000 are left."""
    typical = typical_pods(
        [pod("a", cpu=1000, gpu=(1, 500))] * 2 + [pod("b", gpu=(1, 1000)), pod("c", cpu=500)]
    )
    # a, b: 300 of the first device is of no use; c uses no GPU: all 1300 are of no use to it.
    assert fragmentation(SMALL, 4000, [300, 1000], typical) == 300 / 2 + 300 / 4 + 1300 / 4
    # Without CPU for a, it cannot use any of the 1300.
    assert fragmentation(SMALL, 500, [300, 1000], typical) == 1300 / 2 + 300 / 4 + 1300 / 4
    # Of another model.
    elsewhere = [TypicalPod(0, GpuRequest(1, 500, ("A100",)), each.share) for each in typical[:1]]
    assert fragmentation(SMALL, 4000, [300, 1000], elsewhere) == 1300 / 2


def fgd_world(*incoming: Pod) -> PodsWorld:
    """Half of the pods want 500 milli, half a whole device; the first holds 500 milli on device 0 of two."""
    nodes = (node("used", gpus=2, gpu_model="T4"), node("idle", gpus=2, gpu_model="T4"))
    world = PodsWorld(Workload("fgd", nodes, (pod("x", gpu=(1, 500)), pod("y", gpu=(1, 1000)), *incoming)))
    assert world.next_decision() is not None
    world.apply(Place(0, 0b01))
    return world


def decisions(world: PodsWorld, policy: RulePolicy) -> list[Decision]:
    """Everything the policy decides from here on."""
    decisions = []
    while (observation := world.next_decision()) is not None:
        decisions.append(policy.decide(observation))
        world.apply(decisions[-1])
    return decisions


def test_fgd_fills_the_started_device_and_opens_whole_ones_beside_it() -> None:
    """used: [500, 1000] left, F = 1/2 * 500 = 250; idle: F = 0.

    y (a whole device): used -> [500, 0], F = 1/2 * 0 + 1/2 * 500 = 250, no change, score 50;
    idle -> [0, 1000], F = 0, no change, score 50: the first of equals. Then another 500 on used's device 0
    leaves nothing idle: F falls by 250, floor(100 * sigmoid(0.25)) = 56, against idle -> [500, 1000], F rises
    by 250, 43.
    """
    assert decisions(fgd_world(pod("z", gpu=(1, 500))), rule_policy("fgd")) == [
        Place(0, 0b10),
        Place(0, 0b01),
    ]


def test_fgd_scores_by_hand() -> None:
    world = fgd_world(pod("z", gpu=(1, 500)))
    policy = rule_policy("fgd")
    observation = world.next_decision()
    assert observation is not None
    # Typical: x and z 2/3, y 1/3. used [500, 1000]: F = 1/3 * 500. y: same before and after on both nodes.
    assert [verdict.total for verdict in policy.explain(observation).verdicts] == [50.0, 50.0]
    world.apply(Place(0))
    observation = world.next_decision()
    assert observation is not None
    # used [500, 0]: F = 166.7 -> 0, sigmoid(0.1667) = 0.5416; idle: 0 -> 166.7, sigmoid(-0.1667) = 0.4584.
    assert [verdict.total for verdict in policy.explain(observation).verdicts] == [54.0, 45.0]


def test_fgd_leaves_nodes_without_gpus_at_fifty() -> None:
    case: Case = ("fgd", (node("plain"), node("gpu", gpus=1, gpu_model="T4")), (), pod(cpu=100), [50.0, 50.0])
    assert kernel_scores(case) == case[-1]


def test_binpack_breaks_ties_by_cpu() -> None:
    """Equal shares of memory: the node with more CPU, though it comes second."""
    nodes = (node("few", cpu=2000, memory=4000), node("many", cpu=8000, memory=4000))
    outcome = simulate(
        compile_workload(Workload("w", nodes, (pod("p", memory=1000),))), make_policy("binpack")
    )
    assert outcome.log[0][2] == "many"
