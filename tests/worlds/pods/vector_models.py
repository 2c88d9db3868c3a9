"""Untrained models of the kinds that no command makes afresh."""

from __future__ import annotations

import math

import numpy as np

from proreus.kernels.arrays import F32
from proreus.worlds.pods.policies.vector.mlp import WIDTH
from proreus.worlds.pods.policies.vector.model import VectorMLP


def fresh_mlp(state_dim: int, action_dim: int, seed: int) -> VectorMLP:
    """An untrained plain network, for one length of the vector and one number of actions."""
    return VectorMLP(initial_tensors(state_dim, action_dim, seed))


def initial_tensors(inputs: int, actions: int, seed: int) -> dict[str, F32]:
    """Random orthogonal layers; the last one of the actor near zero, so that all choices are open."""
    random = np.random.default_rng(seed)
    tensors: dict[str, F32] = {}
    for side, outputs, last in (("actor", actions, 0.01), ("critic", 1, 1.0)):
        widths = ((inputs, WIDTH, math.sqrt(2.0)), (WIDTH, WIDTH, math.sqrt(2.0)), (WIDTH, outputs, last))
        for layer, (before, after, gain) in zip((0, 2, 4), widths, strict=True):
            tensors[f"{side}.{layer}.weight"] = _orthogonal(random, after, before, gain)
            tensors[f"{side}.{layer}.bias"] = np.zeros(after, dtype=np.float32)
    return tensors


def _orthogonal(random: np.random.Generator, rows: int, columns: int, gain: float) -> F32:
    tall = random.normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diag(r))
    return (gain * (q if rows >= columns else q.T)).astype(np.float32)
