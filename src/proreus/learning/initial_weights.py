"""First weights of an actor-critic that prefers the rows of one feature: learning begins there.

One unit of each layer hands the feature on to the logit; all other units begin as the seed draws them and
count for nothing until something is learned.
"""

from __future__ import annotations

from typing import Protocol

from proreus.contract.lanes import Arrays
from proreus.learning.learner_state import first_network, weights_of
from proreus.policies.networks.row_networks import ActorCritic

_UNIT = 0


class NetworkConfig(Protocol):
    """What the first weights depend on."""

    @property
    def seed(self) -> int:
        """Of the weights."""
        ...

    @property
    def hidden(self) -> int:
        """Width of the layers."""
        ...


def preferring(config: NetworkConfig, sizes: tuple[int, int], feature: int, logit: float) -> Arrays:
    """Rows have `logit` times their feature, which is not negative; sizes: features of rows and context."""
    weights = weights_of(first_network(ActorCritic, config, sizes))
    for layer in ("actor.of_row", "actor.deeper"):
        weights[f"{layer}.weight"][_UNIT] = 0.0
        weights[f"{layer}.bias"][_UNIT] = 0.0
    weights["actor.of_row.weight"][_UNIT, feature] = 1.0
    weights["actor.of_context.weight"][_UNIT] = 0.0
    weights["actor.deeper.weight"][_UNIT, _UNIT] = 1.0
    weights["from_whole.weight"][_UNIT] = 0.0
    weights["logit.weight"][0, _UNIT] = logit
    return weights
