"""How long functions idle: the histogram of "Serverless in the Wild" (Azure, 2020), in bins of seconds.

An instance is kept up to the 99th percentile of its function's idle times, and a tenth longer. Where too few
times are known, or too many lie beyond the last bin, the usual keep-alive holds. Warming up ahead of time,
the other half of that policy, has no place here: instances start for requests that are there.
"""

from __future__ import annotations

from proreus.kernels.arrays import I32
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.functions.state.columns import Runs

EDGES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)
BINS = len(EDGES) + 1
_TAIL, _MARGIN, _LEAST, _BEYOND = 0.99, 1.1, 5, 0.5


@compiled_inline
def note_gap(gaps: I32, function: int, seconds: float) -> None:
    """A function idled for so long; `gaps` of a lane."""
    place = 0
    while place < len(EDGES) and seconds > EDGES[place]:
        place += 1
    gaps[function, place] += 1


@compiled
def kept_by_histogram(runs: Runs, lane: int, function: int, usual: float) -> float:
    """Seconds that an idle instance of the function is kept."""
    total = 0
    for place in range(BINS):
        total += runs.gaps[lane, function, place]
    if total < _LEAST or runs.gaps[lane, function, BINS - 1] > _BEYOND * total:
        return usual
    counted = 0
    for place in range(BINS - 1):
        counted += runs.gaps[lane, function, place]
        if counted >= _TAIL * total:
            return EDGES[place] * _MARGIN
    return EDGES[BINS - 2] * _MARGIN
