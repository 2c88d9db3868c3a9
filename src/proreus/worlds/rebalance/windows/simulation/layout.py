"""Nodes and pods in the JSON layout of VMAgent's DeployEnv; `datasets.layout` reads them back.

{"node1": {"total_cpu": 100, "total_mem": 100, "remain_cpu": 0, "remain_mem": 40,
           "pods": [{"pod_name": "pod1", "request_cpu": 50, "request_mem": 60,
                     "assigned_cpu": 100, "assigned_mem": 60}]}}

Of a run, `request_*` is what a pod asked for in the last window; `standing_*` beside it is the part that it
asks for without any request, from which another run starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.rebalance.windows.datasets.layout import RESOURCES
from proreus.worlds.rebalance.windows.model import Deployment
from proreus.worlds.rebalance.windows.simulation.world import Sharing, WindowsWorld, shared_out


def layout_of(
    deployment: Deployment, sharing: Sharing = "proportional", asked: F64 | None = None
) -> dict[str, Any]:
    """The deployment in that layout; `asked` [pods, 2] in place of the standing requests."""
    requests = deployment.standing if asked is None else asked
    assigned = shared_out(requests, deployment.where, deployment.capacity, sharing)
    layout: dict[str, Any] = {}
    for n, name in enumerate(deployment.node_names):
        here = np.flatnonzero(deployment.where == n).tolist()
        total = deployment.capacity[n]
        # Rounding may leave a hair less than nothing.
        remain = np.maximum(total - assigned[here].sum(axis=0), 0.0)
        layout[name] = {
            **{f"total_{kind}": _number(total[k]) for k, kind in enumerate(RESOURCES)},
            **{f"remain_{kind}": _number(remain[k]) for k, kind in enumerate(RESOURCES)},
            "pods": [
                {
                    "pod_name": deployment.pod_names[p],
                    **{f"request_{kind}": _number(requests[p, k]) for k, kind in enumerate(RESOURCES)},
                    **{f"assigned_{kind}": _number(assigned[p, k]) for k, kind in enumerate(RESOURCES)},
                    **({} if asked is None else _standing(deployment.standing[p])),
                }
                for p in here
            ],
        }
    return layout


def _standing(amount: F64) -> dict[str, float | int]:
    return {f"standing_{kind}": _number(amount[k]) for k, kind in enumerate(RESOURCES)}


def layout_now(world: WindowsWorld) -> dict[str, Any]:
    """Where the pods of a run stand, with what they asked for in the last window."""
    start = world.windows.deployment
    here = Deployment(
        start.node_names, start.pod_names, start.capacity, start.standing, world.hosting.where.copy()
    )
    return layout_of(here, world.options.sharing, world.asked())


def _number(value: float) -> float | int:
    rounded = round(float(value), 9)
    return int(rounded) if rounded.is_integer() else float(value)
