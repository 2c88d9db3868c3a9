"""What a replica says of itself: from Prometheus' text format, or its answer to a query, to a sample.

Values that cannot be are refused with the whole sample: a controller that is told nonsense decides nonsense.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from prometheus_client.parser import text_string_to_metric_families

from proreus.serving.messages import shortened
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.state.histograms import Histogram, nothing
from proreus.worlds.inference.state.replicas import Absent, Reading, ReplicaSample, Unreadable

MOST_SERIES = 20_000
"""Of one replica; a real one has hundreds."""
_LONGEST_LINE = 16 * 1024
_MOST_REQUESTS, _MOST_COUNTED = 1e7, 1e18
"""More than these at a replica are a mistake."""
_LONGEST_NUMBER = 64
_FULL = 1.0 + 1e-6
_HISTOGRAMS = {
    vllm.TTFT: vllm.TTFT_BOUNDS,
    vllm.TBT: vllm.TBT_BOUNDS,
    vllm.QUEUE_TIME: vllm.REQUEST_BOUNDS,
}
_GAUGES = (vllm.RUNNING, vllm.WAITING, vllm.KV_USE)
_COUNTERS = (f"{vllm.PROMPT_TOKENS}_total", f"{vllm.OUTPUT_TOKENS}_total", f"{vllm.ENDED}_total")
_ENDED = f"{vllm.ENDED}_total"
_CUT_SHORT = frozenset({"abort", "error"})
_PARTS = tuple(f"{name}_{part}" for name in _HISTOGRAMS for part in ("bucket", "sum", "count"))
NAMES = frozenset((*_GAUGES, *_COUNTERS, *_PARTS))
"""The series that are read; all others are passed over."""


@dataclass(frozen=True)
class Series:
    """One value with its name and labels."""

    name: str
    labels: Mapping[str, str]
    value: float


class Absurd(Exception):
    """A value that cannot be."""


def read_text(text: str, at: float, model_name: str = "") -> Reading:
    """A replica's /metrics."""
    # Most of a body is other families: left out before it is parsed. A comment gives a family its type.
    everything = text.split("\n")
    lines = [line for line in everything if line.startswith(("vllm:", "# TYPE vllm:"))]
    if len(lines) > MOST_SERIES or any(len(line) > _LONGEST_LINE for line in lines):
        return Unreadable("too_large", f"more than {MOST_SERIES} series, or one far too long")
    try:
        series = [
            Series(sample.name, sample.labels, float(sample.value))
            for family in text_string_to_metric_families("\n".join(lines) + "\n")
            for sample in family.samples
            if sample.name in NAMES
        ]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return Unreadable("malformed", shortened(f"not Prometheus' text format: {error}"))
    reading = read_series(series, at, model_name)
    return (
        replace(reading, heartbeat=_heartbeat(everything)) if isinstance(reading, ReplicaSample) else reading
    )


def _heartbeat(lines: Iterable[str]) -> float | None:
    """What is no number is no heartbeat either: nothing is decided by its size."""
    for line in lines:
        name, _, value = line.partition(" ")
        if name == vllm.PROCESS_CPU and len(value) < _LONGEST_NUMBER:
            try:
                seconds = float(value)
            except ValueError:
                return None
            return seconds if math.isfinite(seconds) else None
    return None


def read_series(series: Iterable[Series], at: float, model_name: str = "") -> Reading:
    """The series of one replica, those of its engines together."""
    mine = [one for one in series if not model_name or one.labels.get(vllm.MODEL_LABEL) == model_name]
    values: dict[str, list[float]] = defaultdict(list)
    buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    served = 0.0
    try:
        for one in mine:
            value = _possible(one)
            if one.name.endswith("_bucket"):
                buckets[one.name.removesuffix("_bucket")][_bound(one)] += value
            else:
                values[one.name].append(value)
            if one.name == _ENDED and one.labels.get(vllm.REASON_LABEL) not in _CUT_SHORT:
                served += value
        if any(name not in values for name in _GAUGES):
            return Absent("it serves no such model (yet)")
        histograms = {
            name: _histogram(name, buckets[name], sum(values[f"{name}_sum"])) for name in _HISTOGRAMS
        }
    except Absurd as error:
        return Unreadable("absurd", shortened(str(error)))
    prompt_tokens, output_tokens, ended = (sum(values[name]) for name in _COUNTERS)
    kv_use = values[vllm.KV_USE]
    return ReplicaSample(
        at=at,
        running=sum(values[vllm.RUNNING]),
        waiting=sum(values[vllm.WAITING]),
        kv_use=min(sum(kv_use) / len(kv_use), 1.0),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        ended=ended,
        served=served,
        ttft=histograms[vllm.TTFT],
        tbt=histograms[vllm.TBT],
        wait=histograms[vllm.QUEUE_TIME],
    )


def _possible(series: Series) -> float:
    most = _MOST_COUNTED
    if series.name == vllm.KV_USE:
        most = _FULL
    elif series.name in _GAUGES:
        most = _MOST_REQUESTS
    if not 0.0 <= series.value <= most:  # NaN is not
        raise Absurd(f"{series.name} is {series.value}")
    return series.value


def _bound(series: Series) -> float:
    try:
        bound = float(series.labels["le"])
    except (KeyError, ValueError):
        raise Absurd(f"{series.name} has a bucket without a bound") from None
    if math.isnan(bound):
        raise Absurd(f"{series.name} has a bucket up to NaN")
    return bound


def _histogram(name: str, buckets: Mapping[float, float], total: float) -> Histogram:
    if not buckets:
        return nothing(_HISTOGRAMS[name])
    bounds = tuple(sorted(buckets))
    try:
        return Histogram(bounds, tuple(buckets[bound] for bound in bounds), total)
    except ValueError as error:
        raise Absurd(f"{name}: {error}") from None
