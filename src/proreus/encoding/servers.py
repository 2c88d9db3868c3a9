"""What a learner sees of a choice among servers with two NUMA nodes: rows of (server, NUMA) pairs.

From the three arrays that the environments of virtual machines hand out, for E lanes and N servers:

    obs    float[E, N, 2, 2]   what is left, [server, NUMA, (cpu, mem)]
    feat   float[E, 2, 2, 2]   what the request takes, [choice of NUMA, NUMA, (cpu, mem)]
    avail  bool[E, 2 N]        which choices server * 2 + NUMA are legal

Everything is in shares of one NUMA node's capacity, and nothing depends on the number of servers, so that
what learned on five servers can bid on a hundred.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

VERSION = "servers-1"
ROW_FEATURES = (
    "cpu left here",
    "mem left here",
    "cpu left on the other NUMA node",
    "mem left on the other NUMA node",
    "cpu left here afterwards",
    "mem left here afterwards",
    "cpu left on the other afterwards",
    "mem left on the other afterwards",
)
CONTEXT_FEATURES = (
    "cpu asked for, both NUMA nodes",
    "mem asked for, both NUMA nodes",
    "takes both NUMA nodes",
    "mean cpu left",
    "mean mem left",
    "share of legal choices",
)


class ServerRows(NamedTuple):
    """Encoded choices of E lanes."""

    rows: F32  # [E, 2 N, 8]
    context: F32  # [E, 6]
    legal: Bool  # [E, 2 N]

    def at(self, places: NDArray[np.int64]) -> ServerRows:
        """Some of the lanes."""
        return ServerRows(self.rows[places], self.context[places], self.legal[places])


def encode_servers(
    obs: NDArray[Any], feat: NDArray[Any], avail: NDArray[Any], size: tuple[float, float]
) -> ServerRows:
    """size: cpu and mem of one NUMA node."""
    scale = np.array(size, dtype=np.float32)
    left = np.asarray(obs, dtype=np.float32) / scale  # [E, N, 2, 2]
    asked = np.asarray(feat, dtype=np.float32) / scale  # [E, 2, 2, 2]
    lanes, servers = left.shape[:2]
    legal = np.asarray(avail, dtype=np.bool_).reshape(lanes, 2 * servers)
    after = left[:, :, None] - asked[:, None]  # [E, N, choice, NUMA, 2]
    rows = np.empty((lanes, servers, 2, len(ROW_FEATURES)), dtype=np.float32)
    for here in (0, 1):
        there = 1 - here
        rows[:, :, here, 0:2] = left[:, :, here]
        rows[:, :, here, 2:4] = left[:, :, there]
        rows[:, :, here, 4:6] = after[:, :, here, here]
        rows[:, :, here, 6:8] = after[:, :, here, there]
    context = np.empty((lanes, len(CONTEXT_FEATURES)), dtype=np.float32)
    context[:, 0:2] = asked[:, 0].sum(axis=1)
    context[:, 2] = (asked[:, 0, 1] > 0).any(axis=1)  # the first choice takes of the second node too
    context[:, 3:5] = left.mean(axis=(1, 2))
    context[:, 5] = legal.mean(axis=1)
    return ServerRows(rows.reshape(lanes, 2 * servers, -1), context, legal)
