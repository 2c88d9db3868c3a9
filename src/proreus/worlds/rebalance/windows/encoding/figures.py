"""What the demand on a hosting is like: eight figures, by which a policy knows where it is.

They are relative to what the nodes have and to what pods ask for, so that they mean the same for 2 nodes and
for 200. They are taken from the forecasts, which hold the last hour and the last day, and not from where pods
stand: no move of a window changes them.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.rebalance.windows.state import ADDS_UP, BUDGET, DAY, LAST, MEAN, PEAK, Hosting

FIGURES = (
    "adds_up",  # 1: requests of a pod add up; 0: they come one after the other
    "load",  # asked for in the last hour, as a share of all nodes, relative to the threshold
    "pods",  # a node; logarithm to base 2
    "largest",  # what the largest pod asks for, as a share of a node
    "churn",  # how far the last window is from the last hour, as a share of what is asked for
    "peaks",  # how far the hour's peaks are above its mean, likewise
    "drift",  # how far the last hour is from the last day, likewise
    "budget",  # migrations a window for each node; logarithm to base 2
)
WIDTHS = np.array([0.2, 0.15, 0.75, 0.2, 0.15, 0.5, 0.15, 1.5])
"""Demands that differ by so much in one figure are neighbours and no longer the same."""
REACH = 4.0
"""In WIDTHS: a demand this far from all experts is unknown."""


@compiled
def nearest(figures: F64, stands: F64) -> int:
    """The row of stands [K, FIGURES] that is nearest; -1 where all are beyond reach."""
    best, least = -1, REACH**2
    for expert in range(stands.shape[0]):
        apart = 0.0
        for place in range(figures.size):
            apart += ((stands[expert, place] - figures[place]) / WIDTHS[place]) ** 2
        if apart <= least:
            best, least = expert, apart
    return best


@compiled
def fill_figures(hosting: Hosting, figures: F64) -> None:
    nodes, pods = hosting.pods.size, hosting.where.size
    asked, daily, churn, peaks, drift, largest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    load = 0.0
    for resource in range(2):
        there, wanted = 0.0, 0.0
        for node in range(nodes):
            there += hosting.capacity[node, resource] / nodes
        for pod in range(pods):
            mean = hosting.forecast[MEAN, pod, resource] / there
            day = hosting.forecast[DAY, pod, resource] / there
            wanted += mean
            daily += day
            largest = max(largest, mean)
            churn += abs(hosting.forecast[LAST, pod, resource] / there - mean)
            peaks += hosting.forecast[PEAK, pod, resource] / there - mean
            drift += abs(mean - day)
        asked += wanted
        load = max(load, wanted / nodes)
    figures[0] = float(hosting.tally[ADDS_UP])
    figures[1] = load / hosting.threshold[0]
    figures[2] = np.log2(pods / nodes)
    figures[3] = largest
    figures[4] = churn / max(asked, 1e-9)
    figures[5] = peaks / max(asked, 1e-9)
    figures[6] = drift / max(daily, 1e-9)
    figures[7] = np.log2(max(hosting.tally[BUDGET], 0.1) / nodes)


def hosting_figures(hosting: Hosting) -> F64:
    """float64[8]: see `FIGURES`."""
    figures = np.zeros(len(FIGURES))
    fill_figures(hosting, figures)
    return figures
