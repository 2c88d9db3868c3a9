"""The observation of the document's environment: its names, its shapes, and one kernel that fills them.

A vector holds the parts one behind the other in the order of `parts_of`. As they are, amounts have their
units (cores, GB, dollars an hour, MB/s, IOPS); `even` makes them shares from 0 to 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F32, F64
from proreus.kernels.jit import compiled
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs

_CORE, _GB, _DOLLAR, _MB = 1_000.0, 1_024.0, 1e6, 1_000.0
MOST_IO = 1e6
"""MB/s and IOPS beyond which an observation does not look."""
_MANY = float(np.log1p(1_000.0))


class ObservationPart(NamedTuple):
    """One name of the observation."""

    name: str
    shape: tuple[int, ...]
    begin: int

    @property
    def size(self) -> int:
        """Numbers that it has."""
        return int(np.prod(self.shape))


def parts_of(nodes: int, kinds: int) -> tuple[ObservationPart, ...]:
    """The document's names and shapes, for so many nodes and kinds of function."""
    shapes: dict[str, tuple[int, ...]] = {
        "node_utilization": (nodes, 4),
        "node_capacity": (nodes, 2),
        "node_price": (nodes,),
        "node_deployed": (nodes, 2),
        "node_active": (nodes,),
        "current_function_request": (2,),
        "current_function_io": (2,),
        "current_function_requests": (1,),
        "current_function_rart": (1,),
        "cluster_function_requests": (kinds,),
    }
    observation_parts, begin = [], 0
    for name, shape in shapes.items():
        observation_parts.append(ObservationPart(name, shape, begin))
        begin += observation_parts[-1].size
    return tuple(observation_parts)


def length_of(nodes: int, kinds: int) -> int:
    """Numbers of an observation."""
    return 10 * nodes + 6 + kinds


@compiled
def observe(work: FunctionsWork, runs: Runs, lane: int, out: F32) -> None:
    """Fill `out` [10 N + 6 + kinds] as amounts with their units."""
    nodes = work.price.size
    kinds = out.size - 10 * nodes - 6
    function = runs.tally[lane, c.SUBJECT]
    if runs.tally[lane, c.KIND] == c.KEEPING:
        function = runs.instance[lane, function, c.FUNCTION]
    base = work.first_function[runs.tally[lane, c.EPISODE]]
    row = base + function
    for node in range(nodes):
        cpu, memory = work.capacity[node, c.CPU], work.capacity[node, c.MEMORY]
        out[4 * node] = min(runs.node[lane, node, c.BUSY_CPU] / cpu, 1.0)
        out[4 * node + 1] = runs.node[lane, node, c.MEMORY] / memory
        out[4 * node + 2] = min(runs.node[lane, node, c.NET] / work.capacity[node, c.NET], 1.0)
        out[4 * node + 3] = min(runs.node[lane, node, c.DISK] / work.capacity[node, c.DISK], 1.0)
        out[4 * nodes + 2 * node] = cpu / _CORE
        out[4 * nodes + 2 * node + 1] = memory / _GB
        out[6 * nodes + node] = work.price[node] / _DOLLAR
        out[7 * nodes + 2 * node] = runs.node[lane, node, c.CPU] / _CORE
        out[7 * nodes + 2 * node + 1] = runs.node[lane, node, c.MEMORY] / _GB
        out[9 * nodes + node] = 1.0  # usable: no node of this world fails; what it holds says `node_deployed`
    at = 10 * nodes
    slots = work.need[row, c.CONCURRENCY]
    out[at] = work.need[row, c.CPU] / _CORE
    out[at + 1] = work.need[row, c.MEMORY] / _GB
    out[at + 2] = min(work.need[row, c.NET] * slots / _MB, MOST_IO)
    out[at + 3] = min(work.need[row, c.DISK] * slots, MOST_IO)
    out[at + 4] = runs.of[lane, function, c.RUNNING] + runs.of[lane, function, c.WAITING]
    out[at + 5] = min(runs.rate[lane, function, c.LAST_RFRT], c.CLIP)
    out[at + 6 :] = 0.0
    functions = work.first_function[runs.tally[lane, c.EPISODE] + 1] - base
    for other in range(functions):
        kind = work.need[base + other, c.FUNCTION_KIND] % kinds
        out[at + 6 + kind] += runs.of[lane, other, c.RUNNING] + runs.of[lane, other, c.WAITING]


@compiled
def even(work: FunctionsWork, most: F64, out: F32) -> None:
    """As shares from 0 to 1; `most` [5]: cores, GB, dollars, MB/s and IOPS of the largest node.

    Counts of requests are logarithms, full at a thousand; RFRT is full at 40.
    """
    nodes = work.price.size
    for node in range(nodes):
        out[4 * nodes + 2 * node] /= most[0]
        out[4 * nodes + 2 * node + 1] /= most[1]
        out[6 * nodes + node] /= most[2]
        out[7 * nodes + 2 * node] /= most[0]
        out[7 * nodes + 2 * node + 1] /= most[1]
    at = 10 * nodes
    out[at] = min(out[at] / most[0], 1.0)
    out[at + 1] = min(out[at + 1] / most[1], 1.0)
    out[at + 2] = min(out[at + 2] / most[3], 1.0)
    out[at + 3] = min(out[at + 3] / most[4], 1.0)
    out[at + 4] = min(np.log1p(out[at + 4]) / _MANY, 1.0)
    out[at + 5] = out[at + 5] / c.CLIP
    for place in range(at + 6, out.size):
        out[place] = min(np.log1p(out[place]) / _MANY, 1.0)


def largest(work: FunctionsWork) -> F64:
    """[5] what `even` divides by."""
    top = work.capacity.max(axis=0)
    price = max(float(work.price.max()) / _DOLLAR, 1e-9)
    return np.array([top[c.CPU] / _CORE, top[c.MEMORY] / _GB, price, top[c.NET] / _MB, float(top[c.DISK])])
