"""Deployments of simulated replicas: time passes, numbers of replicas are asked for, metrics are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from proreus.worlds.inference.exporter.counters import GrowingHistogram, InstanceCounters, RunCounters
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.model.cluster import ROLES, Role
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cost import spending
from proreus.worlds.inference.simulation.scaling_manager import ScalingManager

_ENGINE = "0"


class SimulatedFleet:
    """The replicas of a scenario, by the places that they take; one pool is one Deployment."""

    def __init__(self, scenario: InferenceScenario, trace: RequestTrace, seed: int = 0) -> None:
        control = scenario.control
        self.cluster = scenario.start(trace, seed).cluster
        # Who scales knows the limits; a Deployment takes any number there are servers for.
        bounds = Limits(least=0, most_in_total=control.limits.most_in_total)
        self._manager = ScalingManager(self.cluster, bounds, control.start)
        self._counting = RunCounters(self.cluster)
        self._counting.follow()
        self.places = control.limits.most_in_total
        """Replicas that there can be."""

    @property
    def now(self) -> float:
        """Seconds of the trace."""
        return self.cluster.now

    def advance(self, until: float) -> None:
        """Let time pass."""
        if until > self.now:
            self.cluster.advance(until)
            self._counting.follow()

    def scale(self, role: Role, replicas: int) -> None:
        """So many are to be there: more are started, too many drain, those that start first."""
        more = replicas - self._manager.count(role)
        for _ in range(max(more, 0)):
            self._manager.scale_up_full(tag=role)
        for instance in self._manager.victims(role)[: max(-more, 0)]:
            self._manager.scale_down_full(instance)

    def replicas(self, role: Role) -> int:
        """That are asked for: those that serve and those that start."""
        return self._manager.count(role)

    def serving(self, role: Role) -> int:
        """Those that serve."""
        return int(self._served(role).sum())

    def _served(self, role: Role) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        fleet = self.cluster.run.fleet
        mine: np.ndarray[tuple[int], np.dtype[np.bool_]] = (fleet[:, c.STATUS] == c.ACTIVE) & (
            fleet[:, c.TAG] == ROLES.index(role)
        )
        return mine

    @property
    def gpu_hours(self) -> float:
        """Paid so far."""
        return spending(self.cluster).gpu_seconds / 3600.0

    def metrics(self, place: int, role: Role) -> bytes | None:
        """What the replica at that place exposes; None: there is none, or it does not serve (yet)."""
        if not 0 <= place < len(self.cluster.run.fleet) or not self._served(role)[place]:
            return None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Replica(self, place))
        return generate_latest(registry)

    def families(self, place: int) -> Iterator[Metric]:
        """The metrics of a replica, as vLLM names them."""
        run = self.cluster.run
        fleet = run.fleet[place]
        counted = self._counting.of(int(fleet[c.NUMBER]))
        room = float(fleet[c.CAPACITY] - fleet[c.WEIGHTS])
        waiting = float(run.waiting.size[place] + run.inbound.size[place])
        kv_use = float(fleet[c.MEMORY] - fleet[c.WEIGHTS]) / room
        labels = (self.cluster.spec.kinds[fleet[c.KIND]].model.name, _ENGINE)
        for name, says, value in (
            (vllm.RUNNING, "Requests in the batch.", float(fleet[c.BATCH])),
            (vllm.WAITING, "Requests that wait.", waiting),
            (vllm.KV_USE, "Share of the KV memory in use.", kv_use),
        ):
            gauge = GaugeMetricFamily(name, says, labels=_LABELS)
            gauge.add_metric(labels, value)
            yield gauge
        yield from _counters(counted, labels)
        if self.cluster.has_prefix_caches:
            yield _counter(vllm.PREFIX_QUERIES, "Tokens looked up.", labels, counted.prompt_tokens)
            yield _counter(vllm.PREFIX_HITS, "Tokens found.", labels, counted.found)
        for name, says, observed in (
            (vllm.TTFT, "Seconds to the first token.", counted.ttft),
            (vllm.TBT, "Seconds a token, by request.", counted.tbt),
            (vllm.E2E, "Seconds of requests.", counted.e2e),
            (vllm.QUEUE_TIME, "Seconds in the queue.", counted.wait),
        ):
            yield _histogram(name, says, labels, observed)


_LABELS = (vllm.MODEL_LABEL, vllm.ENGINE_LABEL)


def _counter(name: str, says: str, labels: tuple[str, str], value: float) -> Metric:
    counter = CounterMetricFamily(name, says, labels=_LABELS)
    counter.add_metric(labels, value)
    return counter


def _counters(counted: InstanceCounters, labels: tuple[str, str]) -> Iterator[Metric]:
    yield _counter(vllm.PROMPT_TOKENS, "Tokens of prompts.", labels, counted.prompt_tokens)
    yield _counter(vllm.OUTPUT_TOKENS, "Tokens generated.", labels, counted.output_tokens)
    ended = CounterMetricFamily(vllm.ENDED, "Requests that ended.", labels=(*_LABELS, vllm.REASON_LABEL))
    ended.add_metric((*labels, "stop"), counted.ended)
    yield ended


def _histogram(name: str, says: str, labels: tuple[str, str], observed: GrowingHistogram) -> Metric:
    family = HistogramMetricFamily(name, says, labels=_LABELS)
    bounds = (*map(repr, observed.bounds), "+Inf")
    buckets = list(zip(bounds, observed.counts.cumsum().tolist(), strict=True))
    family.add_metric(labels, buckets, observed.total)
    return family


class _Replica(Collector):
    def __init__(self, fleet: SimulatedFleet, place: int) -> None:
        self._fleet, self._place = fleet, place

    def collect(self) -> Iterator[Metric]:
        return self._fleet.families(self._place)
