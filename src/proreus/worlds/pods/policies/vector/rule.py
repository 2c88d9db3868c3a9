"""The rule that stands in for a vector model: fill the fullest node that still has room.

It reads the state of the k8s simulator: per node the used share of CPU and of memory, then perhaps the task's
own demand. That demand is in absolute units and the capacity of a node is not in the state, so room can
only be judged by share: a node has room while less than `FULL` of its CPU and of its memory is used. Of the
nodes with room the rule takes the one with most in use (CPU share plus memory share; equal ones: the first).
Where none has room it delays; where delaying is not allowed it takes the least used node that is allowed,
then the first preemption that is allowed, then rejects.
"""

from __future__ import annotations

from proreus.kernels.arrays import F64, Bool
from proreus.kernels.compiled import compiled

FULL = 0.95
"""The used share from which a node counts as full."""


@compiled
def fullest_with_room(state: F64, mask: Bool) -> int:
    """state: [2n or 2n+2]; mask: [2n+2], with something allowed. The action."""
    n = (mask.shape[0] - 2) // 2
    best, most = -1, 0.0
    emptiest, least = -1, 0.0
    for node in range(n):
        if not mask[node]:
            continue
        cpu, memory = state[2 * node], state[2 * node + 1]
        used = cpu + memory
        if cpu < FULL and memory < FULL and (best < 0 or used > most):
            best, most = node, used
        if emptiest < 0 or used < least:
            emptiest, least = node, used
    if best >= 0:
        return best
    if mask[2 * n]:
        return 2 * n
    if emptiest >= 0:
        return emptiest
    for node in range(n):
        if mask[n + node]:
            return n + node
    return 2 * n + 1
