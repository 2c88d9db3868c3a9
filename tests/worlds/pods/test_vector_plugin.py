"""The simulated plugin: answers become scores, and least-requested decides where they name no legal node."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.kernels.arrays import F64
from proreus.model.decision import Delay, Place
from proreus.model.node import Node, Taint
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.volcano import volcano_nodes, volcano_workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.vector.plugin import EveryPair, VolcanoPlugin, plugin_scores
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import compile_workload

NODES = (
    Node("master", Resources(64_000, 64 * GIB, pods=10), taints=(Taint("master"),)),
    Node("small", Resources(8_000, 16 * GIB, pods=10), gpu_count=2),
    Node("plain", Resources(32_000, 64 * GIB, pods=10)),
    Node("large", Resources(32_000, 64 * GIB, pods=10), gpu_count=8),
    Node("twin", Resources(32_000, 64 * GIB, pods=10), gpu_count=8),
)


def a_world(tasks: int = 3, gpus: int = 1) -> PodsWorld:
    spec = PodSpec(Resources(500, GIB), gpu=GpuRequest(gpus, GPU_WHOLE if gpus else 0), cpu_limit=600)
    pods = tuple(Pod(f"task-{k}", spec, 1.0, 135.0) for k in range(tasks))
    return PodsWorld(Workload("w", NODES, pods, ticked=True))


@pytest.mark.parametrize(
    ("action", "scores"),
    [
        (1, [0, 100, 0]),
        (5, [0, 0, 50]),
        (6, [-10, -10, -10]),
        (7, [-100, -100, -100]),
        (8, [0, 0, 0]),
        (-1, [0, 0, 0]),
    ],
)
def test_scores_are_those_of_the_fact_sheet(action: int, scores: list[float]) -> None:
    assert plugin_scores(action, 3).tolist() == scores


@pytest.mark.parametrize(
    ("action", "node"),
    [
        (1, 1),  # named and legal
        (4, 4),
        (6, 1),  # preempt on "small": scores 50, nobody is evicted
        (0, 3),  # the master is tainted
        (2, 3),  # "plain" has no GPU
        (10, 3),  # delay: nothing is delayed
        (11, 3),  # reject: nothing is rejected
        (99, 3),
    ],
)
def test_what_cannot_be_had_goes_to_the_least_requested_node(action: int, node: int) -> None:
    world = a_world()
    observation = world.next_decision()
    assert observation is not None
    assert VolcanoPlugin("p", lambda state: action).decide(observation) == Place(node)


def test_least_requested_is_that_of_the_session_and_fills_one_node_first() -> None:
    world = a_world(tasks=9)
    plugin = VolcanoPlugin("p", lambda state: 10)
    went = []
    while (observation := world.next_decision()) is not None:
        decision = plugin.decide(observation)
        assert isinstance(decision, Place)
        went.append(decision.node)
        world.apply(decision)
    assert went == [3] * 8 + [4]  # until its GPUs are gone


def test_the_plugin_sends_the_vector_and_asks_once_or_for_every_legal_node() -> None:
    asked: list[F64] = []

    def predict(state: F64) -> int:
        asked.append(state)
        return 3

    for every_pair, calls in ((None, 1), (EveryPair(), 3)):
        asked.clear()
        observation = a_world().next_decision()
        assert observation is not None
        VolcanoPlugin("p", predict, every_pair=every_pair).decide(observation)
        assert len(asked) == calls
        assert asked[0].dtype == np.float64
        assert asked[0].tolist() == [0.0] * 10 + [500 / 100_000, 1.0]


@pytest.mark.parametrize(
    ("answers", "node"),
    [
        ((1, 1, 1), 1),
        ((3, 1, 1), 3),  # neither is named to the question about it
        ((1, 4, 4), 4),  # "small" and "twin" are level, and "twin" has more to spare
        ((6, 4, 3), 1),  # "small" stands by, and the others miss their questions
        ((6, 3, 3), 3),  # it stands by, and is not needed
        ((11, 11, 4), 4),
    ],
)
def test_each_node_is_scored_by_the_answer_to_its_own_question(answers: tuple[int, ...], node: int) -> None:
    observation = a_world().next_decision()
    assert observation is not None
    given = iter(answers)
    plugin = VolcanoPlugin("p", lambda state: next(given), every_pair=EveryPair())
    assert plugin.decide(observation) == Place(node)


@pytest.mark.parametrize("askers", [1, 16, 400])
def test_questions_arrive_in_order_nearly_or_in_any(askers: int) -> None:
    arrived = EveryPair(askers).arrivals(400, np.random.default_rng(1))
    assert sorted(arrived) == list(range(400))
    early = max(question - number for number, question in enumerate(arrived))
    assert early < askers
    assert (arrived == list(range(400))) == (askers == 1)


def test_a_task_that_may_go_nowhere_is_delayed_without_asking() -> None:
    observation = a_world(gpus=9).next_decision()
    assert observation is not None

    def never(state: F64) -> int:
        raise AssertionError("asked")

    assert VolcanoPlugin("p", never).decide(observation) == Delay()


def test_an_explanation_says_the_answer_and_the_totals() -> None:
    observation = a_world().next_decision()
    assert observation is not None
    explanation = VolcanoPlugin("p", lambda state: 4).explain(observation)
    assert explanation.decision == Place(4) and "action 4" in explanation.note
    assert explanation.verdicts[4].total == max(verdict.total for verdict in explanation.verdicts)
    assert explanation.verdicts[0].refused_by


@pytest.mark.parametrize("seed", range(4))
def test_generated_jobs_are_done_and_the_same_for_a_seed(seed: int) -> None:
    nodes = volcano_nodes(seed, 12)
    workload = volcano_workload(seed, nodes)
    assert workload == volcano_workload(seed, volcano_nodes(seed, 12))
    assert workload.pods and nodes[0].taints
    outcome = simulate(compile_workload(workload), VolcanoPlugin("p", lambda state: 3))
    assert all(row[1] == "done" for row in outcome.log)
