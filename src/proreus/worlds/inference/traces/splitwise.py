"""Traces of splitwise-sim: request_id, request_type, application_id, arrival_timestamp, batch_size,
prompt_size, token_size."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from proreus.model.errors import InputError
from proreus.worlds.inference.model.requests import RequestTrace, trace_of


def read_splitwise_trace(path: Path) -> RequestTrace:
    """In order of arrival."""
    columns: list[tuple[float, int, int]] = []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            try:
                sizes = int(float(row["prompt_size"])), int(float(row["token_size"]))
                columns.append((float(row["arrival_timestamp"]), *sizes))
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(f"bad row: {error}", file=path, line=reader.line_num) from error
    if not columns:
        raise InputError("has no requests", file=path)
    arrival, prompt, output = (np.array(column) for column in zip(*columns, strict=True))
    order = np.argsort(arrival, kind="stable")
    return trace_of(path.stem, arrival[order], prompt[order], output[order])
