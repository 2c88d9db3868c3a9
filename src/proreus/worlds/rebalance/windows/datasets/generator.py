"""Windows of requests for those who have no data: pods of different weight with a daily rhythm.

Round robin gives every pod nearly as many requests a window; what a request asks for differs by pod (its
weight), by the time of day (each pod has its own peak), from window to window (a slow wander and, now and
then, a burst that lasts some windows), and from request to request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.windows.model import Deployment, RequestWindows

DAY = 288


@dataclass(frozen=True)
class WindowsConfig:
    """What is generated."""

    nodes: int = 10
    """Of 100 CPU and 100 memory each."""
    pods: int = 50
    """As many on each node at the start, in order."""
    windows: int = 4 * DAY
    """Five minutes each."""
    load: float = 0.55
    """Share of the cluster's CPU, and of its memory, that is asked for on average."""
    standing: float = 1.0
    """CPU and memory that a pod asks for without a request."""
    requests: int = 8
    """Of a pod and window, on average."""
    unevenness: float = 0.6
    """Of the pods' weights: the standard deviation of their logarithm."""
    swing: float = 0.6
    """Most that the time of day adds to or takes from a pod, as a share."""
    wander: float = 0.25
    """Standard deviation of the logarithm of the slow wander."""
    burst_every: float = 200.0
    """Windows between two bursts of a pod, on average."""
    scatter: float = 0.35
    """Standard deviation of the logarithm of a request's size."""
    adds_up: bool = False
    """Requests of a window run at the same time: they are smaller, so that the load is the same."""

    def __post_init__(self) -> None:
        if self.nodes < 2 or self.pods < 1 or self.windows < 1 or self.requests < 1:
            raise UsageError("windows need at least two nodes, a pod, a window and a request")
        if not 0 < self.load < 10 or self.standing < 0:
            raise UsageError("the load is above 0 (and below 10), the standing request not negative")


def generate_windows(config: WindowsConfig, seed: int) -> RequestWindows:
    """The windows of that seed."""
    draw = np.random.default_rng(seed)
    nodes, pods = config.nodes, config.pods
    deployment = Deployment(
        tuple(f"node{n + 1}" for n in range(nodes)),
        tuple(f"pod{p + 1}" for p in range(pods)),
        np.full((nodes, 2), 100.0),
        np.full((pods, 2), config.standing),
        np.arange(pods) * nodes // pods,
    )
    time = np.arange(config.windows)
    busy = 1.0 + 0.4 * np.sin(2 * np.pi * time / DAY)
    rates = np.maximum(np.rint(config.requests * busy), 1)
    # Round robin: no pod has more than one request beyond the others.
    counts = (rates[:, None] + draw.integers(0, 2, (config.windows, pods))).astype(np.int64)
    level = _levels(config, draw)
    ratio = np.exp(draw.normal(0.0, 0.3, (pods, 2)))
    first = np.concatenate([[0], np.cumsum(counts.ravel())])
    owner = np.repeat(np.arange(counts.size), counts.ravel())
    scatter = np.exp(draw.normal(0.0, config.scatter, (owner.size, 2)))
    amount = level.ravel()[owner, None] * ratio[owner % pods] * scatter
    asked = np.add.reduceat(amount, first[:-1], axis=0)
    if not config.adds_up:
        asked /= counts.reshape(-1, 1)
    # The mean window asks for the load that was wanted, in either resource.
    wanted = config.load * 100.0 * nodes - config.standing * pods
    amount *= max(wanted, 1e-3) / (asked.sum(axis=0) / config.windows)
    return RequestWindows(f"generated-{seed}", deployment, first.astype(np.int64), amount)


def _levels(config: WindowsConfig, draw: np.random.Generator) -> F64:
    """[windows, pods] how much a request of a pod asks for, apart from its own scatter."""
    shape = (config.windows, config.pods)
    weight = np.exp(draw.normal(0.0, config.unevenness, config.pods))
    phase, swing = draw.random(config.pods), draw.random(config.pods) * config.swing
    time = np.arange(config.windows)[:, None]
    daily = 1.0 + swing * np.sin(2 * np.pi * (time / DAY + phase))
    stays = 0.95
    steps = draw.normal(0.0, config.wander * np.sqrt(1 - stays**2), shape)
    wander = np.zeros(shape)
    wander[0] = draw.normal(0.0, config.wander, config.pods)
    for window in range(1, config.windows):
        wander[window] = stays * wander[window - 1] + steps[window]
    begins = draw.random(shape) < 1.0 / config.burst_every
    burst = np.ones(shape)
    for window, pod in np.argwhere(begins).tolist():
        burst[window : window + int(draw.integers(3, 18)), pod] = 1.5 + draw.random()
    levels: F64 = weight * daily * np.exp(wander) * burst
    return levels
