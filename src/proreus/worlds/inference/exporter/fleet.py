"""Deployments of simulated replicas: time passes, numbers of replicas are asked for, metrics are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from proreus.worlds.inference.exporter.counting import Counted, Counting, Observed
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.model.cluster import ROLES, Role
from proreus.worlds.inference.model.life import Limits
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import Cluster
from proreus.worlds.inference.simulation.scaling import ScalingManager
from proreus.worlds.inference.simulation.spending import spending

_ENGINE = "0"


class SimulatedFleet:
    """The replicas of a scenario, by the places that they take; one pool is one Deployment."""

    def __init__(self, scenario: InferenceScenario, trace: RequestTrace, seed: int = 0) -> None:
        spec, control = scenario.machines.spec(), scenario.control
        kind = spec.kinds[0]
        timings = {kind.timing: roofline(kind.model, kind.gpu, kind.gpus)}
        self.cluster = Cluster(spec, trace, timings, seed, control.limits.most_in_total)
        # Who scales knows the limits; a Deployment takes any number there are servers for.
        bounds = Limits(least=0, most_in_total=control.limits.most_in_total)
        self._manager = ScalingManager(self.cluster, bounds, control.start)
        self._counting = Counting(self.cluster)
        self.model_name = kind.model.name
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
        yield self._gauge(vllm.RUNNING, "Requests in the batch.", float(fleet[c.BATCH]))
        yield self._gauge(vllm.WAITING, "Requests that wait.", waiting)
        kv_use = float(fleet[c.MEMORY] - fleet[c.WEIGHTS]) / room
        yield self._gauge(vllm.KV_USE, "Share of the KV memory in use.", kv_use)
        yield self._counter(vllm.PROMPT_TOKENS, "Tokens of prompts.", counted.prompt_tokens)
        yield self._counter(vllm.OUTPUT_TOKENS, "Tokens generated.", counted.output_tokens)
        yield self._ended(counted)
        yield self._histogram(vllm.TTFT, "Seconds to the first token.", counted.ttft)
        yield self._histogram(vllm.TBT, "Seconds a token, by request.", counted.tbt)
        yield self._histogram(vllm.E2E, "Seconds of requests.", counted.e2e)
        yield self._histogram(vllm.QUEUE_TIME, "Seconds in the queue.", counted.wait)

    @property
    def _labels(self) -> tuple[str, str]:
        return (self.model_name, _ENGINE)

    def _gauge(self, name: str, says: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, says, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, says: str, value: float) -> Metric:
        family = CounterMetricFamily(name, says, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _ended(self, counted: Counted) -> Metric:
        family = CounterMetricFamily(vllm.ENDED, "Requests that ended.", labels=(*_LABELS, vllm.REASON_LABEL))
        family.add_metric((*self._labels, "stop"), counted.ended)
        return family

    def _histogram(self, name: str, says: str, observed: Observed) -> Metric:
        family = HistogramMetricFamily(name, says, labels=_LABELS)
        bounds = (*map(repr, observed.bounds), "+Inf")
        buckets = list(zip(bounds, observed.counts.cumsum().tolist(), strict=True))
        family.add_metric(self._labels, buckets, observed.total)
        return family


_LABELS = (vllm.MODEL_LABEL, vllm.ENGINE_LABEL)


class _Replica(Collector):
    def __init__(self, fleet: SimulatedFleet, place: int) -> None:
        self._fleet, self._place = fleet, place

    def collect(self) -> Iterator[Metric]:
        return self._fleet.families(self._place)
