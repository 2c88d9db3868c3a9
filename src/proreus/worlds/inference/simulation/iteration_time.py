"""How long an iteration of a batch takes: from a published table, or from profiles of layers.

`table` asks two curves with a number of tokens, as its authors did: prompts with the sum of their lengths,
decoding with the number of sequences, a mix with both and a tenth more. It knows no context. `profile` adds
up what the layers of the model take: dense layers by tokens, attention by the chunk of prompts and the KV
memory behind it and by the decoding sequences and theirs, the head by sequences.

Letters in shape comments: T timings, K knots of a curve, and the knots of the attention grid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable
from proreus.worlds.inference.model.timings import (
    CHUNK_KNOTS,
    CONTEXT_KNOTS,
    DECODE_KNOTS,
    FIRST_TOKENS,
    LayerProfile,
    Table,
)

TABLE, PROFILE = range(2)
_MIX = 1.1
_FAR = 1 << 40
_NOTHING = np.array([0.0, 1.0]), np.zeros(2)


@packable
class Timing(NamedTuple):
    """Every timing that instances of a run refer to by number."""

    kind: I64  # [T]
    prompt_at: F64  # [T, K] tokens; rising, the last one repeated
    prompt_time: F64  # [T, K] seconds of a `table`'s prompts, of a `profile`'s dense layers
    token_at: F64  # [T, K]
    token_time: F64  # [T, K] seconds of a `table`'s tokens, of a `profile`'s head
    shared_at: F64  # [T, K]
    shared_time: F64  # [T, K] seconds of the experts that instances in step share
    knots: I64  # [T, 3] of the three curves
    attention: F64  # [T, CHUNK_KNOTS, CONTEXT_KNOTS, DECODE_KNOTS, CONTEXT_KNOTS] seconds of all layers
    overhead: F64  # [T] seconds between two iterations
    exchange: F64  # [T, 2] seconds an iteration and a token, of instances in step


class IterationBatch(NamedTuple):
    """What one iteration computes."""

    prompt_tokens: int
    prompt_context: float
    """Mean number of tokens before those of the prompts."""
    decodes: int
    context: int
    """Sum of the tokens before those of the decoding sequences."""
    sequences: int


@compiled
def iteration(timing: Timing, which: int, batch: IterationBatch) -> tuple[float, float, int]:
    """(seconds of the iteration, how much longer each later one takes, iterations for which that holds)."""
    if timing.kind[which] == TABLE:
        return table_seconds(timing, which, batch), 0.0, _FAR
    return _profile_seconds(timing, which, batch)


@compiled
def table_seconds(timing: Timing, which: int, batch: IterationBatch) -> float:
    """By the query rule of the table's authors."""
    knots, tokens = timing.knots[which], float(batch.prompt_tokens + batch.decodes)
    if batch.prompt_tokens == 0:
        return on_curve(timing.token_at[which], timing.token_time[which], knots[1], tokens)
    seconds = on_curve(timing.prompt_at[which], timing.prompt_time[which], knots[0], tokens)
    return seconds if batch.decodes == 0 else seconds * _MIX


@compiled
def on_curve(xs: F64, ys: F64, knots: int, x: float) -> float:
    """Linear between knots, and beyond them on the line of the last two."""
    low, high = 0, knots - 2
    while low < high:  # the last stretch that begins below x
        middle = (low + high + 1) // 2
        if xs[middle] < x:
            low = middle
        else:
            high = middle - 1
    slope = (ys[low + 1] - ys[low]) / (xs[low + 1] - xs[low])
    return float(slope * (x - xs[low]) + ys[low])


@compiled
def _profile_seconds(timing: Timing, which: int, batch: IterationBatch) -> tuple[float, float, int]:
    tokens = float(batch.prompt_tokens + batch.decodes)
    seconds = timing.overhead[which]
    seconds += on_curve(timing.prompt_at[which], timing.prompt_time[which], timing.knots[which, 0], tokens)
    sequences = float(batch.sequences)
    seconds += on_curve(timing.token_at[which], timing.token_time[which], timing.knots[which, 1], sequences)
    mean = batch.context / batch.decodes if batch.decodes else 0.0
    tokens, behind = float(batch.prompt_tokens), batch.prompt_context
    largest = _knot(CHUNK_KNOTS - 1, FIRST_TOKENS)
    attention, slope = attention_seconds(
        timing, which, min(tokens, largest), behind, (float(batch.decodes), mean)
    )
    while tokens > largest:  # the rest of a long prompt sees what comes before it
        tokens, behind = tokens - largest, behind + largest
        attention += attention_seconds(timing, which, min(tokens, largest), behind, (0.0, 0.0))[0]
    if batch.prompt_tokens:
        return seconds + attention, 0.0, 1
    return seconds + attention, slope, _until_next_knot(mean)


@compiled
def shared_seconds(timing: Timing, which: int, mean: float, most: float) -> float:
    """What instances in step wait for together, with so many tokens on average and on the fullest of them."""
    seconds = on_curve(timing.shared_at[which], timing.shared_time[which], timing.knots[which, 2], mean)
    return float(seconds + timing.exchange[which, 0] + most * timing.exchange[which, 1])


@compiled
def attention_seconds(
    timing: Timing, which: int, chunk: float, behind: float, decoding: tuple[float, float]
) -> tuple[float, float]:
    """(seconds, seconds a token of the mean context of decoding), on the grid of `attention`.

    `behind`: KV memory before the chunk. `decoding`: sequences and the mean context of each.
    """
    grid = timing.attention[which]
    c, c_share = _cell(chunk, FIRST_TOKENS, CHUNK_KNOTS)
    k, k_share = _cell(behind, FIRST_TOKENS, CONTEXT_KNOTS)
    n, n_share = _cell(decoding[0], 1, DECODE_KNOTS)
    d, d_share = _cell(decoding[1], FIRST_TOKENS, CONTEXT_KNOTS)
    low, high = 0.0, 0.0
    for corner in range(8):
        up_c, up_k, up_n = corner & 1, (corner >> 1) & 1, corner >> 2
        weight = c_share if up_c else 1.0 - c_share
        weight *= k_share if up_k else 1.0 - k_share
        weight *= n_share if up_n else 1.0 - n_share
        if weight != 0.0:
            low += weight * grid[c + up_c, k + up_k, n + up_n, d]
            high += weight * grid[c + up_c, k + up_k, n + up_n, d + 1]
    width = _knot(d + 1, FIRST_TOKENS) - _knot(d, FIRST_TOKENS)
    return low + d_share * (high - low), (high - low) / width


@compiled
def _knot(place: int, first: int) -> float:
    return 0.0 if place == 0 else float(first << (place - 1))


@compiled
def _cell(value: float, first: int, knots: int) -> tuple[int, float]:
    """(the knot below, the share of the way to the next one); more than one beyond the last knot."""
    place = 0
    while place < knots - 2 and _knot(place + 1, first) <= value:
        place += 1
    below = _knot(place, first)
    return place, (value - below) / (_knot(place + 1, first) - below)


@compiled
def _until_next_knot(mean: float) -> int:
    place, _ = _cell(mean, FIRST_TOKENS, CONTEXT_KNOTS)
    if place == CONTEXT_KNOTS - 2:
        return _FAR
    return max(math.ceil(_knot(place + 1, FIRST_TOKENS) - mean), 1)


@compiled
def lasting(first: float, growth: float, iterations: int) -> float:
    """Seconds of contiguous iterations, each `growth` longer than the one before."""
    return first * iterations + growth * (iterations * (iterations - 1) / 2)


@compiled
def completed(first: float, growth: float, elapsed: float) -> int:
    """Whole iterations in that time."""
    if growth == 0.0:
        return int(elapsed // first)
    half = growth / 2
    linear = first - half
    done = int((math.sqrt(linear * linear + 4 * half * elapsed) - linear) / growth)
    while done > 0 and lasting(first, growth, done) > elapsed:  # the root may be off by its last digit
        done -= 1
    while lasting(first, growth, done + 1) <= elapsed:
        done += 1
    return done


def timing_of(sources: list[Table | LayerProfile]) -> Timing:
    """The columns of timings, which instances name by their place."""
    curves: list[tuple[F64, ...]] = [_curves(source) for source in sources]
    most = max(len(curve[place]) for curve in curves for place in (0, 2, 4))
    columns = np.zeros((6, len(sources), most))
    for which, curve in enumerate(curves):
        for place, knots in enumerate(curve):
            columns[place, which, : len(knots)] = knots
    shape = (CHUNK_KNOTS, CONTEXT_KNOTS, DECODE_KNOTS, CONTEXT_KNOTS)
    profiled = [source for source in sources if isinstance(source, LayerProfile)]
    attention = np.zeros((len(sources), *shape)) if profiled else np.zeros((len(sources), 1, 1, 1, 1))
    overhead, exchange = np.zeros(len(sources)), np.zeros((len(sources), 2))
    kind = np.zeros(len(sources), dtype=np.int64)
    for which, source in enumerate(sources):
        if isinstance(source, LayerProfile):
            kind[which], attention[which], overhead[which] = PROFILE, source.attention, source.overhead
            exchange[which] = source.exchange
    return Timing(
        kind=kind,
        prompt_at=columns[0],
        prompt_time=columns[1],
        token_at=columns[2],
        token_time=columns[3],
        shared_at=columns[4],
        shared_time=columns[5],
        knots=np.array([[len(curve[place]) for place in (0, 2, 4)] for curve in curves], dtype=np.int64),
        attention=attention,
        overhead=overhead,
        exchange=exchange,
    )


def _curves(source: Table | LayerProfile) -> tuple[F64, ...]:
    if isinstance(source, Table):
        return source.prompt_at, source.prompt_time, source.token_at, source.token_time, *_NOTHING
    dense, head = (source.dense_at, source.dense_time), (source.head_at, source.head_time)
    return *dense, *head, source.shared_at, source.shared_time
