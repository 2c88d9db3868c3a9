"""What a learner sees of a choice among servers with two NUMA nodes: rows of (server, NUMA) pairs.

From the three arrays that the environments of virtual machines hand out, for E lanes and N servers:

    obs    float[E, N, 2, 2]   what is left, [server, NUMA, (cpu, mem)]
    feat   float[E, 2, 2, 2]   what the request takes, [choice of NUMA, NUMA, (cpu, mem)]
    avail  bool[E, 2 N]        which choices server * 2 + NUMA are legal

Everything is in shares of one NUMA node's capacity, and nothing depends on the number of servers, so that
what learned on five servers can bid on a hundred. Learners encode many lanes at once (`encode_servers`), a
policy that plays one choice (`encode_choice`): the same kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.contract.lanes import Choices
from proreus.kernels.arrays import F32, U8
from proreus.kernels.jit import compiled
from proreus.model.errors import UsageError
from proreus.worlds.vms.model import ServerShape

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


def numa_size(shapes: Sequence[ServerShape]) -> tuple[float, float]:
    """Cores and GB of the one NUMA node in whose shares rows are told."""
    if len(shapes) != 1:
        raise UsageError("servers of several kinds: what is left is learned in shares of one size")
    return float(shapes[0].cpu), float(shapes[0].mem)


def encode_servers(
    obs: NDArray[Any], feat: NDArray[Any], avail: NDArray[Any], size: tuple[float, float]
) -> Choices:
    """Rows [E, 2 N, 8], context [E, 6] and what is legal [E, 2 N]; size: cpu and mem of one NUMA node."""
    left = np.ascontiguousarray(obs, dtype=np.float32)
    asked = np.ascontiguousarray(feat, dtype=np.float32)
    lanes, servers = left.shape[:2]
    legal = np.ascontiguousarray(avail, dtype=np.bool_).reshape(lanes, 2 * servers)
    choices = Choices(
        np.empty((lanes, 2 * servers, len(ROW_FEATURES)), dtype=np.float32),
        np.empty((lanes, len(CONTEXT_FEATURES)), dtype=np.float32),
        legal,
    )
    scale = np.array(size, dtype=np.float32)
    _encode_all(left, asked, legal.view(np.uint8), scale, choices.rows, choices.context)
    return choices


@compiled
def _encode_all(left: F32, asked: F32, legal: U8, scale: F32, rows: F32, context: F32) -> None:
    for lane in range(left.shape[0]):
        encode_choice(left[lane], asked[lane], legal[lane], scale, rows[lane], context[lane])


@compiled
def encode_choice(left: F32, asked: F32, legal: U8, scale: F32, rows: F32, context: F32) -> None:
    """Fill rows [2 N, 8] and context [6] of one choice.

    left [N, 2, 2] and asked [2, 2, 2] as above, legal [2 N or more], scale [2] cpu and mem of a NUMA node.
    """
    servers = left.shape[0]
    for kind in range(2):
        total = np.float32(0.0)
        for server in range(servers):
            for here in range(2):
                place, there = 2 * server + here, 1 - here
                share, other = left[server, here, kind] / scale[kind], left[server, there, kind] / scale[kind]
                rows[place, kind] = share
                rows[place, 2 + kind] = other
                rows[place, 4 + kind] = share - asked[here, here, kind] / scale[kind]
                rows[place, 6 + kind] = other - asked[here, there, kind] / scale[kind]
                total += share
        context[kind] = asked[0, 0, kind] / scale[kind] + asked[0, 1, kind] / scale[kind]
        context[3 + kind] = total / np.float32(2 * servers)
    # The first choice takes of the second node too.
    context[2] = 1.0 if asked[0, 1, 0] > 0 or asked[0, 1, 1] > 0 else 0.0
    free = 0
    for place in range(2 * servers):
        free += 1 if legal[place] else 0
    context[5] = np.float32(free) / np.float32(2 * servers)
