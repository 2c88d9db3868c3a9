"""What was measured on a node at one moment, as its agent tells it and the API reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from proreus.engine.runtimes.protocol import GpuUse, NetworkUse, NodeUse, PodUse, Use

TOPIC = "use"
"""Of the notes in the store, one a node."""
NODE = ""
"""The node itself, among the trends of its pods."""
USED_CPU, USED_MEMORY = "proreus.io/used-cpu", "proreus.io/used-memory"
"""Annotations of a node's lease: what was used on the node as of its renewal, as quantities."""
CPU_DEVIATION = "proreus.io/used-cpu-deviation"
"""And how much the CPU varied over the last quarter of an hour: the standard deviation."""
_Told = tuple[
    tuple[int, int, int, int, int],
    NetworkUse,
    tuple[GpuUse, ...],
    list[tuple[str, str, int, int, int]],
    tuple[PodUse, ...],
    dict[str, tuple[tuple[int, ...], tuple[int, ...]]],
]
_KIB = 1024
_LEAST_CPU, _LEAST_BYTES = 10, 4 * 1024 * 1024
_LEAST_TRAFFIC = 64 * 1024
_CHANGE = 0.05
"""What is told anew: a difference of this share, and of at least so much."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Numbers of the past, the oldest first."""

    cpu: tuple[int, ...] = ()
    """Thousandths of a core."""
    memory: tuple[int, ...] = ()
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Measures:
    """A node, its containers, and what pods use beside them."""

    node: NodeUse
    containers: tuple[Use, ...] = ()
    pods: tuple[PodUse, ...] = ()
    trends: Mapping[str, Trend] = field(default_factory=dict)
    """The last quarter of an hour by the minute, as of the last minute or so: of pods by uid, of the node
    itself by `NODE`."""


class Trends(Protocol):
    """Who remembers what was used; the door asks this."""

    def node_trend(self, name: str, *, day: bool = False) -> Trend:
        """Of a node that it knows: every 10 s of the last quarter of an hour, or (day) every minute."""
        ...

    def pod_trend(self, uid: str, *, day: bool = False) -> Trend:
        """The same of a pod; empty where it is not known."""
        ...


def encode(measures: Measures) -> bytes:
    """Compact: lists without names."""
    node = measures.node
    return msgspec.msgpack.encode(
        (
            (node.cpu, node.memory, node.disk, node.read, node.written),
            node.traffic,
            node.gpus,
            [
                (container.uid, container.container, container.cpu, container.memory, container.disk)
                for container in measures.containers
            ],
            measures.pods,
            {
                who: (trend.cpu, [amount // _KIB for amount in trend.memory])
                for who, trend in measures.trends.items()
            },
        )
    )


def decode(note: bytes) -> Measures:
    """What was encoded; raises `msgspec.DecodeError` where it was not."""
    document = msgspec.msgpack.decode(note, type=_Told)
    (cpu, memory, disk, read, written), traffic, gpus, containers, pods, past = document
    node = NodeUse(cpu, memory, disk, read, written, traffic, gpus)
    trends = {who: Trend(used, tuple(amount * _KIB for amount in kib)) for who, (used, kib) in past.items()}
    return Measures(node, tuple(Use(*container) for container in containers), pods, trends)


def is_news(before: Measures, now: Measures) -> bool:
    """Whether others should be told: what hardly changed is not worth a write."""
    if len(before.containers) != len(now.containers) or before.node.gpus != now.node.gpus:
        return True
    old, new = before.node, now.node
    if _far(old.cpu, new.cpu, _LEAST_CPU) or _far(old.memory, new.memory, _LEAST_BYTES):
        return True
    if _moved_beside(before.pods, now.pods) or _far(old.disk, new.disk, _LEAST_BYTES):
        return True
    return _moved(before.containers, now.containers)


def _moved(before: Sequence[Use], now: Sequence[Use]) -> bool:
    for old, new in zip(before, now, strict=True):
        if (old.uid, old.container) != (new.uid, new.container):
            return True
        if _far(old.cpu, new.cpu, _LEAST_CPU) or _far(old.memory, new.memory, _LEAST_BYTES):
            return True
        if _far(old.disk, new.disk, _LEAST_BYTES):
            return True
    return False


def _moved_beside(before: Sequence[PodUse], now: Sequence[PodUse]) -> bool:
    """A pod's traffic is never the same twice: what it hardly changed by is no news."""
    if [replace(pod_use, traffic=None) for pod_use in before] != [
        replace(pod_use, traffic=None) for pod_use in now
    ]:
        return True
    for old, new in zip(before, now, strict=True):
        if (old.traffic is None) != (new.traffic is None):
            return True
        if old.traffic is not None and new.traffic is not None:
            if _far(old.traffic.received, new.traffic.received, _LEAST_TRAFFIC):
                return True
            if _far(old.traffic.sent, new.traffic.sent, _LEAST_TRAFFIC):
                return True
    return False


def _far(before: int, now: int, least: int) -> bool:
    return abs(now - before) > max(least, _CHANGE * before)
