"""What a cluster saw of its pods and nodes, moment by moment: the engine records it, a world replays it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proreus.model.node import Node
from proreus.model.pod import PodSpec

End = Literal["", "succeeded", "failed", "deleted", "preempted", "evicted", "unseen"]
"""How a pod ended; "": it had not. "unseen": it was gone when somebody looked again."""


@dataclass(frozen=True, slots=True)
class PodUsed:
    """What a pod really used, as far as it was measured."""

    cpu: float
    """Thousandths of a core, on average."""
    cpu_deviation: float
    """The standard deviation of that over time."""
    memory: int
    """Bytes at most."""


@dataclass(frozen=True, slots=True)
class PodTrace:
    """One pod's life. Moments are seconds since 1970; None: it did not come to that while it was seen."""

    uid: str
    name: str
    """With its namespace."""
    spec: PodSpec
    created: float
    scheduler: str = ""
    owner: str = ""
    """Kind and name of whoever manages it; "": nobody."""
    bound: float | None = None
    node: str = ""
    policy: str = ""
    """That gave it the node, and was asked."""
    fallback: str = ""
    """Why the kube rules decided in its place; "": they did not."""
    running: float | None = None
    ended: float | None = None
    end: End = ""
    used: PodUsed | None = None
    """None: nobody measured it."""


@dataclass(frozen=True, slots=True)
class NodeTrace:
    """A node from a moment on."""

    name: str
    at: float
    node: Node | None
    """None: it left."""


@dataclass(frozen=True)
class ClusterTrace:
    """Pods by their creation, nodes by the moments at which they changed."""

    pods: tuple[PodTrace, ...]
    nodes: tuple[NodeTrace, ...]
    end: float
    """The last moment that is known of."""
    unread: int = 0
    """Parts of the trace that are damaged, and pods whose wishes could not be understood."""
