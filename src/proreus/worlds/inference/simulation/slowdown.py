"""How much longer requests took than they had to: latencies in what the same request would take alone.

Where iterations are timed by layers, that is the time of the request on an idle instance of its model, of the
first kind that the cluster has for it, which computes the prompt and all tokens: no queue, no transfer, no
other request. Where they are timed by a published table, it is what the authors of the table divide by: its
curves for eight A100 at the length of the prompt, for the tokens too.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.worlds.inference.model.cluster import InstanceKind
from proreus.worlds.inference.model.timings import Table
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster, Timings
from proreus.worlds.inference.simulation.iteration_time import IterationBatch, Timing, iteration

LATENCIES = ("ttft", "tbt", "e2e")
_PUBLISHED = "a100-80gb/8"


def slowdowns(cluster: InferenceCluster, timings: Timings, served: F64) -> dict[str, F64]:
    """By latency: of each request that was served; of those with one token, no time between tokens."""
    slowdowns = {name: np.zeros(len(served)) for name in LATENCIES}
    for number, kind in enumerate(_first_kinds(cluster)):
        mine = served[:, c.L_MODEL] == number
        if not mine.any():
            continue
        rows = served[mine]
        first, last = rows[:, c.L_FIRST] - rows[:, c.L_ARRIVAL], rows[:, c.L_ENDED] - rows[:, c.L_ARRIVAL]
        output = rows[:, c.L_OUTPUT]
        source = timings[kind.timing]
        if isinstance(source, Table):
            published = timings.get(f"{kind.model.name}/{_PUBLISHED}", source)
            assert isinstance(published, Table)
            ttft, tbt = published_times(published, rows[:, c.L_PROMPT])
            slowdowns["ttft"][mine] = first / ttft
            slowdowns["tbt"][mine] = (last - first) / output / tbt
            slowdowns["e2e"][mine] = last / (ttft + tbt * (output - 1))
            continue
        ttft, decoding = _alone(cluster, kind, rows)
        slowdowns["ttft"][mine] = first / ttft
        slowdowns["tbt"][mine] = (last - first) / np.where(output > 1, decoding, 1.0)
        slowdowns["e2e"][mine] = last / (ttft + decoding)
    slowdowns["tbt"] = slowdowns["tbt"][served[:, c.L_OUTPUT] > 1]
    return slowdowns


def _first_kinds(cluster: InferenceCluster) -> list[InstanceKind]:
    """Of each model, in the order of their numbers."""
    return list({kind.model.name: kind for kind in reversed(cluster.spec.kinds)}.values())[::-1]


def published_times(table: Table, prompt: F64) -> tuple[F64, F64]:
    """(seconds to the first token, seconds a token) by the table, at the length of each prompt."""
    return (
        _on_curve(table.prompt_at, table.prompt_time, prompt),
        _on_curve(table.token_at, table.token_time, prompt),
    )


def _on_curve(xs: F64, ys: F64, at: F64) -> F64:
    """Linear between knots, and beyond them on the line of the last two."""
    low = np.clip(np.searchsorted(xs, at) - 1, 0, len(xs) - 2)
    slope = (ys[low + 1] - ys[low]) / (xs[low + 1] - xs[low])
    return np.asarray(slope * (at - xs[low]) + ys[low])


def _alone(cluster: InferenceCluster, kind: InstanceKind, rows: F64) -> tuple[F64, F64]:
    """(seconds of the prompt, of all other tokens) of each request."""
    prompt, output = rows[:, c.L_PROMPT].astype(np.int64), rows[:, c.L_OUTPUT].astype(np.int64)
    longest = int((prompt + output).max())
    chunk = kind.token_limit if kind.engine == "chunked" else longest
    timing, which = cluster.run.timing, cluster.timing_number(kind)
    lengths, place = np.unique(prompt, return_inverse=True)
    seconds = prompt_seconds(timing, which, chunk, lengths)[place]
    passed = _decoding(cluster, timing, which, longest)
    return seconds, passed[prompt + output - 1] - passed[prompt]


_DECODING: WeakKeyDictionary[InferenceCluster, dict[int, F64]] = WeakKeyDictionary()


def _decoding(cluster: InferenceCluster, timing: Timing, which: int, longest: int) -> F64:
    """`decode_seconds` of a cluster, worked out once for all requests of its trace."""
    known = _DECODING.setdefault(cluster, {})
    if which not in known or len(known[which]) <= longest:
        most = int((cluster.trace.prompt + cluster.trace.output).max())
        known[which] = decode_seconds(timing, which, max(longest, most))
    return known[which]


@compiled
def prompt_seconds(timing: Timing, which: int, chunk: int, lengths: I64) -> F64:
    """Of prompts of such lengths, in chunks, alone."""
    prompt_seconds = np.zeros(lengths.size)
    for place in range(lengths.size):
        done = 0
        while done < lengths[place]:
            tokens = min(chunk, lengths[place] - done)
            prompt_seconds[place] += iteration(timing, which, IterationBatch(tokens, float(done), 0, 0, 1))[0]
            done += tokens
    return prompt_seconds


@compiled
def decode_seconds(timing: Timing, which: int, longest: int) -> F64:
    """[longest + 1] of decoding alone behind contexts of 0, 1, ... tokens, added up."""
    seconds = np.zeros(longest + 1)
    for context in range(longest):
        seconds[context + 1] = (
            seconds[context] + iteration(timing, which, IterationBatch(0, 0.0, 1, context, 1))[0]
        )
    return seconds
