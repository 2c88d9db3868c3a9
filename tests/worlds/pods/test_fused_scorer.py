"""The scorer in fused kernels is the scorer in torch: the same gradient, chances, values and draws.

Triton's interpreter runs the kernels here, so that this takes no GPU. It has to be chosen before triton is
imported for the first time in a process: its own functions are made for one or the other.
"""

from __future__ import annotations

import importlib.util
import math

import pytest
import torch
from torch import Tensor

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton, whose interpreter plays the kernels, is not installed", allow_module_level=True)

import tests.interpreted  # noqa: F401, I001 (before the kernels)

from proreus.learning.clipped_loss import LossTerms, Taken, clipped_terms
from proreus.learning.tensor_lanes.rollout import DevicePlayer, drawn
from proreus.worlds.pods.encoding.context import PREEMPTING
from proreus.worlds.pods.policies.scorer import LAYOUT, PARAMETERS
from proreus.worlds.pods.policies.torch_networks import bids_of, parts_of
from proreus.worlds.pods.training.device import fused_scorer
from proreus.worlds.pods.training.device.fused_scorer import FusedJudge, Gradient, Slots, loss_gradient
from proreus.worlds.pods.training.device.lanes import DeviceLanes
from proreus.worlds.pods.training.device.ppo import DevicePPO, judging
from proreus.worlds.pods.training.device.step import Seen
from proreus.worlds.pods.training.fused_ppo import FusedPPOConfig
from proreus.worlds.pods.training.torch_adam import TorchAdam
from tests.learning.learning_cases import gpu_world

SETTINGS = torch.tensor([0.2, 0.5, 0.03, 0.0, 0.0, 0.0], dtype=torch.float64)


class Cases:
    """Random choices of N nodes; the contexts of about half of them preempt."""

    def __init__(self, nodes: int, seed: int = 0) -> None:
        self.nodes = nodes
        self._random = torch.Generator().manual_seed(seed)
        self.params = self.normal(PARAMETERS) * 0.3

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random)

    def below(self, chance: float, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random) < chance

    def inputs(self, count: int) -> tuple[Tensor, Tensor]:
        context = self.normal(count, LAYOUT["context"][0])
        context[:, PREEMPTING] = self.below(0.5, count).float()
        return self.normal(count, self.nodes, LAYOUT["node"][0]), context

    def slots(self, count: int) -> Slots:
        """Chances that moved far enough to be clipped, both ways, for advantages of both signs."""
        rows, context = self.inputs(count)
        allowed = self.below(0.5, count, self.nodes + 2)
        allowed[:, self.nodes] |= ~allowed.any(1)
        action = torch.multinomial(allowed.double(), 1, generator=self._random)[:, 0]
        log = logits_of(self.params, rows, context, allowed)[0].log_softmax(1).gather(1, action[:, None])
        moved = 0.3 * self.normal(count)
        taken = Taken(action, log[:, 0].float() + moved, self.normal(count), self.normal(count))
        return Slots(rows, context, allowed, taken)

    def seen(self, lanes: int) -> Seen:
        rows, context = self.inputs(lanes)
        legal, ready = self.below(0.6, lanes, self.nodes), self.below(0.7, lanes)
        legal[:, 0] |= ~legal.any(1)
        rows = torch.where(legal[:, :, None], rows, 0.0)
        return Seen(rows, context, legal, legal.long(), context[:, PREEMPTING] > 0, ready)

    def units(self, lanes: int) -> Tensor:
        units = torch.rand(lanes, dtype=torch.float64, generator=self._random)
        units[:2] = torch.tensor([0.0, 1.0 - 2.0**-53])[:lanes]
        return units


def logits_of(vector: Tensor, rows: Tensor, context: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """(logits, values) in float64."""
    weights = parts_of(vector.double())
    bids, heads, value = bids_of(weights, rows.double(), allowed[:, : rows.shape[1]], context.double())
    return torch.cat([bids, heads], 1).masked_fill(~allowed, -math.inf), value


def exact_terms(vector: Tensor, slots: Slots, chosen: Tensor) -> LossTerms:
    rows, context, allowed = (column[chosen] for column in slots[:3])
    action, *others = (column[chosen] for column in slots.taken)
    logits, value = logits_of(vector, rows, context, allowed)
    taken = Taken(action, *(column.double() for column in others))
    return clipped_terms(logits, allowed, value, taken, SETTINGS[0])


def exact_gradient(params: Tensor, slots: Slots, chosen: Tensor, share: Tensor) -> Gradient:
    """By autograd in float64."""
    vector = params.double().requires_grad_()
    terms = exact_terms(vector, slots, chosen)
    loss = terms.policy + SETTINGS[1] * terms.error - SETTINGS[2] * terms.entropy
    gradient = torch.autograd.grad((loss * share).sum(), vector)[0]
    return Gradient(gradient, (torch.stack(terms).detach() * share).sum(1))


def assert_close(actual: Gradient, expected: Gradient) -> None:
    """Part by part: a small one could hide behind a large one."""
    parts, right = parts_of(actual.vector), parts_of(expected.vector)
    for name, part in right.items():
        assert float((parts[name] - part).norm()) <= 5e-6 * float(part.norm()) + 1e-9, name
    torch.testing.assert_close(actual.figures, expected.figures, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nodes", [1, 3, 7, 33, 130])
def test_the_gradient_is_that_of_autograd(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_scorer, "PROGRAMS", 2)  # a program takes several tiles
    cases = Cases(nodes)
    count = 40 if nodes < 30 else 16
    slots = cases.slots(count + 10)
    chosen = torch.randperm(count + 10, generator=cases._random)[:count]
    share = cases.below(0.7, count).double()
    share /= share.sum()
    terms = exact_terms(cases.params, slots, chosen)
    assert 0.1 < float(terms.clipped.mean()) < 0.9, "clipped and not"
    actual = loss_gradient(cases.params, slots, chosen, share, SETTINGS)
    assert_close(actual, exact_gradient(cases.params, slots, chosen, share))


@pytest.mark.parametrize("nodes", [7, 130])
def test_either_way_to_block_nodes_gives_the_same(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases(nodes, seed=1)
    slots, chosen, share = cases.slots(5), torch.arange(5), torch.full((5,), 0.2, dtype=torch.float64)
    expected = exact_gradient(cases.params, slots, chosen, share)
    for tiling in ((1, 128), (8, 16), (16, 8)):
        monkeypatch.setattr(fused_scorer, "_tiling", lambda *_, tiling=tiling: tiling)
        assert_close(loss_gradient(cases.params, slots, chosen, share, SETTINGS), expected)


def test_what_has_no_share_is_not_looked_at() -> None:
    cases = Cases(3)
    slots, every = cases.slots(40), torch.arange(40)
    share = cases.below(0.5, 40).double() / 20
    share[0] = 0.0  # where programs would look that have nothing to do
    some = share.nonzero()[:, 0]
    expected = exact_gradient(cases.params, slots, some, share[some])
    for column in (slots.rows, slots.context, *slots.taken[1:]):
        column[share == 0] = math.nan
    assert_close(loss_gradient(cases.params, slots, every, share, SETTINGS), expected)
    nothing = loss_gradient(cases.params, slots, every, torch.zeros(40), SETTINGS)
    assert not nothing.vector.any()
    assert not nothing.figures.any()


_NEITHER, _DELAY, _BOTH = (False, False), (True, False), (True, True)


@pytest.mark.parametrize(
    ("nodes", "heads"),
    [
        (1, _BOTH),
        (3, _DELAY),
        (7, _NEITHER),
        (7, _DELAY),
        (7, _BOTH),
        (33, _DELAY),
        (130, _NEITHER),
        (600, _BOTH),
    ],
)
def test_chances_values_and_draws_are_those_of_torch(nodes: int, heads: tuple[bool, bool]) -> None:
    lanes = 19 if nodes < 30 else 3
    cases = Cases(nodes, seed=2)
    seen, unit, scale = cases.seen(lanes), cases.units(lanes), torch.tensor([0.5, 3.0], dtype=torch.float64)
    judge = FusedJudge(cases.params, scale, heads)
    judged, action, log_chance = judge.draw(seen, unit)
    others = torch.tensor(heads).expand(lanes, 2)
    allowed, ready = torch.cat([seen.legal, others], 1), seen.ready
    logits, value = logits_of(cases.params, seen.rows, seen.context, allowed)
    logs = logits.log_softmax(1).float()
    assert torch.equal(judged.allowed, allowed | ~ready[:, None])
    torch.testing.assert_close(judged.logs[ready], logs[ready], rtol=0, atol=2e-6)
    torch.testing.assert_close(judged.logs.exp().sum(1), torch.ones(lanes), rtol=0, atol=1e-5)
    torch.testing.assert_close(judged.value, value * 3.0 + 0.5, rtol=0, atol=1e-5)
    expected = drawn(judged, unit)
    assert torch.equal(action, expected.action)
    torch.testing.assert_close(log_chance, expected.log_chance, rtol=0, atol=1e-6)
    assert torch.equal(judge(seen).logs, judged.logs)


def test_a_learner_learns_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole steps of the optimiser over what was played."""
    config = FusedPPOConfig(
        steps=10_000, rollout_steps=6, epochs=1, minibatches=2, device="cpu", worlds="device", threads=1
    )
    plain = DevicePPO(config, DeviceLanes(gpu_world(), 4, seed=5, horizon=20))
    plain.play()
    plain.prepare_targets()
    plain._chosen.copy_(plain._order[: len(plain._chosen)])
    before = plain._adam.params.clone()
    after = []
    for fused in (False, True):
        plain._fused = fused
        plain._adam = TorchAdam(plain.lanes.device)
        plain._adam.params.copy_(before)
        plain._adam.begin([0.2, 0.5, 0.03, 0.01, 0.5, 0.0])
        plain.descend()
        after.append((plain._adam.params, plain._adam.log))
    assert float((after[0][0] - before).abs().max()) > 1e-3
    # Adam makes a full step of any gradient, and none may stand for 1e-12 and -1e-12.
    assert float((after[1][0] - after[0][0]).abs().median()) < 1e-6
    torch.testing.assert_close(after[1][1], after[0][1], rtol=1e-5, atol=1e-6)


def test_lanes_play_the_same_with_and_without() -> None:
    played = []
    for fused in (False, True):
        lanes = DeviceLanes(gpu_world(), 4, seed=5, horizon=20)
        params, scale = Cases(3, seed=3).params, torch.tensor([0.0, 1.0], dtype=torch.float64)
        rules = lanes.world.rules
        judge = FusedJudge(params, scale, (rules.may_delay, rules.may_reject))
        played.append(DevicePlayer(lanes, judge if fused else judging(lanes, params, scale), 8).play())
    eager, kernels = played
    ready = eager.chose
    assert ready.sum() > 10
    assert torch.equal(kernels.chose, ready)
    assert torch.equal(kernels.action[ready], eager.action[ready])
    torch.testing.assert_close(kernels.log_chance[ready], eager.log_chance[ready], rtol=0, atol=1e-5)
    torch.testing.assert_close(kernels.value[ready], eager.value[ready], rtol=0, atol=1e-5)
