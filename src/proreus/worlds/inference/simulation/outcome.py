"""What a run has come to: latencies, promises kept, GPU-hours, cost, energy, how restless its control was."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.measure import Measure, by_name
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.collector import promises
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.spending import Spending

_PERCENTILES = (50, 90, 99)
_AS_MANY_AGAIN = 0.05
"""Attainment below what is wanted that adds as many GPU-hours as there were."""


def _latency(name: str, what: str, short: str) -> tuple[Measure, ...]:
    return (
        Measure(f"{name}_mean", "s", "lower", f"{what}, mean", f"{short} mean"),
        *(
            Measure(f"{name}_p{share}", "s", "lower", f"{what}, {share}th percentile", f"{short} p{share}")
            for share in _PERCENTILES
        ),
    )


MEASURES = by_name(
    Measure(
        "weighed_gpu_hours",
        "h",
        "lower",
        "GPU-hours, as many again for every 5 points of requests that miss what is wanted",
        "weighed",
    ),
    Measure("slo_attainment", "%", "higher", "Requests served as promised", "SLO"),
    Measure("gpu_hours", "h", "lower", "GPU-hours", "GPU-h"),
    *_latency("ttft", "Time to the first token", "TTFT"),
    *_latency("tbt", "Time between tokens", "TBT"),
    *_latency("e2e", "Time to the last token", "E2E"),
    Measure("goodput", "1/s", "higher", "Requests served as promised, a second", "goodput"),
    Measure("attainment_first_class", "%", "higher", "The same, of the first class of service", "1st class"),
    Measure("attainment_second_class", "%", "higher", "The same, of the second class", "2nd class"),
    Measure("cost", "$", "lower", "Price of the instances", "cost"),
    Measure("cost_per_million_tokens", "$", "lower", "Price of a million generated tokens", "$/Mtok"),
    Measure("energy", "kWh", "lower", "Energy of the GPUs", "energy"),
    Measure("scaling_actions", "", "lower", "Instances started, drained or migrated", "actions"),
    Measure("oscillation", "1/h", "lower", "Turns from growing to shrinking or back, an hour", "turns"),
    Measure("rejected", "", "lower", "Requests rejected", "rejected"),
    Measure("lost", "", "lower", "Requests lost with their instances", "lost"),
    Measure("unfinished", "", "lower", "Requests that never ended", "unfinished"),
    Measure("preemptions", "", "lower", "Preemptions of requests", "preempted"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)


def measures_of(
    rows: F64, arrived: int, spent: Spending, changes: Sequence[Scale], options: ControlOptions
) -> dict[str, float]:
    """Of the requests that have ended, among so many that have come, and of the decisions so far."""
    hours = max(len(changes), 1) * options.interval / 3600.0
    met, _, _ = promises(rows, options)
    attained = float(met.sum()) / max(arrived, 1)
    gpu_hours = spent.gpu_seconds / 3600.0
    found = {
        "weighed_gpu_hours": gpu_hours * (1.0 + max(options.wanted - attained, 0.0) / _AS_MANY_AGAIN),
        "slo_attainment": 100.0 * attained,
        "gpu_hours": gpu_hours,
        "goodput": float(met.sum()) / (hours * 3600.0),
        "cost": spent.dollars,
        "energy": spent.joules / 3.6e6,
        "scaling_actions": float(sum(actions_of(change) for change in changes)),
        "oscillation": turns(changes) / hours,
        "rejected": float((rows[:, c.L_STATUS] == c.REJECTED).sum()),
        "lost": float((rows[:, c.L_STATUS] == c.LOST).sum()),
        "unfinished": float(arrived - len(rows)),
        "preemptions": float(rows[:, c.L_PREEMPTIONS].sum()),
    }
    served = rows[rows[:, c.L_STATUS] == c.COMPLETED]
    if len(served):
        found.update(_latencies(served))
        found["cost_per_million_tokens"] = spent.dollars / (served[:, c.L_OUTPUT].sum() / 1e6)
    for place, name in enumerate(("attainment_first_class", "attainment_second_class")):
        mine = rows[:, c.L_SERVICE] == place
        if mine.any():
            found[name] = 100.0 * float(met[mine].mean())
    return found


def _latencies(served: F64) -> dict[str, float]:
    ttft = served[:, c.L_FIRST] - served[:, c.L_ARRIVAL]
    e2e = served[:, c.L_ENDED] - served[:, c.L_ARRIVAL]
    found: dict[str, float] = {}
    several = served[:, c.L_OUTPUT] > 1
    gaps = (e2e - ttft)[several] / (served[several, c.L_OUTPUT] - 1)
    for name, values in (("ttft", ttft), ("tbt", gaps), ("e2e", e2e)):
        if values.size:
            found[f"{name}_mean"] = float(values.mean())
            for share in _PERCENTILES:
                found[f"{name}_p{share}"] = float(np.percentile(values, share))
    return found


def actions_of(change: Scale) -> int:
    """Instances that a decision starts, drains or migrates."""
    return abs(change.prompt) + abs(change.token) + abs(change.mixed) + abs(change.migrate)


def turns(changes: Sequence[Scale]) -> int:
    """How often a pool that grew shrinks next, or the other way round."""
    count = 0
    for role in ("prompt", "token", "mixed"):
        steps = [step for step in (change.of(role) for change in changes) if step]
        count += sum((one > 0) != (other > 0) for one, other in pairwise(steps))
    return count
