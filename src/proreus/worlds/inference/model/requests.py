"""Requests to language models: when they come, how long their prompts are, how many tokens they generate.

A trace is a handful of arrays, not a list of objects: a day of a busy service has millions of requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.worlds.inference.model.prefixes import PrefixBlocks


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """Requests in order of arrival."""

    name: str
    arrival: F64
    """[N] seconds, never falling."""
    prompt: I32
    """[N] tokens, at least one."""
    output: I32
    """[N] tokens to generate, at least one."""
    model: I32
    """[N] number of the language model among those of the cluster."""
    service: I32
    """[N] number of the class of service."""
    prefix: PrefixBlocks | None = None
    """The blocks of prompts that begin alike, where they are known."""

    def __post_init__(self) -> None:
        count = len(self.arrival)
        if any(len(column) != count for column in (self.prompt, self.output, self.model, self.service)):
            raise ValueError("the columns of a trace have different lengths")
        if not count:
            raise ValueError("a trace needs at least one request")
        if not np.isfinite(self.arrival).all() or (np.diff(self.arrival) < 0).any() or self.arrival[0] < 0:
            raise ValueError("the arrivals are not in order, from 0 on")
        if min(self.prompt.min(), self.output.min()) < 1:
            raise ValueError("a prompt and an output have at least one token")
        if self.prefix is not None:
            whole = self.prompt // self.prefix.tokens
            if len(self.prefix.begin) != count + 1 or (np.diff(self.prefix.begin) > whole).any():
                raise ValueError("a prompt has more blocks than tokens for them")

    def __len__(self) -> int:
        return len(self.arrival)


def trace_of(
    name: str, arrival: F64, prompt: I32, output: I32, prefix: PrefixBlocks | None = None
) -> RequestTrace:
    """A trace of one model and one class of service."""
    zero = np.zeros(len(arrival), dtype=np.int32)
    return RequestTrace(
        name,
        np.ascontiguousarray(arrival, dtype=np.float64),
        np.ascontiguousarray(prompt, dtype=np.int32),
        np.ascontiguousarray(output, dtype=np.int32),
        zero,
        zero,
        prefix,
    )
