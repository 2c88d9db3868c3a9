"""GPU devices of a node: whether a request fits, and the tightest devices for it."""

from __future__ import annotations

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.worlds.pods.state.columns import Cluster

LEVEL = 10
"""Milli-GPU left on a device that are held equal, where gaps are told apart."""
LEVELS = 1000 // LEVEL + 1


@compiled
def shares_device(cluster: Cluster, c: int) -> bool:
    """Whether pods of class c take a part of one device."""
    return cluster.classes.gpu_num[c] == 1 and cluster.classes.gpu_milli[c] < 1000


@compiled
def devices_fit(left: I64, count: int, num: int, milli: int) -> bool:
    """Whether `num` of the first `count` devices have `milli` left; left: int64[G]."""
    if num == 0:
        return True
    fitting = 0
    for d in range(count):
        if left[d] >= milli:
            fitting += 1
            if fitting == num:
                return True
    return False


@compiled
def tightest_devices(left: I64, count: int, num: int, milli: int) -> int:
    """Bit mask of the `num` devices with least left that still fit; ties go to the lowest index."""
    mask = 0
    for _ in range(num):
        best = -1
        for d in range(count):
            if left[d] >= milli and not (mask >> d) & 1 and (best < 0 or left[d] < left[best]):
                best = d
        mask |= 1 << best
    return mask


def devices_held(left: I64, num: int, milli: int, devices: int) -> int | None:
    """The devices of a running pod as a bit mask; 0 asks for the tightest. None where they lack the room.

    left: int64[devices of the node].
    """
    count = len(left)
    if devices == 0 and devices_fit(left, count, num, milli):
        return int(tightest_devices(left, count, num, milli))
    chosen = [device for device in range(count) if devices >> device & 1]
    if len(chosen) != num or devices >> count or any(left[device] < milli for device in chosen):
        return None
    return devices
