"""What the service counts, cheaply, and how Prometheus reads it.

A counter here is a plain number under one lock: a decision pays about a microsecond for all of its
measurements. Names, labels and text format are worked out only when someone asks for /metrics.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (
    *(step * 10.0**power for power in range(-6, 0) for step in (1.0, 2.5, 5.0)),
    1.0,
    5.0,
)
"""Upper bounds in seconds: from a microsecond to five seconds."""


Table = dict[tuple[str, ...], float]
"""Numbers by the values of their labels."""


class _Histogram:
    """Counts per bucket, and the sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0


class Measurements:
    """Everything the service counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latency: dict[tuple[str, str], _Histogram] = {}
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._totals: dict[str, Callable[[], dict[str, float]]] = {}
        self._tables: dict[str, tuple[str, tuple[str, ...], Callable[[], Table]]] = {}
        self._version: Callable[[], str] = str

    def took(self, door: str, part: str, seconds: float) -> None:
        """A request through `door` spent so long in `part` (`model`, `decide`, or `whole`)."""
        bucket = bisect_left(BUCKETS, seconds)
        with self._lock:
            histogram = self._latency.get((door, part))
            if histogram is None:
                histogram = self._latency[door, part] = _Histogram()
            histogram.counts[bucket] += 1
            histogram.total += seconds

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Count something that happened; names are those of `COUNTERS`."""
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += amount

    def counted(self, name: str, **labels: str) -> int:
        """How often it happened so far, with these labels."""
        wanted = set(labels.items())
        with self._lock:
            return sum(n for (known, has), n in self._counts.items() if known == name and wanted <= set(has))

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Export the number that `read` gives whenever someone asks."""
        self._gauges[name] = (help_text, read)

    def table(self, name: str, help_text: str, labels: tuple[str, ...], read: Callable[[], Table]) -> None:
        """Export the numbers that `read` gives, by the values of their labels."""
        self._tables[name] = (help_text, labels, read)

    def totals(self, name: str, read: Callable[[], dict[str, float]]) -> None:
        """Export counts that someone else keeps, by the one label of the counter `name`."""
        self._totals[name] = read

    def version(self, read: Callable[[], str]) -> None:
        """Export which model version is live."""
        self._version = read

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(self))
        return generate_latest(registry)

    def families(self) -> Iterator[Metric]:
        """Everything as metric families."""
        with self._lock:
            latency = {key: (list(h.counts), h.total) for key, h in self._latency.items()}
            counts = dict(self._counts)
        histogram = HistogramMetricFamily(
            "proreus_request_seconds", "Time of requests by door and part.", labels=("door", "part")
        )
        for (door, part), (per_bucket, total) in sorted(latency.items()):
            buckets, so_far = [], 0
            for bound, amount in zip((*map(repr, BUCKETS), "+Inf"), per_bucket, strict=True):
                so_far += amount
                buckets.append((bound, so_far))
            histogram.add_metric((door, part), buckets, total)
        yield histogram
        for name, (help_text, labels) in COUNTERS.items():
            family = CounterMetricFamily(name, help_text, labels=labels)
            for (known, has), amount in sorted(counts.items()):
                if known == name:
                    values = dict(has)
                    family.add_metric(tuple(values.get(label, "") for label in labels), amount)
            for value, total in self._totals.get(name, dict)().items():
                family.add_metric((value,), total)
            yield family
        for name, (help_text, read) in self._gauges.items():
            gauge = GaugeMetricFamily(name, help_text)
            gauge.add_metric((), read())
            yield gauge
        for name, (help_text, labels, read_all) in self._tables.items():
            family_of_table = GaugeMetricFamily(name, help_text, labels=labels)
            for of_labels, number in read_all().items():
                family_of_table.add_metric(of_labels, number)
            yield family_of_table
        info = GaugeMetricFamily("proreus_model_info", "1 for the live version.", labels=("version",))
        info.add_metric((self._version(),), 1.0)
        yield info


COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "proreus_fallbacks": ("Decisions that the rule made for the model, by reason.", ("reason",)),
    "proreus_refusals": ("Requests refused, by reason.", ("door", "reason")),
    "proreus_failures": ("Requests that failed by the service's own fault.", ("door",)),
    "proreus_experience": ("Steps of experience received, by use.", ("use",)),
    "proreus_updates": ("Rounds of learning, by result.", ("result",)),
    "proreus_swaps": ("Changes of the live version.", ("result",)),
    "proreus_scaler_decisions": ("Decisions of a scaler: who made them, and why.", ("by", "reason")),
    "proreus_extender_calls": ("Calls of an extender, by verb and what came of them.", ("verb", "result")),
    "proreus_scaler_unreadable": ("Readings of replicas that cannot be used, by reason.", ("reason",)),
}


class _Collector(Collector):
    def __init__(self, measurements: Measurements) -> None:
        self._measurements = measurements

    def collect(self) -> Iterator[Metric]:
        return self._measurements.families()
