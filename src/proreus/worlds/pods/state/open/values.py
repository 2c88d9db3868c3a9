"""What an open cluster takes and gives as objects."""

from __future__ import annotations

from dataclasses import dataclass, field

from proreus.model.node import Node
from proreus.model.pod import Pod
from proreus.model.resources import Resources
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.state.demand import ResourceDemand


@dataclass(frozen=True)
class Placed:
    """A pod that runs."""

    pod: Pod
    node: str
    devices: int
    since: float


@dataclass(frozen=True)
class Unlisted:
    """What is in use on a node without being a listed pod, as a sum: nothing can evict it."""

    used: Resources = field(default_factory=Resources)
    gpu_used: tuple[int, ...] = ()
    """Milli-GPU, per device."""


@dataclass(frozen=True)
class MeasuredLoad:
    """What was measured on a node, whoever used it."""

    mean: float
    """CPU in thousandths of a core."""
    variance: float = 0.0
    """Over the last while, in the square of that."""
    before: float = 0.0
    """Pods that run since then, on the clock of `since`, were measured; the others come on top."""


@dataclass(frozen=True)
class ClusterSnapshot:
    """What is there, as objects."""

    nodes: tuple[Node, ...]
    """In order."""
    unlisted: tuple[Unlisted, ...]
    """Of each node."""
    running: tuple[Placed, ...]
    """In the order in which they were bound."""
    waiting: tuple[Pod, ...]
    budgets: tuple[DisruptionBudget, ...]
    demand: ResourceDemand
    """As it was renewed last."""


class OpenWorkload(Workload):
    """What is there now; each part was checked as it came, so that nothing has to be checked as a whole."""

    def __post_init__(self) -> None:
        """Nothing to check."""
