"""Small clusters whose timings and sizes are easy to reckon with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from proreus.worlds.inference.model.cluster import (
    ClusterSpec,
    Compatibility,
    Engine,
    Group,
    InstanceKind,
    Scheduler,
)
from proreus.worlds.inference.model.hardware import Gpu
from proreus.worlds.inference.model.llm import LanguageModel
from proreus.worlds.inference.model.prefixes import blocks_of
from proreus.worlds.inference.model.requests import RequestTrace, trace_of
from proreus.worlds.inference.model.timings import (
    CHUNK_KNOTS,
    CONTEXT_KNOTS,
    DECODE_KNOTS,
    FIRST_TOKENS,
    LayerProfile,
    Table,
    knot,
)
from proreus.worlds.inference.simulation.cluster import TWO_POOLS, Timings

MODEL = LanguageModel("tiny", 1, 1, 1, 1, 1, 1, 1, weights=1_000)
"""A token leaves 4 bytes behind."""
TABLE = Table(
    np.array([1.0, 100.0, 400.0]),
    np.array([0.02, 0.05, 0.2]),
    np.array([1.0, 16.0, 64.0]),
    np.array([0.01, 0.013, 0.03]),
)


def layers() -> LayerProfile:
    """Attention that grows with everything it sees."""
    axes = np.ix_(
        *(
            np.array([knot(place, first) for place in range(count)], dtype=np.float64)
            for count, first in (
                (CHUNK_KNOTS, FIRST_TOKENS),
                (CONTEXT_KNOTS, FIRST_TOKENS),
                (DECODE_KNOTS, 1),
                (CONTEXT_KNOTS, FIRST_TOKENS),
            )
        )
    )
    chunk, behind, decodes, context = axes
    attention = 1e-6 * chunk * (1 + 0.01 * behind) + 3e-6 * decodes * (1 + 0.02 * context)
    at = np.array([1.0, 2048.0])
    dense, head, experts = np.array([0.004, 0.04]), np.array([0.001, 0.002]), np.array([0.002, 0.03])
    return LayerProfile(at, dense, at, head, attention, 0.0005, at, experts, (0.001, 1e-5))


TIMINGS: Timings = {"table": TABLE, "layers": layers()}


def kind_of(engine: Engine, timing: str, room: int, batch: int = 8, tokens: int = 200) -> InstanceKind:
    """An instance with KV memory for `room` tokens."""
    memory = MODEL.weights + room * MODEL.kv_bytes
    machine = Gpu("toy", memory, 1.0, 1.0, 1.0, 2.0, 2.0, 1.0)
    return InstanceKind(
        "one", MODEL, machine, timing, gpus=1, engine=engine, batch_limit=batch, token_limit=tokens, block=4
    )


def spec_of(
    kind: InstanceKind,
    scheduler: Scheduler,
    sizes: tuple[int, int] = (2, 2),
    compatibility: Compatibility | None = None,
) -> ClusterSpec:
    """So many prompt and token instances, or that many in all where the scheduler knows one pool."""
    groups = (
        (Group("one", "prompt", sizes[0]), Group("one", "token", sizes[1]))
        if scheduler in TWO_POOLS
        else (Group("one", "mixed", sum(sizes)),)
    )
    link = 2_000 / 1024**3  # 500 tokens a second
    return ClusterSpec(
        (kind,),
        groups,
        scheduler,
        link_gigabytes=link,
        prompt_queue_limit=150,
        compatibility=compatibility or Compatibility(),
    )


def requests(seed: int, count: int = 60, rate: float = 20.0, longest: int = 120) -> RequestTrace:
    """By chance; some come at the same moment, some are too short to decode."""
    draw = np.random.default_rng(seed)
    arrival = np.cumsum(draw.exponential(1.0 / rate, count)).round(2)
    prompt, output = draw.integers(1, longest, count), draw.integers(1, 60, count)
    return trace_of("random", arrival, prompt.astype(np.int32), output.astype(np.int32))


def alike(seed: int, count: int = 60, rate: float = 20.0, longest: int = 120) -> RequestTrace:
    """The same, of prompts that begin alike: each goes on where another one left the common path."""
    trace, draw = requests(seed, count, rate, longest), np.random.default_rng([seed, 7])
    rows: list[list[int]] = []
    fresh = 0
    for tokens in trace.prompt.tolist():
        whole, start = tokens // 8, rows[int(draw.integers(len(rows)))] if rows else []
        row = start[: min(int(draw.integers(len(start) + 1)), whole)]
        row = [*row, *range(fresh, fresh + whole - len(row))]
        fresh = max([fresh, *(number + 1 for number in row)])
        rows.append(row)
    return replace(trace, prefix=blocks_of(rows, 8))
