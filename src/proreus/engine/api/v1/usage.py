"""What is used, for `proreus top` and whoever draws it: newest numbers, requests beside them, the past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.usage import MeasuredUsage, NodeMeasured, PodMeasured
from proreus.engine.objects.errors import BadRequest
from proreus.engine.objects.kinds import NODE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.resource_amounts import Amounts, read_amounts, requests_of, total
from proreus.engine.objects.selectors import selection_asked
from proreus.engine.runtimes.protocol import GpuUse
from proreus.engine.runtimes.stats import Trend, Trends
from proreus.model.resources import CPU, MEMORY

_MOST_ROWS, _MOST_POINTS = 1000, 1440
_ENDED = ("Succeeded", "Failed")
_SORTS = ("cpu", "memory", "name")


class UsageRoutes:
    """`/v1/use/nodes` and `/v1/use/pods`.

    trends: who remembers the past of nodes in this process; of others, what they tell once a minute is known.
    """

    def __init__(self, registry: Registry, measured: MeasuredUsage, trends: Trends | None) -> None:
        self._registry, self._measured, self._trends = registry, measured, trends

    async def nodes(self, asked: ApiRequest) -> dict[str, Any]:
        """Rows of nodes."""
        sort, limit, points, day = _read(asked)
        chosen = await selection_asked(NODE, asked.query.get("labelSelector", ""))
        requested: dict[str, Counter[str]] = {}
        for pod in (await self._registry.list(POD)).items:
            node = pod["spec"].get("nodeName")
            if node and (pod.get("status") or {}).get("phase") not in _ENDED:
                requested.setdefault(node, Counter()).update(requests_of(pod))
        nodes = [measured for measured in await self._measured.nodes() if chosen.matches(measured.node)]
        nodes.sort(key=lambda measured: _order(sort, measured.use.cpu, measured.use.memory, measured.node))
        return {
            "total": len(nodes),
            "nodes": [
                {
                    **_node_row(measured, requested.get(measured.node["metadata"]["name"], Counter())),
                    **self._past(self._of_node(measured, day), measured.minutes, points, day),
                }
                for measured in nodes[:limit]
            ],
        }

    async def pods(self, asked: ApiRequest) -> dict[str, Any]:
        """Rows of pods, of one namespace or of all."""
        sort, limit, points, day = _read(asked)
        chosen = await selection_asked(
            POD, asked.query.get("labelSelector", ""), asked.query.get("fieldSelector", "")
        )
        measured = await self._measured.pods(asked.query.get("namespace", ""))
        matching = [measured_pod for measured_pod in measured if chosen.matches(measured_pod.pod)]
        matching.sort(
            key=lambda measured_pod: _order(sort, measured_pod.cpu, measured_pod.memory, measured_pod.pod)
        )
        return {
            "total": len(matching),
            "pods": [
                {
                    **_pod_row(measured_pod),
                    **self._past(self._of_pod(measured_pod, day), measured_pod.minutes, points, day),
                }
                for measured_pod in matching[:limit]
            ],
        }

    def _of_node(self, measured: NodeMeasured, day: bool) -> Trend:
        name = measured.node["metadata"]["name"]
        return Trend() if self._trends is None else self._trends.node_trend(name, day=day)

    def _of_pod(self, measured: PodMeasured, day: bool) -> Trend:
        uid = measured.pod["metadata"]["uid"]
        return Trend() if self._trends is None else self._trends.pod_trend(uid, day=day)

    def _past(self, own: Trend, reported: Trend, points: int, day: bool) -> dict[str, Any]:
        """Of this process, or as it was told."""
        trend = own if own.cpu or day else reported
        return {
            "cpu_milli_trend": thinned(trend.cpu, points),
            "memory_bytes_trend": thinned(trend.memory, points),
        }


def thinned(values: Sequence[int], points: int) -> list[int]:
    """At most so many, the newest whole: means of neighbours, all of as many but the oldest."""
    if points <= 0 or not values:
        return []
    width = -(-len(values) // points)
    groups = [values[max(0, end - width) : end] for end in range(len(values), 0, -width)]
    return [round(sum(group) / len(group)) for group in reversed(groups)]


def _read(asked: ApiRequest) -> tuple[str, int, int, bool]:
    """How rows are sorted, how many there are, how many numbers of the past, and whether of a day."""
    sort = asked.query.get("sort", "name")
    if sort not in _SORTS:
        raise BadRequest(f"sort: {sort[:80]!r} is none of {', '.join(_SORTS)}")
    trend = asked.query.get("trend", "recent")
    if trend not in ("recent", "day"):
        raise BadRequest(f"trend: {trend[:80]!r} is neither recent nor day")
    points = asked.number("points") or 0
    if points > _MOST_POINTS:
        raise BadRequest(f"points: at most {_MOST_POINTS}")
    limit = asked.number("limit") or _MOST_ROWS
    if limit > _MOST_ROWS:
        raise BadRequest(f"limit: at most {_MOST_ROWS}")
    return sort, limit, points, trend == "day"


def _order(sort: str, cpu: int, memory: int, of: Mapping[str, Any]) -> tuple[int, str, str]:
    """The most first; equals by name."""
    metadata = of["metadata"]
    first = {"cpu": -cpu, "memory": -memory}.get(sort, 0)
    return first, metadata.get("namespace", ""), metadata["name"]


def _node_row(measured: NodeMeasured, requested: Counter[str]) -> dict[str, Any]:
    allocatable = read_amounts((measured.node.get("status") or {}).get("allocatable"))
    use = measured.use
    return {
        "name": measured.node["metadata"]["name"],
        "measured": measured.at,
        "cpu_milli": use.cpu,
        "memory_bytes": use.memory,
        "disk_bytes": use.disk,
        "disk_read_per_second": use.read,
        "disk_written_per_second": use.written,
        "received_per_second": use.traffic.received,
        "sent_per_second": use.traffic.sent,
        "gpus": _gpus(use.gpus),
        "allocatable": _asked(allocatable),
        "requested": _asked(requested),
        "pods": requested["pods"],
    }


def _pod_row(measured: PodMeasured) -> dict[str, Any]:
    metadata, spec, traffic = measured.pod["metadata"], measured.pod["spec"], measured.beside.traffic
    limits = total(read_amounts((each.get("resources") or {}).get("limits")) for each in spec["containers"])
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "node": spec["nodeName"],
        "measured": measured.at,
        "cpu_milli": measured.cpu,
        "memory_bytes": measured.memory,
        "disk_bytes": measured.disk,
        "received_per_second": None if traffic is None else traffic.received,
        "sent_per_second": None if traffic is None else traffic.sent,
        "gpus": _gpus(measured.beside.gpus),
        "requested": _asked(requests_of(measured.pod)),
        "limits": _asked(limits),
        "containers": [
            {
                "name": use.container,
                "cpu_milli": use.cpu,
                "memory_bytes": use.memory,
                "disk_bytes": use.disk,
            }
            for use in measured.containers
        ],
    }


def _gpus(gpus: Sequence[GpuUse]) -> list[dict[str, Any]]:
    return [
        {
            "uuid": gpu.uuid,
            "model": gpu.model,
            "busy_percent": gpu.busy,
            "memory_bytes": gpu.memory,
            "capacity_bytes": gpu.capacity,
        }
        for gpu in gpus
    ]


def _asked(amounts: Amounts | Counter[str]) -> dict[str, int]:
    return {"cpu_milli": amounts.get(CPU, 0), "memory_bytes": amounts.get(MEMORY, 0)}
