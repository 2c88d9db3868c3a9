"""What a decision was worth: small pure functions that environments choose from by name."""

from __future__ import annotations

from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64

Reward = Literal["allocation", "completion"]


def allocation(used_before: float, used_after: float, capacity: float) -> float:
    """The share of the cluster's GPUs (of its CPU where it has none) that the decision put to use.

    Evicted pods count against it; pods that leave by themselves do not, so that the return is all that
    was ever placed.
    """
    return (used_after - used_before) / capacity


def completion(pod_seconds: float, lost_pods: int, lost_seconds: float, total_work: float) -> float:
    """Minus the time that pods spent in the system, in units of all work there is.

    The return is minus the mean time to completion over the mean length of work. A pod that is rejected or
    fails is charged `lost_seconds`: otherwise turning every pod away would be best.
    """
    return -(pod_seconds + lost_pods * lost_seconds) / total_work


def pod_seconds(entered: F64, left: F64, since: float, until: float) -> float:
    """Pods in the system, summed over the time from `since` to `until`; `left` is infinite or later for those
    that are still there.

    >>> pod_seconds(np.array([0.0, 2.0]), np.array([3.0, np.inf]), 1.0, 4.0)
    4.0
    """
    return float(np.maximum(np.minimum(left, until) - np.maximum(entered, since), 0.0).sum())
