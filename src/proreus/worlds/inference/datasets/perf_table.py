"""The published table of prompt and token times: medians over the tokens of a batch, in milliseconds."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from proreus.data.table import read_filled_table
from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.timings import Table

_COLUMNS = ("model", "hardware", "prompt_size", "batch_size", "prompt_time", "token_time", "tensor_parallel")
_UNUSED = ("token_size", "peak_power", "average_power", "e2e_time")


def read_perf_table(path: Path) -> dict[str, Table]:
    """By "model/hardware/tensor_parallel"."""
    prompts: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    tokens: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read_filled_table(path, required=_COLUMNS, optional=_UNUSED):
        name = f"{row.text('model')}/{row.text('hardware')}/{row.text('tensor_parallel')}"
        size = row.integer("prompt_size", minimum=1) * row.integer("batch_size", minimum=1)
        prompts[name][size].append(row.number("prompt_time") / 1000)
        tokens[name][size].append(row.number("token_time") / 1000)
    return {name: Table(*_medians(prompts[name]), *_medians(tokens[name])) for name in prompts}


def _medians(found: dict[int, list[float]]) -> tuple[F64, F64]:
    sizes = sorted(found)
    return np.array(sizes, dtype=np.float64), np.array([np.median(found[size]) for size in sizes])
