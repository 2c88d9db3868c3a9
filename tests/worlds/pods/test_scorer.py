"""The scorer's kernels against torch's autograd in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from proreus.kernels.arrays import F32
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES, PREEMPTING
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.policies.scorer import (
    LAYOUT,
    MAY_DELAY,
    MAY_REJECT,
    PARAMETERS,
    backward,
    forward,
    initial_parameters,
    new_scorer_scratch,
    part,
    softmax,
)
from proreus.worlds.pods.policies.torch_networks import FixedActorCritic
from tests.worlds.pods.flat_networks import from_vector, to_vector

TOLERANCE = 1e-3


def case(rows: int, preempts: bool) -> tuple[F32, F32, F32]:
    """Parameters, rows and context at random."""
    random = np.random.default_rng(rows)
    params = (initial_parameters(1) + random.normal(0, 0.2, PARAMETERS)).astype(np.float32)
    context = random.normal(size=len(CONTEXT_FEATURES)).astype(np.float32)
    context[PREEMPTING] = 1.0 if preempts else 0.0
    return params, random.normal(size=(rows, len(PAIR_FEATURES))).astype(np.float32), context


@pytest.mark.parametrize("preempts", [False, True])
@pytest.mark.parametrize("count", [1, 3, 7, 8, 9, 100])
def test_the_kernels_are_the_network(count: int, preempts: bool) -> None:
    params, rows, context = case(count, preempts)
    work, gradient = new_scorer_scratch(count + 5), np.zeros(PARAMETERS, dtype=np.float32)
    value = forward(params, rows, (count, preempts), context, work)
    logits = work.logits[: count + 2].copy()
    random = np.random.default_rng(5)
    wanted = random.normal(size=count + 2).astype(np.float32)
    work.d_logits[: count + 2] = wanted
    work.d_value[0] = 0.7
    backward(params, rows, (count, preempts), context, work, gradient)

    network = from_vector(params).double()
    legal = torch.ones(1, count, dtype=torch.bool)
    ours, worth = network(torch.tensor(rows).double()[None], legal, torch.tensor(context).double()[None])
    ((ours[0] * torch.tensor(wanted).double()).sum() + 0.7 * worth.sum()).backward()
    np.testing.assert_allclose(logits, ours[0].detach().numpy(), rtol=TOLERANCE, atol=1e-5)
    assert value == pytest.approx(float(worth.detach()), rel=TOLERANCE, abs=1e-5)
    for name in LAYOUT:
        derivative = network.get_parameter(name).grad
        exact = np.zeros(LAYOUT[name]) if derivative is None else derivative.numpy()
        scale = max(float(np.abs(exact).max()), 1e-6)
        assert np.abs(part(gradient, name) - exact).max() / scale < TOLERANCE, name


@pytest.mark.parametrize("heads", [0, MAY_DELAY, MAY_REJECT, MAY_DELAY | MAY_REJECT])
def test_softmax_leaves_out_what_is_not_allowed(heads: int) -> None:
    work = new_scorer_scratch(9)
    logits = np.array([3.0, -2.0, 0.5, 80.0, -300.0, 1.0, 79.0])
    work.logits[:7] = logits
    allowed = np.array([True] * 5 + [bool(heads & MAY_DELAY), bool(heads & MAY_REJECT)])
    total = softmax(work, 5, heads)
    exact = np.where(allowed, np.exp(logits - 80.0), 0.0)
    assert total == pytest.approx(80.0 + math.log(exact.sum()), rel=1e-6)
    np.testing.assert_allclose(work.chances[:7], exact / exact.sum(), atol=1e-6)


def test_rows_that_are_not_legal_do_not_count() -> None:
    params, rows, context = case(6, False)
    network = from_vector(params)
    legal = torch.tensor([[True, False, True, True, False, False]])
    wide, value = network(torch.tensor(rows)[None], legal, torch.tensor(context)[None])
    work = new_scorer_scratch(6)
    kept = rows[[0, 2, 3]]
    worth = forward(params, kept, (3, False), context, work)
    np.testing.assert_allclose(wide[0, [0, 2, 3, 6, 7]].detach().numpy(), work.logits[:5], atol=1e-5)
    assert float(value.detach()) == pytest.approx(worth, abs=1e-5)
    assert torch.isinf(wide[0, [1, 4, 5]]).all()


def test_the_flat_vector_survives_torch() -> None:
    params = initial_parameters(4)
    assert to_vector(from_vector(params)).tobytes() == params.tobytes()


def test_nan_is_not_hidden() -> None:
    params, rows, context = case(4, False)
    rows[2, 3] = math.nan
    work = new_scorer_scratch(4)
    forward(params, rows, (4, False), context, work)
    assert not np.isfinite(work.logits[:4]).all()


def test_the_fixed_network_has_an_actor_and_a_critic() -> None:
    logits, value = FixedActorCritic(14, 16)(torch.zeros(3, 14))
    assert logits.shape == (3, 16) and value.shape == (3,)
