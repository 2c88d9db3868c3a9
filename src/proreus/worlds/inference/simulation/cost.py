"""What a run has cost so far: GPU-seconds, dollars, energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster


@dataclass(frozen=True)
class Spending:
    """Since the run began."""

    gpu_seconds: float = 0.0
    dollars: float = 0.0
    joules: float = 0.0
    busy_seconds: float = 0.0

    def since(self, before: Spending) -> Spending:
        """What has come on top."""
        return Spending(
            self.gpu_seconds - before.gpu_seconds,
            self.dollars - before.dollars,
            self.joules - before.joules,
            self.busy_seconds - before.busy_seconds,
        )


def busy_seconds(cluster: InferenceCluster) -> tuple[F64, F64]:
    """[instances] seconds with a batch, and those with prompts in it, those that run now included."""
    run = cluster.run
    count, figure = run.fleet[:, c.RUNNING], run.figure
    lasts = figure[:, c.RUN_TIME] * count + figure[:, c.RUN_GROWTH] * (count * (count - 1) / 2)
    running = np.where(count > 0, cluster.now - (figure[:, c.RUN_END] - lasts), 0.0)
    running = np.clip(running, 0.0, lasts)
    with_prompts = np.where(run.prefilling.size > 0, running, 0.0)
    return figure[:, c.BUSY] + running, figure[:, c.PREFILL_BUSY] + with_prompts


def spending(cluster: InferenceCluster) -> Spending:
    """A server costs from its order until it has stopped; it is never less than idle."""
    run = cluster.run
    seconds, busy, prefill = run.spent.T.copy()
    alive = np.flatnonzero((run.fleet[:, c.STATUS] != c.ABSENT) & (run.fleet[:, c.STATUS] != c.STOPPED))
    kinds = run.fleet[alive, c.KIND]
    np.add.at(seconds, kinds, cluster.now - run.figure[alive, c.ORDERED_AT])
    with_batch, with_prompts = busy_seconds(cluster)
    np.add.at(busy, kinds, with_batch[alive])
    np.add.at(prefill, kinds, with_prompts[alive])
    gpu_seconds, dollars, joules = 0.0, 0.0, 0.0
    for place, kind in enumerate(cluster.spec.kinds):
        gpu_seconds += seconds[place] * kind.gpus
        dollars += seconds[place] * kind.gpus * kind.gpu.price / 3600.0
        idle = max(seconds[place] - busy[place], 0.0) * kind.gpu.idle_watts
        decode = (busy[place] - prefill[place]) * kind.gpu.decode_watts
        joules += kind.gpus * (idle + decode + prefill[place] * kind.gpu.prefill_watts)
    return Spending(gpu_seconds, dollars, joules, float(busy.sum()))
