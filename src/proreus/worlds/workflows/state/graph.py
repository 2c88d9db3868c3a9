"""What the neighbourhood of a task looks like: messages that go two edges up the graph, worked out once.

A task starts with what is known of it alone. Twice, every task hears the mean of its children's messages and
keeps it beside its own: its features then say what its children, and theirs, will ask for. The weights that
read these features are learned with the rest of the network, so that no graph needs a size.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, F64, I32
from proreus.kernels.jit import compiled

OWN = ("log runtime", "log children", "log bytes to children")
HOPS = 2
GRAPH_FEATURES = (
    *OWN,
    *(f"{name}, of the children's mean" for name in OWN),
    *(f"{name}, of their children's mean" for name in OWN),
    "log tasks behind",
)


@compiled
def task_features(runtime: F64, child_from: I32, child: I32, delay: F64, out: F32) -> None:
    """Fill `out`, [T, len(GRAPH_FEATURES)]; delay [E]: seconds of each transfer."""
    tasks = runtime.size
    behind = np.zeros(tasks)
    for task in range(tasks - 1, -1, -1):
        begin, end = child_from[task], child_from[task + 1]
        sent = 0.0
        for edge in range(begin, end):
            sent += delay[edge]
            behind[task] += 1.0 + behind[child[edge]]
        # Paths are counted, not tasks: what several of them share counts often, up to a limit.
        behind[task] = min(behind[task], 1e6)
        out[task, 0] = np.log1p(runtime[task]) / 8.0
        out[task, 1] = np.log1p(end - begin) / 6.0
        out[task, 2] = np.log1p(sent) / 8.0
        out[task, 3 + 3 * HOPS] = np.log1p(behind[task]) / 14.0
    for hop in range(1, HOPS + 1):
        for task in range(tasks):
            begin, end = child_from[task], child_from[task + 1]
            for message in range(3):
                total = 0.0
                for edge in range(begin, end):
                    total += out[child[edge], 3 * (hop - 1) + message]
                out[task, 3 * hop + message] = total / max(end - begin, 1)
