"""Untrained models of the kinds that no command makes afresh."""

from __future__ import annotations

from proreus.worlds.pods.policies.vector.mlp import initial_tensors
from proreus.worlds.pods.policies.vector.model import VectorMLP


def fresh_mlp(state_dim: int, action_dim: int, seed: int) -> VectorMLP:
    """An untrained plain network, for one length of the vector and one number of actions."""
    return VectorMLP(initial_tensors(state_dim, action_dim, seed))
