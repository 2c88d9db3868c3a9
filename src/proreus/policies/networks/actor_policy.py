"""A trained actor as a policy of any world that encodes decisions as rows: the likeliest choice, in torch.

For worlds without kernels of their own; `bidder` plays the same networks inside kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from proreus.kernels.arrays import F32
from proreus.policies.networks.row_networks import ActorCritic, best_choice
from proreus.policies.networks.torch_threads import few_torch_threads

Encode = Callable[[Any], tuple[F32, F32]]
"""From an observation to (rows [R, F], context [G])."""


def actor_of(tensors: Mapping[str, Any]) -> ActorCritic:
    """The network of a checkpoint; a ValueError where the tensors are not those of one."""
    try:
        hidden, rows = tensors["actor.of_row.weight"].shape
        network = ActorCritic(hidden, rows, tensors["actor.of_context.weight"].shape[1])
        network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()})
    except (KeyError, RuntimeError, IndexError) as error:
        raise ValueError(f"not an actor: {error}") from error
    return network.eval()


class ActorPolicy:
    """Takes the legal choice with the highest logit, the first of equals; it remembers and draws nothing."""

    def __init__(self, name: str, network: ActorCritic, encode: Encode) -> None:
        self.name = name
        self._network, self._encode = network, encode

    @few_torch_threads()
    def decide(self, observation: Any, /) -> int:
        """The number of the action."""
        rows, context = (torch.from_numpy(array).unsqueeze(0) for array in self._encode(observation))
        legal = torch.from_numpy(observation.action_mask()).unsqueeze(0)
        with torch.inference_mode():
            logits, _ = self._network(rows, context, legal)
        return int(best_choice(logits, legal))

    def fresh(self, seed: int) -> ActorPolicy:
        """Itself."""
        return self
