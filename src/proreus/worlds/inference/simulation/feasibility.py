"""What no controller could serve as promised: requests that would be late on an idle instance, and more of
them than all instances that there may be can do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import Bool
from proreus.worlds.inference.model.cluster import ClusterSpec
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.timings import LayerProfile
from proreus.worlds.inference.simulation.cluster import Timings
from proreus.worlds.inference.simulation.iteration_time import timing_of
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.slowdown import decode_seconds, prompt_seconds
from proreus.worlds.inference.state.observation import Ability

_LONG = 300.0
"""Seconds for which nobody waits."""


class BusyInstances(NamedTuple):
    """How many instances requests keep busy."""

    mean: float
    """Over the whole run, five minutes at least: a burst may be worked off after it."""
    most: float
    """In the five minutes in which most comes."""


def busy_instances(trace: RequestTrace, prompts: Ability, tokens: Ability) -> BusyInstances:
    """As the abilities of those that compute prompts and that generate say."""
    if not len(trace):
        return BusyInstances(0.0, 0.0)
    work = trace.prompt / prompts.prompt_tokens + trace.output / tokens.output_tokens
    since = trace.arrival - trace.arrival[0]
    span = max(float(since[-1]), _LONG)
    parts = int(span // _LONG)
    # The last part is the longer one.
    by_part = np.bincount(np.minimum((since // _LONG).astype(np.int64), parts - 1), work, parts)
    seconds = np.full(parts, _LONG)
    seconds[-1] = span - _LONG * (parts - 1)
    return BusyInstances(float(work.sum()) / span, float((by_part / seconds).max()))


def hopeless(trace: RequestTrace, spec: ClusterSpec, timings: Timings, options: ControlOptions) -> Bool:
    """[requests] whether each would be late alone; where prompts may be found in a cache, or times come from
    a published table, none is said to be."""
    hopeless = np.zeros(len(trace), dtype=np.bool_)
    cached = trace.prefix is not None and any(kind.prefix_cache for kind in spec.kinds)
    if cached or not all(isinstance(timings[kind.timing], LayerProfile) for kind in spec.kinds):
        return hopeless
    ttft = np.array([class_.ttft for class_ in options.classes])[trace.service]
    tbt = np.array([class_.tbt for class_ in options.classes])[trace.service]
    prompt, output = trace.prompt.astype(np.int64), trace.output.astype(np.int64)
    longest = int((prompt + output).max())
    for number, name in enumerate(dict.fromkeys(kind.model.name for kind in spec.kinds)):
        mine = np.flatnonzero(trace.model == number)
        if not mine.size:
            continue
        late = np.ones(mine.size, dtype=np.bool_)
        for kind in spec.kinds:
            if kind.model.name != name:
                continue
            timing = timing_of([timings[kind.timing]])
            lengths, place = np.unique(prompt[mine], return_inverse=True)
            chunk = kind.token_limit if kind.engine == "chunked" else longest
            first = prompt_seconds(timing, 0, chunk, lengths)[place]
            passed = decode_seconds(timing, 0, longest)
            rest = passed[(prompt + output - 1)[mine]] - passed[prompt[mine]]
            between = rest / np.maximum(output[mine] - 1, 1)
            late &= (first > ttft[mine]) | (between > tbt[mine])
        hopeless[mine] = late
    return hopeless
