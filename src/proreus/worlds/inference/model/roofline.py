"""Timings of a model on GPUs that nobody has measured: what arithmetic and memory bandwidth allow.

Real kernels reach a part of both. With the shares below, dense layers and the attention of decoding come to
within a third of the measured profiles that the tests know; attention of batches that mix prompts and
decoding is measured up to three times slower. Where there is a measured profile, take it.
"""

from __future__ import annotations

import numpy as np

from proreus.worlds.inference.model.hardware import Gpu
from proreus.worlds.inference.model.llm import LanguageModel
from proreus.worlds.inference.model.timings import (
    CHUNK_KNOTS,
    CONTEXT_KNOTS,
    DECODE_KNOTS,
    FIRST_TOKENS,
    LayerProfile,
    knot,
)

_ARITHMETIC, _OF_ATTENTION, _BANDWIDTH = 0.8, 0.4, 0.85
"""The shares of a data sheet that kernels reach: in dense layers, in the attention of prompts, in memory."""
_LINK = 200e9
"""Bytes a second between GPUs of a server with NVLink, for the sums that tensor parallelism needs; where the
link of a card is far slower, it counts."""
_LAUNCH = 15e-6
"""Seconds of a layer that are neither."""
_HOST = 0.001
_MOST_TOKENS = 8_192


def roofline(model: LanguageModel, gpu: Gpu, gpus: int) -> LayerProfile:
    """Of so many GPUs that share the layers of the model."""
    flops, bandwidth = gpus * gpu.flops * _ARITHMETIC, gpus * gpu.bandwidth * _BANDWIDTH
    tokens = np.unique(np.geomspace(1, _MOST_TOKENS, 48).round())
    weights = np.full(tokens.size, float(model.weights))
    passed = float(model.weights)
    if model.experts:
        expert = model.expert_bytes
        missed = (1.0 - model.experts_of_token / model.experts) ** tokens
        weights -= expert * model.experts * missed
        passed -= expert * (model.experts - model.experts_of_token)
    arithmetic = 2.0 * passed / model.number_size * tokens / flops
    dense = np.maximum(weights / bandwidth, arithmetic) + model.layers * _LAUNCH
    if gpus > 1 and gpu.link.bandwidth_among(gpus) < _LINK / 2:
        dense += gpu.link.of_iteration(model, tokens, gpus)
    elif gpus > 1:
        dense += 4 * model.layers * tokens * model.hidden * model.number_size / _LINK
    chunk, behind, decodes, context = np.ix_(
        _axis(CHUNK_KNOTS, FIRST_TOKENS),
        _axis(CONTEXT_KNOTS, FIRST_TOKENS),
        _axis(DECODE_KNOTS, 1),
        _axis(CONTEXT_KNOTS, FIRST_TOKENS),
    )
    pairs = 4.0 * model.layers * model.heads * model.head_size / (gpus * gpu.flops * _OF_ATTENTION)
    prompts = np.maximum(
        pairs * chunk * (behind + chunk / 2), model.kv_bytes * behind * (chunk > 0) / bandwidth
    )
    attention = prompts + np.maximum(pairs, model.kv_bytes / bandwidth) * decodes * context
    return LayerProfile(tokens, dense, np.array([1.0, 2.0]), np.zeros(2), attention, _HOST)


def _axis(knots: int, first: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([knot(place, first) for place in range(knots)], dtype=np.float64)
