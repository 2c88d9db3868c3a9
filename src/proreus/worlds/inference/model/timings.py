"""How long iterations take on one machine, as it was published or measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64

CHUNK_KNOTS, CONTEXT_KNOTS, DECODE_KNOTS = 9, 12, 10
FIRST_TOKENS = 16
"""Knots are 0 and powers of two: chunks and contexts from 16 tokens on, sequences from 1 on."""


def knot(place: int, first: int) -> int:
    """What the knot at that place of an axis stands for."""
    return 0 if place == 0 else first << (place - 1)


class Table(NamedTuple):
    """A published table of one model on one machine: medians over tokens, in seconds."""

    prompt_at: F64
    prompt_time: F64
    token_at: F64
    token_time: F64


class LayerProfile(NamedTuple):
    """What the layers of one model take on one machine, in seconds, all layers together."""

    dense_at: F64
    dense_time: F64
    head_at: F64
    head_time: F64
    attention: F64
    """[CHUNK_KNOTS, CONTEXT_KNOTS, DECODE_KNOTS, CONTEXT_KNOTS]"""
    overhead: float
    """Seconds of the host between two iterations."""
    shared_at: F64 = np.array([0.0, 1.0])
    shared_time: F64 = np.zeros(2)
    """Experts that instances in step share, by the mean of their tokens."""
    exchange: tuple[float, float] = (0.0, 0.0)
    """What such instances tell each other: seconds an iteration, and a token of the fullest of them."""
