"""The demand that is trained on, in figures: where experts stand, and which of them is near."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.rebalance.windows.encoding.figures import hosting_figures, nearest
from proreus.worlds.rebalance.windows.model import part_of_windows
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario

_LOOKS, _DEPLOYMENTS = 24, 4
"""Windows of the training part at which a deployment's figures are taken, and generated deployments."""


def mean_figures(scenario: WindowScenario) -> F64:
    """The mean figures of the training part."""
    name = []
    for seed in range(1 if scenario.file is not None else _DEPLOYMENTS):
        world = scenario.of_part("train").load(seed)
        first, last = part_of_windows("train", world.windows.windows)
        for window in np.linspace(first + 1, last - 1, _LOOKS).astype(int).tolist():
            world.begin(window, window + 1)
            name.append(hosting_figures(world.hosting))
    return np.mean(name, axis=0)


def expert_weights(policy: MovePolicy, scenario: WindowScenario) -> F64 | None:
    """float64[features] of the expert for that demand; None where it is unlike all of theirs."""
    if policy.experts is None:
        return None
    expert = int(nearest(mean_figures(scenario), policy.experts.stands))
    return None if expert < 0 else policy.experts.weights[expert]
