"""The published table of prompt and token times: medians over the tokens of a batch.

Columns: model, hardware, prompt_size, batch_size, token_size, prompt_time, token_time (milliseconds),
tensor_parallel.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.worlds.inference.model.timings import Table

_COLUMNS = ("model", "hardware", "prompt_size", "batch_size", "prompt_time", "token_time", "tensor_parallel")


def read_perf_table(path: Path) -> dict[str, Table]:
    """By "model/hardware/tensor_parallel"."""
    prompts: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    tokens: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError("is missing", file=path, line=1, field=missing[0])
        for row in reader:
            name = f"{row['model']}/{row['hardware']}/{row['tensor_parallel']}"
            try:
                size = int(row["prompt_size"]) * int(row["batch_size"])
                prompts[name][size].append(float(row["prompt_time"]) / 1000)
                tokens[name][size].append(float(row["token_time"]) / 1000)
            except ValueError as error:
                raise InputError(str(error), file=path, line=reader.line_num) from error
    return {name: Table(*_medians(prompts[name]), *_medians(tokens[name])) for name in prompts}


def _medians(found: dict[int, list[float]]) -> tuple[F64, F64]:
    sizes = sorted(found)
    return np.array(sizes, dtype=np.float64), np.array([np.median(found[size]) for size in sizes])
