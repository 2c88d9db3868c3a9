"""What the nodes of a host use: sampled with each sign of life, kept as series, and told to others.

The node's sum goes with its lease, where schedulers read it. What each container uses is a note of the
node's, written when it is news, and once a minute with the last quarter of an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proreus.engine.kubelet.usage.history import MINUTE, UsageSeries
from proreus.engine.objects.ephemeral import EphemeralValues
from proreus.engine.runtimes.protocol import PodRuntime
from proreus.engine.runtimes.stats import NODE, Measures, Trend, encode, is_news

MOST_DAYS = 2000
"""Of so many pods at once a day is remembered; of the others a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What a lease tells of its node."""

    cpu: int
    memory: int
    deviation: int
    """Of the CPU, over the last quarter of an hour."""


class UsageReporter:
    def __init__(self, nodes: Mapping[str, PodRuntime], notes: EphemeralValues) -> None:
        self._runtimes, self._notes = nodes, notes
        self._nodes: dict[str, UsageSeries] = {}
        self._pods: dict[str, dict[str, UsageSeries]] = {}
        """By node, then by uid: a pod that is gone goes with the node's next sample."""
        self._days = 0
        self._newest: dict[str, Measures] = {}
        self._told: dict[str, Measures] = {}
        self._trends_at: dict[str, float] = {}
        """When the past of each node was told last."""
        self._now = 0.0

    def sample(self, name: str, steady: float) -> NodeLoad:
        """Measure a node now."""
        self._now = steady
        runtime = self._runtimes[name]
        measures = Measures(runtime.node_stats(), tuple(runtime.stats()), tuple(runtime.pod_stats()))
        self._newest[name] = measures
        series = self._nodes.get(name)
        if series is None:
            series = self._nodes[name] = UsageSeries(day=True)
        node = measures.node
        series.append(node.cpu, node.memory, steady)
        self._follow_pods(name, measures, steady)
        return NodeLoad(node.cpu, node.memory, round(series.deviation()))

    async def tell(self, names: Sequence[str]) -> None:
        """What is news of these nodes; raises `Unserviceable`."""
        news: dict[str, Measures] = {}
        for name in names:
            now, before = self._newest.get(name), self._told.get(name)
            if now is None:
                continue
            if before is None or self._now - self._trends_at.get(name, self._now) >= MINUTE:
                news[name] = replace(now, trends=self._trends(name))
                self._trends_at[name] = self._now
            elif is_news(before, now):
                news[name] = replace(now, trends=before.trends)
        whole = await self._notes.tell({name: encode(measures) for name, measures in news.items()})
        if whole:
            self._told.update(news)
        else:
            self._told.clear()

    async def withdraw(self, names: Sequence[str]) -> None:
        """Nodes that were deleted are told of no more; raises `Unserviceable`."""
        gone = [name for name in names if name in self._told]
        if gone:
            await self._notes.withdraw(gone)
            for name in gone:
                del self._told[name]

    def node_trend(self, name: str, *, day: bool = False) -> Trend:
        series = self._nodes.get(name)
        return Trend() if series is None else series.trend(day=day)

    def pod_trend(self, node: str, uid: str, *, day: bool = False) -> Trend:
        """Of a pod on a node; empty where it has not been measured there."""
        series = self._pods.get(node, {}).get(uid)
        return Trend() if series is None else series.trend(day=day)

    def _trends(self, name: str) -> dict[str, Trend]:
        pods = {uid: series.minutes() for uid, series in self._pods.get(name, {}).items()}
        return {NODE: self._nodes[name].minutes(), **pods}

    def _follow_pods(self, name: str, measures: Measures, steady: float) -> None:
        used: dict[str, tuple[int, int]] = {}
        for use in measures.containers:
            cpu, memory = used.get(use.uid, (0, 0))
            used[use.uid] = (cpu + use.cpu, memory + use.memory)
        pods = self._pods.setdefault(name, {})
        for uid in [uid for uid in pods if uid not in used]:
            self._days -= pods.pop(uid).has_day
        for uid, (cpu, memory) in used.items():
            series = pods.get(uid)
            if series is None:
                series = pods[uid] = UsageSeries(day=self._days < MOST_DAYS)
                self._days += series.has_day
            series.append(cpu, memory, steady)
