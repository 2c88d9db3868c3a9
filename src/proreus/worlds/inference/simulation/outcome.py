"""What a run has come to: latencies, promises kept, GPU-hours, cost, energy, how restless its control was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.model.measure import Measure, by_name
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.model.service import AS_MANY_AGAIN as AS_MANY_AGAIN
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.collector import promises
from proreus.worlds.inference.simulation.cost import Spending
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.slowdown import LATENCIES

_PERCENTILES = (50, 90, 99)


def _latency(name: str, what: str, short: str) -> tuple[Measure, ...]:
    return (
        Measure(f"{name}_mean", "s", "lower", f"{what}, mean", f"{short} mean"),
        *(
            Measure(f"{name}_p{share}", "s", "lower", f"{what}, {share}th percentile", f"{short} p{share}")
            for share in _PERCENTILES
        ),
    )


def _slowdown(name: str, short: str) -> tuple[Measure, ...]:
    return (
        Measure(f"{name}_slowdown_mean", "x", "lower", f"{short} slowdown, mean"),
        *(
            Measure(
                f"{name}_slowdown_p{share}",
                "x",
                "lower",
                f"{short} slowdown, {share}th percentile",
                f"{short} slow p{share}",
            )
            for share in _PERCENTILES
        ),
    )


MEASURES = by_name(
    Measure(
        "weighed_gpu_hours",
        "h",
        "lower",
        "GPU-hours, weighed by what is missed",
        "weighed",
    ),
    Measure("slo_attainment", "%", "higher", "Requests served as promised", "SLO"),
    Measure("gpu_hours", "h", "lower", "GPU-hours", "GPU-h"),
    *_latency("ttft", "Time to the first token", "TTFT"),
    *_latency("tbt", "Time between tokens", "TBT"),
    *_latency("e2e", "Time to the last token", "E2E"),
    *(measure for name in LATENCIES for measure in _slowdown(name, name.upper())),
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
    Measure("prefix_hits", "%", "higher", "Tokens of prompts found in a prefix cache", "found"),
    Measure("preemptions", "", "lower", "Preemptions of requests", "preempted"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)


def measures_of(
    rows: F64, arrived: I32, spent: Spending, changes: Sequence[Scale], options: ControlOptions
) -> dict[str, float]:
    """Of the requests that have ended, among those of such classes that have come, and of the decisions."""
    hours = max(len(changes), 1) * options.interval / 3600.0
    met, _, _ = promises(rows, options)
    weights = np.array([class_.weight for class_ in options.classes])
    wanted = float(weights[arrived].sum())
    attained = float((met * _weights(rows, options)).sum()) / max(wanted, 1e-9)
    gpu_hours = spent.gpu_seconds / 3600.0
    measures = {
        "weighed_gpu_hours": gpu_hours * (1.0 + max(options.wanted - attained, 0.0) / AS_MANY_AGAIN),
        "slo_attainment": 100.0 * attained,
        "gpu_hours": gpu_hours,
        "goodput": float(met.sum()) / (hours * 3600.0),
        "cost": spent.dollars,
        "energy": spent.joules / 3.6e6,
        "scaling_actions": float(sum(actions_of(change) for change in changes)),
        "oscillation": turns(changes) / hours,
        "rejected": float((rows[:, c.L_STATUS] == c.REJECTED).sum()),
        "lost": float((rows[:, c.L_STATUS] == c.LOST).sum()),
        "unfinished": float(len(arrived) - len(rows)),
        "preemptions": float(rows[:, c.L_PREEMPTIONS].sum()),
    }
    served = rows[rows[:, c.L_STATUS] == c.COMPLETED]
    if len(served):
        measures.update(_latencies(served))
        measures["cost_per_million_tokens"] = spent.dollars / (served[:, c.L_OUTPUT].sum() / 1e6)
    for place, name in enumerate(("attainment_first_class", "attainment_second_class")):
        come = int((arrived == place).sum())
        if come:
            measures[name] = 100.0 * float(met[rows[:, c.L_SERVICE] == place].sum()) / come
    return measures


def prefix_hits(served: F64) -> float:
    """Tokens of prompts that were not computed because their instance knew them, in percent of all."""
    return 100.0 * float(served[:, c.L_FOUND].sum() / max(served[:, c.L_PROMPT].sum(), 1.0))


def missed_share(rows: F64, met: F64, options: ControlOptions) -> float:
    """Of requests that have ended, by the weights of their classes; 0 where there are none."""
    if not len(rows):
        return 0.0
    weights = _weights(rows, options)
    return 1.0 - float((met * weights).sum() / max(weights.sum(), 1e-9))


def _weights(rows: F64, options: ControlOptions) -> F64:
    """Of the class of each request."""
    return np.array([class_.weight for class_ in options.classes])[rows[:, c.L_SERVICE].astype(np.int64)]


def slowdown_measures(found: Mapping[str, F64]) -> dict[str, float]:
    """Means and percentiles of what `slowdown.slowdowns` found."""
    return {
        f"{latency}_slowdown_{name}": value
        for latency, values in found.items()
        if values.size
        for name, value in _told(values).items()
    }


def _told(values: F64) -> dict[str, float]:
    shares = np.percentile(values, _PERCENTILES)
    return {
        "mean": float(values.mean()),
        **{f"p{share}": float(value) for share, value in zip(_PERCENTILES, shares, strict=True)},
    }


def _latencies(served: F64) -> dict[str, float]:
    ttft = served[:, c.L_FIRST] - served[:, c.L_ARRIVAL]
    e2e = served[:, c.L_ENDED] - served[:, c.L_ARRIVAL]
    latencies: dict[str, float] = {}
    several = served[:, c.L_OUTPUT] > 1
    gaps = (e2e - ttft)[several] / (served[several, c.L_OUTPUT] - 1)
    for name, values in (("ttft", ttft), ("tbt", gaps), ("e2e", e2e)):
        if values.size:
            latencies.update({f"{name}_{part}": value for part, value in _told(values).items()})
    return latencies


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
