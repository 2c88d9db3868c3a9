"""A learner that begins at a preference, and one that begins with given weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from proreus.contract.lanes import Choices
from proreus.learning.initial_weights import preferring
from proreus.learning.learner_state import first_network, set_weights, weights_of
from proreus.learning.ppo import PPOConfig, PPOLearner
from proreus.policies.networks.row_networks import ActorCritic


def test_rows_of_the_feature_are_preferred_by_that_much() -> None:
    config = PPOConfig(hidden=8, seed=5)
    network = first_network(ActorCritic, config, (3, 4))
    set_weights(network, preferring(config, (3, 4), 1, 4.0))
    draw = torch.Generator().manual_seed(0)
    rows, context = torch.randn(6, 5, 3, generator=draw), torch.randn(6, 4, generator=draw)
    rows[:, :, 1] = torch.tensor([0.0, 1.0, 0.0, 0.5, 0.0])
    logits = network.logits(rows, context)
    expected = torch.tensor([0.0, 4.0, 0.0, 2.0, 0.0]).expand(6, 5)
    torch.testing.assert_close(logits - logits[:, :1], expected, atol=1e-5, rtol=0.0)


class _OneDecision:
    """As much of lanes as a learner needs to begin."""

    def __len__(self) -> int:
        return 1

    def reset(self, seed: int) -> Choices:
        return Choices(
            np.zeros((1, 2, 3), np.float32), np.zeros((1, 4), np.float32), np.ones((1, 2), np.bool_)
        )


def test_a_learner_begins_with_the_weights_it_is_given() -> None:
    lanes: Any = _OneDecision()
    given = {name: array + 0.5 for name, array in weights_of(PPOLearner(PPOConfig(), lanes).network).items()}
    learner = PPOLearner(PPOConfig(), lanes, initial=given)
    for name, array in weights_of(learner.network).items():
        np.testing.assert_array_equal(array, given[name])
