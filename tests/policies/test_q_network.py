"""The network that values actions: any number of nodes, any order, and nothing illegal in it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra learn")

import torch

from proreus.model.decision import Delay, Reject
from proreus.policies.networks.q_network import QNetwork, best_legal
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.q_policy import QPolicy
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import compile_workload

NODES = 6


def network() -> QNetwork:
    """Fresh weights, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return QNetwork(hidden=16, row_features=5, context_features=3)


def some_decision(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Nodes, context and mask of a batch of two; the last node and delay are illegal."""
    random = np.random.default_rng(seed)
    nodes = torch.from_numpy(random.normal(size=(2, NODES, 5)).astype(np.float32))
    context = torch.from_numpy(random.normal(size=(2, 3)).astype(np.float32))
    mask = torch.ones((2, 2 * NODES + 2), dtype=torch.bool)
    mask[:, NODES - 1] = mask[:, NODES + 1] = mask[:, 2 * NODES] = False
    return nodes, context, mask


def test_legal_values_have_the_state_value_as_their_mean() -> None:
    nodes, context, mask = some_decision()
    net = network()
    values = net(nodes, context, mask)
    moved = net.value.bias.detach().clone() + 3.0
    net.value.bias.data.copy_(moved)
    torch.testing.assert_close(net(nodes, context, mask), values + 3.0)
    net.bid.weight.data.zero_()
    net.bid.bias.data.zero_()
    net.waiting.weight.data.zero_()
    net.waiting.bias.data.zero_()
    flat = net(nodes, context, mask)
    torch.testing.assert_close(flat, flat[:, :1].expand_as(flat))
    means = (values * mask).sum(dim=1) / mask.sum(dim=1)
    torch.testing.assert_close(means + 3.0, flat[:, 0])


def test_illegal_nodes_and_actions_do_not_matter() -> None:
    """Whatever stands in the row of an illegal node, no legal value changes and it is never chosen."""
    nodes, context, mask = some_decision()
    mask[:, 2 * NODES - 1] = False  # the last node may not be preempted either
    net = network()
    values = net(nodes, context, mask)
    other = nodes.clone()
    other[:, NODES - 1] = 100.0
    changed = net(other, context, mask)
    torch.testing.assert_close(changed[mask], values[mask])
    assert mask[0, best_legal(changed, mask)[0]] and mask[1, best_legal(changed, mask)[1]]


def test_negative_values_lose_to_no_illegal_zero() -> None:
    values = torch.tensor([[-5.0, 7.0, -2.0]])
    mask = torch.tensor([[True, False, True]])
    assert best_legal(values, mask).tolist() == [2]
    assert best_legal(torch.zeros(1, 3), mask).tolist() == [0]


def test_nodes_in_another_order_have_the_same_values() -> None:
    nodes, context, mask = some_decision()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    whole = torch.cat((order, NODES + order, torch.tensor([2 * NODES, 2 * NODES + 1])))
    net = network()
    torch.testing.assert_close(
        net(nodes[:, order], context, mask[:, whole]), net(nodes, context, mask)[:, whole]
    )


def test_padding_with_illegal_nodes_changes_nothing() -> None:
    nodes, context, mask = some_decision()
    net = network()
    padded = torch.cat((nodes, torch.zeros(2, 4, 5)), dim=1)
    no = torch.zeros(2, 4, dtype=torch.bool)
    wide = torch.cat((mask[:, :NODES], no, mask[:, NODES : 2 * NODES], no, mask[:, 2 * NODES :]), dim=1)
    values, padded_values = net(nodes, context, mask), net(padded, context, wide)
    torch.testing.assert_close(padded_values[wide], values[mask])


def test_no_legal_node_still_has_finite_values() -> None:
    nodes, context, mask = some_decision()
    mask[:] = False
    mask[:, -1] = True
    values = network()(nodes, context, mask)
    assert torch.isfinite(values).all()
    assert best_legal(values, mask).tolist() == [2 * NODES + 1] * 2


@pytest.mark.parametrize("scenario", ["small", "gpu"])
@pytest.mark.parametrize("nodes", [3, 12])
def test_one_network_schedules_clusters_of_any_size(scenario: str, nodes: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        policy = QPolicy(QNetwork(8, len(PAIR_FEATURES), len(CONTEXT_FEATURES)), work_conserving=True)
    workload = generate(scenario, 1, nodes=nodes, pods=40)
    outcome = simulate(compile_workload(workload), policy)
    assert outcome.measures["decisions"] >= 40


def test_an_explanation_has_the_decision_and_every_node() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        policy = QPolicy(QNetwork(8, len(PAIR_FEATURES), len(CONTEXT_FEATURES)), work_conserving=True)
    world = PodsWorld(generate("small", 1, nodes=5, pods=30))
    while (observation := world.next_decision()) is not None:
        explained = policy.explain(observation)
        decision = policy.decide(observation)
        assert explained.decision == decision
        assert len(explained.verdicts) == 5
        legal = [verdict for verdict in explained.verdicts if not verdict.refused_by]
        assert all(verdict.scores.keys() == {"value"} for verdict in legal)
        if legal:
            assert not isinstance(decision, Delay | Reject)
        world.apply(decision)
