"""What nodes tell of their load with their signs of life, as far as it can be believed. No clock, no I/O.

A load is believed when it was told while somebody listened, and as long as its node is heard of: what is
found on beginning may be long past, and a node that fell silent is not known to do what it last did.
"""

from __future__ import annotations

from collections.abc import Iterator

from proreus.engine.kubelet.node_status import LEASE_SECONDS
from proreus.engine.runtimes.stats import CPU_DEVIATION, USED_CPU
from proreus.engine.scheduler.instructions import Object
from proreus.model.resources import parse_quantity
from proreus.worlds.pods.state.open.values import MeasuredLoad

SILENT_SECONDS = float(LEASE_SECONDS)
"""Without a sign of life for so long, a load is forgotten."""
UNMEASURED_SECONDS = 20.0
"""What a pod uses that was bound less than this ago is hardly in the measure yet: it is expected on top."""


class Loads:
    """By node, when its lease was renewed and heard of."""

    def __init__(self) -> None:
        self._renewed: dict[str, str] = {}
        self._heard: dict[str, float] = {}
        """The longest silent first."""

    def told(self, lease: Object, now: float) -> MeasuredLoad | None:
        """The load that a lease brings; None where it brings none, or no new one."""
        name, renewed = lease["metadata"]["name"], str((lease.get("spec") or {}).get("renewTime") or "")
        before = self._renewed.get(name)
        self._renewed[name] = renewed
        if before is None or before == renewed:
            return None
        load = read_load(lease, now - UNMEASURED_SECONDS)
        if load is not None:
            self._heard.pop(name, None)
            self._heard[name] = now
        return load

    def forget(self, name: str) -> None:
        """The node's lease is gone."""
        self._renewed.pop(name, None)
        self._heard.pop(name, None)

    def silent(self, now: float) -> Iterator[str]:
        """Nodes whose load is not to be believed any more, each once."""
        while self._heard:
            name, heard = next(iter(self._heard.items()))
            if now - heard <= SILENT_SECONDS:
                return
            del self._heard[name]
            yield name


def read_load(lease: Object, before: float) -> MeasuredLoad | None:
    """What the lease's annotations tell; None where that cannot be read: anybody may write them."""
    annotations = lease["metadata"].get("annotations") or {}
    if USED_CPU not in annotations:
        return None
    try:
        mean = parse_quantity(annotations[USED_CPU], scale=1000)
        deviation = parse_quantity(annotations.get(CPU_DEVIATION, "0"), scale=1000)
    except ValueError:
        return None
    return MeasuredLoad(float(mean), float(deviation) ** 2, before)
