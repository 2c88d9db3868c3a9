"""What a run came to: measures, curves, a heat map and a log with one row per pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.contract.simulation import Outcome
from proreus.kernels.arrays import F64
from proreus.model.measure import Measure, by_name
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_CPU, COL_DISK, COL_MEMORY, COL_NETWORK
from proreus.worlds.pods.simulation import columns as c
from proreus.worlds.pods.simulation.columns import Run
from proreus.worlds.pods.state.columns import Nodes
from proreus.worlds.pods.state.compile import Compiled

_SECONDS_OF_HOUR = 3600.0
STATUS_NAMES = ("future", "queued", "backing off", "pooled", "running", "done", "rejected", "failed")


MEASURES = by_name(
    Measure("gpu_allocation", "%", "higher", "GPU allocation, mean", "GPU"),
    Measure("gpu_allocation_peak", "%", "higher", "GPU allocation, peak", "GPU peak"),
    Measure("cpu_allocation", "%", "higher", "CPU allocation, mean", "CPU"),
    Measure("memory_allocation", "%", "higher", "Memory allocation, mean", "memory"),
    Measure("network_allocation", "%", "higher", "Network allocation, mean"),
    Measure("disk_allocation", "%", "higher", "Disk allocation, mean"),
    Measure("fragmentation", "% of GPUs", "lower", "Fragmentation, mean", "fragm."),
    Measure("fragmentation_end", "% of GPUs", "lower", "Fragmentation, at the end", "fragm. end"),
    Measure("wait_mean", "s", "lower", "Waiting time, mean", "wait"),
    Measure("wait_p99", "s", "lower", "Waiting time, 99th percentile", "wait p99"),
    Measure("jct_mean", "s", "lower", "Completion time, mean", "completion"),
    Measure("makespan", "s", "lower", "Makespan", "makespan"),
    Measure("cost", "$", "lower", "Cost of the nodes that hold pods", "cost"),
    Measure("preemptions", "pods", "lower", "Preemptions", "preempted"),
    Measure("failures", "pods", "lower", "Pods not placed", "not placed"),
    Measure("decisions", "", "lower", "Decisions"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)


@dataclass(frozen=True)
class Curves:
    """How the run went, thinned to at most 512 moments."""

    time: F64
    arrived: F64
    """GPU share that has arrived, in % of capacity (zero without GPUs)."""
    waiting: F64
    running: F64
    allocation: dict[str, F64]
    """Resource name -> % of capacity in use."""
    fragmentation: F64
    """Expected GPU share that typical pods cannot use, in % of capacity."""


Row = tuple[str, str, str, float, float, float, int]
"""Of a pod: name, status, last node, arrival, start, finish, evictions."""


@dataclass(frozen=True, kw_only=True)
class PodsOutcome(Outcome):
    """The result of a run, free of the arrays of the world."""

    log: list[Row]
    """A row a pod, as in `rows`."""
    curves: Curves
    heat: NDArray[np.float32]
    """[moments, nodes] share in use of each node's scarcest resource."""
    heat_times: F64


def outcome_of(compiled: Compiled, run: Run) -> PodsOutcome:
    """The outcome of a run, finished or not."""
    capacity = _capacity(compiled)
    log = _log(compiled, run)
    return PodsOutcome(
        measures=_measures(run, capacity),
        columns=("pod", "status", "node", "arrival", "start", "finish", "evictions"),
        rows=log,
        curves=_curves(run, capacity),
        heat=run.heat[: _heat_rows(run)].copy(),
        heat_times=run.samples[: int(run.counters[c.SAMPLES]) : c.HEAT_EVERY, c.SAMPLE_TIME].copy(),
        log=log,
    )


def _heat_rows(run: Run) -> int:
    return -(-int(run.counters[c.SAMPLES]) // c.HEAT_EVERY)


def _capacity(compiled: Compiled) -> dict[str, tuple[int, float]]:
    """Resource name -> (place among the sums, capacity of the cluster), for those the cluster has."""
    nodes = compiled.cluster.nodes
    totals = nodes.allocatable.sum(axis=0).astype(np.float64)
    capacities = {
        "cpu": (COL_CPU, totals[COL_CPU]),
        "memory": (COL_MEMORY, totals[COL_MEMORY]),
        "network": (COL_NETWORK, totals[COL_NETWORK]),
        "disk": (COL_DISK, totals[COL_DISK]),
        "gpu": (len(compiled.columns), float(nodes.gpu_count.sum()) * GPU_WHOLE),
    }
    return {name: (place, total) for name, (place, total) in capacities.items() if total > 0}


def _measures(run: Run, capacity: dict[str, tuple[int, float]]) -> dict[str, float]:
    first = float(run.arrival[0]) if run.arrival.size else 0.0
    span = float(run.clock[0]) - first
    measures: dict[str, float] = {}
    for name, (place, total) in capacity.items():
        mean = run.integral[place] / span if span > 0 else run.used[place]
        measures[f"{name}_allocation"] = 100.0 * float(mean) / total
    if "gpu" in capacity:
        place, total = capacity["gpu"]
        measures["gpu_allocation_peak"] = 100.0 * float(run.peak[place]) / total
        mean = run.integral[place + 1] / span if span > 0 else run.used[place + 1]
        measures["fragmentation"] = 100.0 * float(mean) / total
        measures["fragmentation_end"] = 100.0 * float(run.used[place + 1]) / total
    started = ~np.isnan(run.started)
    if started.any():
        wait = (run.started - run.arrival)[started]
        measures["wait_mean"] = float(wait.mean())
        measures["wait_p99"] = float(np.quantile(wait, 0.99))
    done = run.status == c.DONE
    if done.any():
        measures["jct_mean"] = float((run.finished - run.arrival)[done].mean())
        measures["makespan"] = float(run.finished[done].max()) - first
        measures["cost"] = float(run.paid[1]) / _SECONDS_OF_HOUR
    measures["preemptions"] = float(run.counters[c.EVICTIONS])
    measures["failures"] = float(np.isin(run.status, (c.REJECTED, c.FAILED)).sum())
    measures["decisions"] = float(run.counters[c.DECISIONS])
    return measures


def _curves(run: Run, capacity: dict[str, tuple[int, float]]) -> Curves:
    rows = run.samples[: int(run.counters[c.SAMPLES])]
    gpu_place, gpu_total = capacity.get("gpu", (-1, 0.0))
    nothing = np.zeros(rows.shape[0])
    return Curves(
        time=rows[:, c.SAMPLE_TIME].copy(),
        arrived=100.0 * rows[:, c.SAMPLE_ARRIVED] / gpu_total if gpu_total else nothing,
        waiting=rows[:, c.SAMPLE_WAITING].copy(),
        running=rows[:, c.SAMPLE_RUNNING].copy(),
        allocation={
            name: 100.0 * rows[:, c.SAMPLE_SUMS + place] / total for name, (place, total) in capacity.items()
        },
        fragmentation=100.0 * rows[:, c.SAMPLE_SUMS + gpu_place + 1] / gpu_total if gpu_total else nothing,
    )


def _log(compiled: Compiled, run: Run) -> list[Row]:
    nodes = compiled.workload.nodes
    rows = zip(
        compiled.workload.pods,
        run.status.tolist(),
        run.where.tolist(),
        run.started.tolist(),
        run.finished.tolist(),
        run.evicted.tolist(),
        strict=True,
    )
    return [
        (
            pod.name,
            STATUS_NAMES[status],
            nodes[node].name if node >= 0 else "",
            pod.arrival,
            started,
            finished,
            evicted,
        )
        for pod, status, node, started, finished, evicted in rows
    ]


# What a node costs an hour. No description of a node says, so list prices stand in.

# Dollars an hour as OpenCost takes them for clusters whose bills it cannot read (configs/default.json: GCP
# us-central1). Only how they compare matters to a policy; who pays others scales all costs alike.
CORE, GIB, GPU = 0.031611, 0.004237, 0.95
_MILLI, _BYTES_OF_GIB = 1000.0, float(1 << 30)


def prices_of(nodes: Nodes) -> F64:
    """float64[N], dollars an hour."""
    prices: F64 = hourly_price(
        nodes.allocatable[:, COL_CPU], nodes.allocatable[:, COL_MEMORY], nodes.gpu_count
    )
    return prices


def hourly_price(cpu: Any, memory: Any, gpus: Any) -> Any:
    """Dollars an hour of thousandths of cores, bytes and GPUs; numbers or arrays."""
    return CORE * (cpu / _MILLI) + GIB * (memory / _BYTES_OF_GIB) + GPU * gpus
