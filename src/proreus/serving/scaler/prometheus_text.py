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
from proreus.worlds.inference.model import sglang, vllm
from proreus.worlds.inference.state.histograms import Histogram, nothing
from proreus.worlds.inference.state.replicas import Absent, Reading, ReplicaSample, Unreadable

MOST_SERIES = 20_000
"""Of one replica; a real one has hundreds."""
_LONGEST_LINE = 16 * 1024
_MOST_REQUESTS, _MOST_COUNTED = 1e7, 1e18
"""More than these at a replica are a mistake."""
_LONGEST_NUMBER = 64
_FULL = 1.0 + 1e-6
_NO_CACHE = -1.0
"""What engines without a prefix cache say of its hits."""
_HISTOGRAMS = {
    vllm.TTFT: vllm.TTFT_BOUNDS,
    vllm.TBT: vllm.TBT_BOUNDS,
    vllm.QUEUE_TIME: vllm.REQUEST_BOUNDS,
}
_GAUGES = (vllm.RUNNING, vllm.WAITING, vllm.KV_USE)
_COUNTERS = (f"{vllm.PROMPT_TOKENS}_total", f"{vllm.OUTPUT_TOKENS}_total", f"{vllm.ENDED}_total")
_PREFIX_QUERIES, _PREFIX_HITS = f"{vllm.PREFIX_QUERIES}_total", f"{vllm.PREFIX_HITS}_total"
_EXTERNAL_HITS = f"{vllm.EXTERNAL_HITS}_total"
_PREFIXES = (_PREFIX_QUERIES, _PREFIX_HITS, _EXTERNAL_HITS, vllm.HIT_RATE)
_ENDED = f"{vllm.ENDED}_total"
_CUT_SHORT = frozenset({"abort", "error"})
_PARTS = tuple(f"{name}_{part}" for name in _HISTOGRAMS for part in ("bucket", "sum", "count"))
_SAME = {**vllm.EARLIER_NAMES, **sglang.NAMES}
"""Series by other names, of older servers and of other engines."""
NAMES = frozenset((*_GAUGES, *_COUNTERS, *_PREFIXES, *_PARTS, *_SAME))
"""The series that are read; all others are passed over."""
_FAMILIES = ("vllm:", "sglang:")
_LINES = (*_FAMILIES, *(f"# TYPE {family}" for family in _FAMILIES))


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
    lines = [line for line in everything if line.startswith(_LINES)]
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
            name = _SAME.get(one.name, one.name)
            value = _possible(one, name)
            if name.endswith("_bucket"):
                buckets[name.removesuffix("_bucket")][_bound(one)] += value
            else:
                values[name].append(value)
            if one.name == sglang.PROMPT_TOKENS:  # all of them are looked up
                values[_PREFIX_QUERIES].append(value)
            if name == _ENDED and one.labels.get(vllm.REASON_LABEL) not in _CUT_SHORT:
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
        looked_up=sum(values[_PREFIX_QUERIES]),
        found=sum(values[_PREFIX_HITS]) + sum(values[_EXTERNAL_HITS]),
        hit_rate=_hit_rate(values),
    )


def _hit_rate(values: Mapping[str, list[float]]) -> float | None:
    """Of an engine that does not count tokens found; None: it counts, or has no cache."""
    told = [rate for rate in values.get(vllm.HIT_RATE, ()) if rate >= 0.0]
    return min(sum(told) / len(told), 1.0) if told and not values.get(_PREFIX_HITS) else None


def _possible(series: Series, name: str) -> float:
    """Its value; `name`: of vLLM's series that means the same."""
    least, most = 0.0, _MOST_COUNTED
    match name:
        case vllm.KV_USE:
            most = _FULL
        case vllm.HIT_RATE:
            least, most = _NO_CACHE, _FULL
        case vllm.RUNNING | vllm.WAITING:
            most = _MOST_REQUESTS
    if not least <= series.value <= most:  # NaN is not
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
