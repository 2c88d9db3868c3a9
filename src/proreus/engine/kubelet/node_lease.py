"""Which process runs a node, as the node's lease says: two that ran the same one would run its pods twice.

Without I/O: a lease goes in, and what it is to be comes out. Of two that race, the store lets one pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from proreus.engine.kubelet.node_status import LEASE_SECONDS
from proreus.engine.objects.errors import Conflict
from proreus.engine.objects.metadata import Object, name_of
from proreus.engine.objects.timestamps import parse_timestamp

PROCESS = "proreus.io/process"
"""Annotation of the lease: who renews it. A process that is started again has the name of the last."""
RELEASED = "proreus.io/released"
"""Annotation of the lease: that process has ended of its own will."""
_MOST_AHEAD = 1.0
"""Seconds by which clocks may differ without a word."""


class NodeTaken(Conflict):
    """Another process runs the node."""

    ahead = False
    """Whether its last sign of life is dated in the future: how old it is cannot be told by that."""


def claimed(lease: Object, process: str, now: float, silent_since: str = "") -> Object:
    """The lease in this process' name; `NodeTaken` where another gave a sign of life not long ago.

    silent_since: the sign of life (see `sign_of_life`) after which none came, for so long that it is over.
    """
    annotations = _annotations(lease)
    holder = annotations.get(PROCESS, "")
    age = _age(lease, now)
    silent = age >= LEASE_SECONDS or (silent_since and sign_of_life(lease) == silent_since)
    if holder not in ("", process) and RELEASED not in annotations and not silent:
        raise _taken(name_of(lease), holder, age)
    kept = {name: text for name, text in annotations.items() if name != RELEASED}
    return _annotated(lease, {**kept, PROCESS: process})


def sign_of_life(lease: Object) -> str:
    """The last, as its writer dated it."""
    return str((lease.get("spec") or {}).get("renewTime") or "")


def _taken(node: str, holder: str, age: float) -> NodeTaken:
    message = f"another process ({holder}) runs the node {node}, and"
    if age < -_MOST_AHEAD:
        taken = NodeTaken(
            f"{message} dated its last sign of life {-age:.0f} s ahead of the clock of this machine"
        )
        taken.ahead = True
        return taken
    age = max(0.0, age)
    return NodeTaken(
        f"{message} gave a sign of life {age:.0f} s ago: end it, or wait {LEASE_SECONDS - age:.0f} s "
        "if it was killed"
    )


def released(lease: Object, process: str) -> Object | None:
    """The lease for whoever comes next; None where it is not ours."""
    annotations = _annotations(lease)
    if annotations.get(PROCESS) != process:
        return None
    return _annotated(lease, {**annotations, RELEASED: "true"})


def left_behind(leases: Iterable[Object], process: str, own: Iterable[str]) -> list[str]:
    """Nodes that this process ran before and runs no more."""
    names = (name_of(lease) for lease in leases if _annotations(lease).get(PROCESS) == process)
    return sorted(set(names).difference(own))


def _age(lease: Object, now: float) -> float:
    """Seconds since the last sign of life; a lease that tells none is as old as can be."""
    try:
        return now - parse_timestamp(lease["spec"]["renewTime"])
    except (KeyError, ValueError):
        return float(LEASE_SECONDS)


def _annotations(lease: Object) -> dict[str, str]:
    return dict(lease["metadata"].get("annotations") or {})


def _annotated(lease: Object, annotations: dict[str, str]) -> Object:
    return {**lease, "metadata": {**lease["metadata"], "annotations": annotations}}
