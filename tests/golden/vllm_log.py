"""What vLLM logged of each request: when it was queued, had its first token and its last one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proreus.data.text_file import read_lines
from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.worlds.inference.model.requests import RequestTrace, trace_of


@dataclass(frozen=True, eq=False)
class ServedRequests:
    """Requests in order of arrival, and how they fared."""

    trace: RequestTrace
    ttft: F64
    """[N] seconds from the queue to the first token."""
    tpot: F64
    """[N] seconds a token after the first."""


def read_vllm_log(path: Path) -> ServedRequests:
    """One JSON object a line: input_toks, output_toks, queued_ts, first_token_ts, last_token_ts."""
    found: list[tuple[float, float, float, int, int]] = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            queued_at, first_at = float(entry["queued_ts"]), float(entry["first_token_ts"])
            tokens = int(entry["input_toks"]), int(entry["output_toks"])
            found.append((queued_at, first_at, float(entry["last_token_ts"]), *tokens))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"not a request: {error}", file=path, line=number) from error
    if not found:
        raise InputError("has no requests", file=path)
    queued, first, last, prompt, output = (np.array(column) for column in zip(*sorted(found), strict=True))
    trace = trace_of(path.parent.parent.name, queued - queued[0], prompt, output)
    return ServedRequests(trace, first - queued, (last - first) / np.maximum(output - 1, 1))
