"""Measured times of the layers of a model on one machine: a folder of tables in microseconds.

`dense.csv` (layer, tokens), `per_sequence.csv` (layer, sequences), `attention.csv` (prefill_chunk,
kv_prefill, n_decode, kv_decode) and, for models with experts, `moe.csv` (tokens, activated_experts); each
with time_us.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proreus.data.table import read_filled_table
from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.worlds.inference.model.interconnect import PCIE5, Interconnect
from proreus.worlds.inference.model.llm import LanguageModel
from proreus.worlds.inference.model.timings import (
    CHUNK_KNOTS,
    CONTEXT_KNOTS,
    DECODE_KNOTS,
    FIRST_TOKENS,
    LayerProfile,
    knot,
)

_ONCE = ("embedding", "final_layernorm")
"""Layers that a token passes once; the others are in every layer, `layernorm` twice."""
_MICRO = 1e-6
HOST_SECONDS = 0.001
"""Of a serving engine between two iterations, which no layer knows of; fitted to logs of vLLM."""


@dataclass(frozen=True)
class Link:
    """Between instances that iterate in step: what an all-gather or a reduce-scatter takes."""

    seconds: float
    """Of every one."""
    bandwidth: float
    """Bytes a second that one instance sends to the next."""

    def exchange(self, model: LanguageModel, instances: int) -> tuple[float, float]:
        """(seconds an iteration, seconds a token of the fullest): before and after the experts of a layer.

        Tokens go round with their weights and the numbers of their experts, and come back summed up.
        """
        hops = model.layers * (instances - 1)
        there = model.hidden * model.number_size + 8 * model.experts_of_token
        back = model.hidden * model.number_size
        return 2 * hops * self.seconds, hops * (there + back) / self.bandwidth


PCIE = Link(35e-6, 29e9)
"""Two RTX PRO 6000 without NVLink; fitted to single iterations of a log of vLLM, see the docs."""


@dataclass(frozen=True)
class Together:
    """GPUs that compute every layer together; the tables are those of one of them."""

    gpus: int = 1
    link: Interconnect = PCIE5


def read_layer_profile(
    folder: Path,
    model: LanguageModel,
    share_experts: int = 1,
    link: Link = PCIE,
    together: Together | None = None,
) -> LayerProfile:
    """All layers of the model together; so many instances that iterate in step share its experts.

    The tables leave out what GPUs that compute a layer together tell each other: `together` adds it.
    """
    tensor = together or Together()

    def times(layer: str) -> int:
        if layer in _ONCE:
            return 1
        return 2 * model.layers if layer == "layernorm" else model.layers

    tokens, dense = _added_up(folder / "dense.csv", "tokens", times)
    experts = np.zeros(tokens.size)
    if model.experts:
        experts = model.layers * _experts(folder / "moe.csv", model, tokens, share_experts)
    sequences, head = _added_up(folder / "per_sequence.csv", "sequences", lambda layer: 1)
    attention = _attention(folder / "attention.csv") * model.layers
    alone = share_experts == 1
    sums = tensor.link.of_iteration(model, tokens, tensor.gpus)
    return LayerProfile(
        dense_at=tokens,
        dense_time=(dense + experts if alone else dense) * _MICRO + sums,
        head_at=sequences,
        head_time=head * _MICRO,
        attention=attention * _MICRO,
        overhead=HOST_SECONDS,
        shared_at=tokens,
        shared_time=(np.zeros(tokens.size) if alone else experts) * _MICRO,
        exchange=(0.0, 0.0) if alone else link.exchange(model, share_experts),
    )


def _added_up(path: Path, axis: str, times: Callable[[str], int]) -> tuple[F64, F64]:
    """(knots, microseconds of all layers there)."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for row in read_filled_table(path, required=("layer", axis, "time_us")):
        found[row.integer(axis, minimum=1)][row.text("layer")] = row.number("time_us")
    knots = sorted(found)
    layers = set(found[knots[0]])
    for at in knots:
        if set(found[at]) != layers:
            raise InputError(f"not every layer was measured with {at} {axis}", file=path)
    sums = [sum(times(layer) * time for layer, time in sorted(found[at].items())) for at in knots]
    return np.array(knots, dtype=np.float64), np.array(sums)


def _experts(path: Path, model: LanguageModel, tokens: F64, share: int) -> F64:
    """Microseconds of the experts of one layer, by the tokens of one of the instances that share them.

    Each of the instances has its part of the experts; as many tokens come from the others as go to them.
    """
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for row in read_filled_table(path, required=("tokens", "activated_experts", "time_us")):
        found[row.integer("tokens")][row.integer("activated_experts")] = row.number("time_us")
    measured = sorted(found)
    missed = 1.0 - model.experts_of_token / model.experts
    at_tokens = []
    for count in tokens:
        activated = model.experts / share * (1.0 - missed ** (count * share))
        by_tokens = [_between(found[at], activated) for at in measured]
        at_tokens.append(np.interp(count, measured, by_tokens))
    return np.array(at_tokens)


def _between(times: dict[int, float], experts: float) -> float:
    known = sorted(times)
    return float(np.interp(experts, known, [times[at] for at in known]))


def _attention(path: Path) -> F64:
    """Microseconds of one layer on the grid of `LayerProfile`; finer measurements are left out."""
    rows = read_filled_table(
        path, required=("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
    )
    places = [{knot(place, first): place for place in range(knots)} for knots, first in _axes()]
    grid = np.full([knots for knots, _ in _axes()], np.nan)
    for row in rows:
        at = [row.integer(name) for name in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")]
        if all(value in known for value, known in zip(at, places, strict=True)):
            grid[*(known[value] for value, known in zip(at, places, strict=True))] = row.number("time_us")
    grid[0, 0, 0, 0] = 0.0
    grid[:, :, 1:, 0] = np.where(np.isnan(grid[:, :, 1:, 0]), grid[:, :, 1:, 1], grid[:, :, 1:, 0])
    grid[:, :, 0, :] = grid[:, :, 0, :1]
    grid[0, 1:] = grid[0, :1]
    # The largest batches were measured without prompts alone: what they take longer is the same with some.
    longer = grid[0, :1, 1:, :] - grid[0, :1, :-1, :]
    for place in range(1, DECODE_KNOTS):
        guess = grid[:, :, place - 1, :] + longer[None, :, place - 1, :]
        grid[:, :, place, :] = np.where(np.isnan(grid[:, :, place, :]), guess, grid[:, :, place, :])
    if np.isnan(grid).any():
        raise InputError("the measurements leave holes in the grid of powers of two", file=path)
    return grid


def _axes() -> tuple[tuple[int, int], ...]:
    """(knots, the first one) of each axis."""
    contexts = (CONTEXT_KNOTS, FIRST_TOKENS)
    return (CHUNK_KNOTS, FIRST_TOKENS), contexts, (DECODE_KNOTS, 1), contexts
