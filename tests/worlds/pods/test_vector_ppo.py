"""PPO from recorded decisions: gradient, importance ratios, the guard, and decisions that cannot teach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.worlds.pods.policies.vector.mlp import TENSORS
from proreus.worlds.pods.policies.vector.model import VectorModel, Weights, fresh_scorer, model_of
from proreus.worlds.pods.policies.vector.scorer import LAYOUT, MEMORY, PARAMETERS
from proreus.worlds.pods.training.vector.gradient import gradient_of
from proreus.worlds.pods.training.vector.recorded_ppo import (
    VectorPPO,
    VectorPPOSettings,
    estimate,
    fill_gradients,
    improve,
    log_chances,
    plain_returns,
    settings_of,
)
from proreus.worlds.pods.training.vector.torch_gradient import TorchGradient
from tests.oracles.vector_networks import ScorerNetwork, network_of
from tests.serving.serving_cases import ACTIONS, STATE, an_experience, played, true_worth
from tests.worlds.pods.vector_models import fresh_mlp

LEARN: dict[str, Any] = {"learning_rate": 3e-3, "target_kl": 0.05, "threads": 1}


def random_tensors(kind: str, nodes: int, *, memory: bool) -> dict[str, NDArray[Any]]:
    """Weights well away from zero."""
    random = np.random.default_rng(4)
    if kind == "vector-mlp":
        return fresh_mlp(2 * nodes, 2 * nodes + 2, 1).tensors
    noise = random.normal(0.0, 0.3, PARAMETERS).astype(np.float32)
    tensors: dict[str, NDArray[Any]] = {"parameters": fresh_scorer(1).parameters + noise}
    return tensors | ({"memory": random.normal(size=(nodes, MEMORY)).astype(np.float32)} if memory else {})


@pytest.mark.parametrize("by", ["kernels", "torch"])
@pytest.mark.parametrize(
    ("kind", "length", "memory"),
    [("vector-scorer", 46, False), ("vector-scorer", 48, True), ("vector-mlp", 46, False)],
)
def test_outputs_and_gradient_are_those_of_autograd(kind: str, length: int, memory: bool, by: str) -> None:
    nodes, random = 23, np.random.default_rng(0)
    tensors = random_tensors(kind, nodes, memory=memory)
    states = random.random((11, length))
    states[:, :8] = 0.0  # some nodes are empty
    reference = network_of(kind, tensors)
    ours = gradient_of(kind, tensors, 2) if by == "kernels" else TorchGradient(kind, tensors, "cpu")
    logits, values = reference(torch.from_numpy(states), 2 * nodes + 2)
    found_logits, found_values = ours.forward(states, 2 * nodes + 2)
    np.testing.assert_allclose(found_logits, logits.detach().numpy(), atol=1e-4)
    np.testing.assert_allclose(found_values, values.detach().numpy(), atol=1e-4)
    d_logits = random.normal(size=logits.shape).astype(np.float32)
    d_values = random.normal(size=11)
    loss = (logits * torch.from_numpy(d_logits)).sum() + (values * torch.from_numpy(d_values)).sum()
    loss.backward()
    gradient = np.full(len(ours.flat), np.nan)
    length_found = ours.backward(states, d_logits, d_values, gradient)
    expected = np.concatenate([_slope(value) for value in _parameters(reference)])
    np.testing.assert_allclose(gradient, expected, atol=2e-4 * np.abs(expected).max())
    assert length_found == pytest.approx(float(np.linalg.norm(expected)), rel=1e-4)
    assert all(np.array_equal(ours.tensors()[name], tensors[name]) for name in tensors)


def _parameters(network: torch.nn.Module) -> list[torch.nn.Parameter]:
    """In the order of the flat vector."""
    if isinstance(network, ScorerNetwork):
        named = [network.get_parameter(name) for name in LAYOUT]
        return [*named, network.memory] if network.memory is not None else named
    return [network.get_parameter(f"network.{name}") for name in TENSORS]


def _slope(parameter: torch.nn.Parameter) -> NDArray[Any]:
    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return gradient.numpy().ravel()


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_of_the_loss_are_those_of_autograd(masked: bool) -> None:
    random = np.random.default_rng(1)
    rows, actions = 40, 12
    logits = random.normal(size=(rows, actions)).astype(np.float32)
    masks = random.random((rows, actions)) < 0.6 if masked else np.zeros((0, actions), dtype=np.bool_)
    chosen = random.integers(0, actions, rows)
    if masked:
        masks[np.arange(rows), chosen] = True
    before = (logits + 0.1 * random.normal(size=logits.shape)).astype(np.float32)
    log_chances(before, masks)
    behaviour = (before[np.arange(rows), chosen] + 0.3 * random.normal(size=rows)).astype(np.float32)
    advantages = random.normal(size=rows).astype(np.float32)
    targets, values = random.normal(size=(2, rows))
    teaches = random.random(rows) < 0.7
    clip, value_weight, bonus = 0.2, 0.5, 0.05

    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    allowed = torch.from_numpy(masks) if masked else torch.ones(rows, actions, dtype=torch.bool)
    logs = torch.log_softmax(leaf.masked_fill(~allowed, -1e30), 1)
    value_leaf = torch.tensor(values, requires_grad=True)
    ratio = torch.exp(logs[torch.arange(rows), torch.from_numpy(chosen)] - torch.from_numpy(behaviour))
    by = torch.from_numpy(advantages)
    gain = torch.minimum(ratio * by, ratio.clamp(1 - clip, 1 + clip) * by)
    counted = torch.from_numpy(teaches)
    entropy = -(logs.exp() * logs.clamp(min=-1e4)).sum(1).mean()
    value_loss = (value_leaf - torch.from_numpy(targets)).square().mean()
    loss = -(gain * counted).sum() / counted.sum() + value_weight * value_loss - bonus * entropy
    loss.backward()  # type: ignore[no-untyped-call]

    ours, figures, d_values = logits.copy(), np.zeros(5), np.zeros(rows)
    log_chances(ours, masks)
    recorded = (chosen, behaviour, advantages, targets.astype(np.float32), teaches)
    fill_gradients(
        (ours, values, before), recorded, (clip, value_weight, bonus, 1 / teaches.sum()), d_values, figures
    )
    assert leaf.grad is not None and value_leaf.grad is not None
    np.testing.assert_allclose(ours, leaf.grad.numpy(), atol=1e-5)
    np.testing.assert_allclose(d_values, value_leaf.grad.numpy(), atol=1e-6)
    assert figures[2] == pytest.approx(entropy.item(), rel=1e-4)


def test_advantages_follow_the_recorded_order_up_to_the_ends_of_episodes() -> None:
    stretch = replace(
        an_experience(0, 4),
        rewards=np.array([1.0, 2.0, 3.0, 4.0]),
        dones=np.array([False, True, False, False]),
    )
    values = np.array([10.0, 20.0, 30.0, 40.0])
    advantages, returns = estimate(stretch, values, (0.5, 0.5))
    # Backwards: 4 + .5 * 40 - 40 (the last value stands in for the next); 3 + .5 * 40 - 30 + .25 * that;
    # the second ends its episode: 2 - 20; 1 + .5 * 20 - 10 + .25 * that.
    assert advantages.tolist() == [1.0 + 10.0 - 10.0 - 4.5, -18.0, -7.0 - 4.0, -16.0]
    assert returns.tolist() == (advantages + values).tolist()


@pytest.mark.parametrize("kind", ["vector-scorer", "vector-mlp"])
def test_it_solves_a_trivial_world_from_logged_decisions(kind: str) -> None:
    model: VectorModel = fresh_scorer(0) if kind == "vector-scorer" else fresh_mlp(STATE, ACTIONS, 0)
    before = true_worth(model)
    rounds, per_round = (16, 512) if kind == "vector-scorer" else (10, 512)
    for k in range(rounds):
        candidate = improve(Weights(kind, model.tensors), [played(model, k, per_round)], LEARN)
        model = model_of(kind, candidate.parameters.tensors, Path())
    assert true_worth(model) > before + (5.0 if kind == "vector-scorer" else 0.4)


def test_stale_decisions_are_weighed_by_the_chance_they_had() -> None:
    """All decisions are by the first version; the learner still improves the current one."""
    old = fresh_scorer(0)
    stale = played(old, 5, 4096)
    model: VectorModel = old
    for k in range(3):
        figures = improve(Weights(model.kind, model.tensors), [stale], {**LEARN, "seed": k})
        model = model_of(model.kind, figures.parameters.tensors, Path())
    assert true_worth(model) > true_worth(old) + 0.3
    # The ratio at the start is not 1: it is against the recorded chance, not against the current model's.
    again = improve(Weights(model.kind, model.tensors), [stale], {**LEARN, "epochs": 1, "minibatch": 4096})
    assert again.figures["clip_fraction"] > 0.05


def test_decisions_without_a_chance_or_greedy_train_the_value_alone() -> None:
    model = fresh_scorer(0)
    drawn = played(model, 1, 256)
    settings = {**LEARN, "entropy": 0.0}
    for useless in (
        replace(drawn, greedy=np.ones(256, dtype=np.bool_)),
        replace(drawn, log_probs=np.full(256, np.nan)),
    ):
        candidate = improve(Weights(model.kind, model.tensors), [useless], settings)
        assert (candidate.figures["teaching"], candidate.figures["unusable"]) == (0.0, 256.0)
        assert candidate.figures["policy_loss"] == 0.0
        mixed = improve(Weights(model.kind, model.tensors), [drawn, useless], settings)
        assert (mixed.figures["teaching"], mixed.figures["unusable"]) == (256.0, 256.0)


def test_the_guard_keeps_the_policy_near() -> None:
    model = fresh_mlp(STATE, ACTIONS, 0)
    for limit in (0.05, 0.001):
        settings = {"learning_rate": 0.05, "target_kl": limit, "threads": 1}
        figures = improve(Weights(model.kind, model.tensors), [played(model, 0, 512)], settings).figures
        assert figures["stopped"] == 1.0 and 0.0 < figures["kl"] <= limit
    free = {"learning_rate": 0.05, "target_kl": 0.0, "threads": 1}
    assert improve(Weights(model.kind, model.tensors), [played(model, 0, 512)], free).figures["kl"] > 0.05


def test_vectors_of_several_lengths_and_masks_learn_together() -> None:
    model = fresh_scorer(0)
    random = np.random.default_rng(2)
    stretches: list[Experience] = [played(model, 0, 64)]
    for nodes in (3, 20):
        states = random.random((50, 2 * nodes + 2))
        actions = 2 * nodes + 2
        masks = random.random((50, actions)) < 0.5
        masks[:, 0] = True
        chosen, logs = model.decide_batch(states, actions, masks, random.random(50))
        assert masks[np.arange(50), chosen].all()
        ended, greedy = np.zeros(50, dtype=np.bool_), np.zeros(50, dtype=np.bool_)
        stretches.append(
            Experience(states, chosen, random.normal(size=50), ended, logs, greedy, 1, actions, masks)
        )
    settings = {**LEARN, "epochs": 1, "minibatch": 10_000}
    figures = improve(Weights(model.kind, model.tensors), stretches, settings).figures
    assert figures["decisions"] == figures["teaching"] == 164.0
    assert figures["clip_fraction"] < 0.2 and np.isfinite(list(figures.values())).all()


def test_the_number_of_threads_does_not_change_the_result() -> None:
    model = fresh_scorer(0)
    stretch = played(model, 0, 512)
    candidates = [
        improve(Weights(model.kind, model.tensors), [stretch], {**LEARN, "threads": threads})
        for threads in (1, 2)
    ]
    assert (
        candidates[0].parameters.tensors["parameters"].tobytes()
        == candidates[1].parameters.tensors["parameters"].tobytes()
    )


def test_bad_settings_and_rewards_are_said() -> None:
    model = fresh_scorer(0)
    weights = Weights(model.kind, model.tensors)
    with pytest.raises(UsageError, match="no setting 'rate'"):
        settings_of({"rate": 1.0})
    with pytest.raises(UsageError, match="between 0 and 1"):
        VectorPPOSettings(discount=1.5)
    with pytest.raises(UsageError, match="no decisions"):
        improve(weights, [], {})
    endless = replace(played(model, 0, 64), rewards=np.full(64, np.inf))
    with pytest.raises(WorkError, match="not a number"), np.errstate(invalid="ignore"):
        VectorPPO(weights, VectorPPOSettings(threads=1)).update([endless])


def test_plain_returns_are_the_discounted_rewards_up_to_the_end_of_an_episode() -> None:
    some = an_experience(3, 40)
    expected = []
    for k in range(40):
        total, weight = 0.0, 1.0
        for reward, done in zip(some.rewards[k:], some.dones[k:], strict=True):
            total += weight * float(reward)
            weight *= 0.9
            if done:
                break
        expected.append(total)
    np.testing.assert_allclose(plain_returns(some.rewards, some.dones, 0.9), expected, rtol=1e-12)


def test_records_with_an_impossible_chance_train_the_value_alone() -> None:
    model = fresh_scorer(0)
    some = played(model, 0, 64)
    lie = replace(some, log_probs=np.full(64, -29.0), rewards=np.full(64, -50.0))
    figures = improve(Weights(model.kind, model.tensors), [some, lie], LEARN).figures
    assert (figures["teaching"], figures["unusable"]) == (64.0, 64.0)
