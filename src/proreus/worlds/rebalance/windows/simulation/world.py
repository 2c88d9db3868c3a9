"""`WindowsWorld`: pods that are moved between windows, one move at a time, then the window is served."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.kernels.structs import pack
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.rebalance.windows.model import RequestWindows
from proreus.worlds.rebalance.windows.simulation import columns as c
from proreus.worlds.rebalance.windows.simulation.columns import RequestStream, WindowsColumns
from proreus.worlds.rebalance.windows.simulation.kernel import begin_run, close_window, fill_demand, migrate
from proreus.worlds.rebalance.windows.state import (
    FORECASTS,
    PROPORTIONAL,
    SMALLEST_FIRST,
    Hosting,
    may_move,
    moves_mask,
    share,
)

Service = Literal["serial", "parallel"]
Sharing = Literal["proportional", "smallest_first"]
_SHARING = {"proportional": PROPORTIONAL, "smallest_first": SMALLEST_FIRST}


@dataclass(frozen=True)
class RewardWeights:
    """What a window costs; the defaults are those of VMAgent's DeployEnv."""

    over: float = 0.6
    """Per step of a node over the threshold."""
    under: float = 0.4
    """Per step of a node that is nearly idle."""
    unmet: float = 1.0
    """Per pod and resource with less than asked."""
    migrated: float = 0.01
    """Per percent of a node's CPU, and of its memory, that a moved pod asks for."""


@dataclass(frozen=True)
class WindowsOptions:
    """How pods serve requests, share nodes and move."""

    service: Service = "serial"
    """Whether a pod serves its requests one after the other, or in groups that add up."""
    group: int = 4
    """Requests of a pod that come at a time where they add up."""
    threshold: float = 0.8
    """Share of a node's CPU or memory above which it is too full."""
    low: float = 0.2
    """Share under which both leave it nearly idle."""
    sharing: Sharing = "proportional"
    """How pods of a node share it: CPU in proportion, or the smallest request first."""
    budget: int = 5
    """Migrations a window."""
    max_pods: int = 100
    """Pods a node."""
    weights: RewardWeights = field(default_factory=RewardWeights)

    def __post_init__(self) -> None:
        if self.service not in ("serial", "parallel"):
            raise UsageError(f"service: {self.service!r} is neither serial nor parallel")
        if self.sharing not in _SHARING:
            raise UsageError(f"sharing: {self.sharing!r} is neither proportional nor smallest_first")
        if self.group < 1 or self.max_pods < 1:
            raise UsageError("group and max_pods are at least 1")
        if self.budget < 0:
            raise UsageError(f"budget: {self.budget} is negative")
        if not 0 < self.threshold <= 1 or not 0 <= self.low <= self.threshold:
            raise UsageError(
                f"threshold: {self.threshold:g} is not a share of a node above the low level of {self.low:g}"
            )


def compile_stream(windows: RequestWindows, options: WindowsOptions) -> RequestStream:
    """The requests as columns."""
    deployment = windows.deployment
    counts = np.bincount(deployment.where, minlength=len(deployment.node_names))
    if counts.max() > options.max_pods:
        raise UsageError(f"max_pods: {options.max_pods}, and a node has {counts.max()} pods at the start")
    demand = np.zeros((windows.windows, len(deployment.pod_names), 2))
    standing = np.ascontiguousarray(deployment.standing, dtype=np.float64)
    first, amount = windows.first.astype(np.int64), np.ascontiguousarray(windows.amount, dtype=np.float64)
    fill_demand(first, amount, standing, options.service == "parallel", demand)
    total = np.concatenate([np.zeros((1, *demand.shape[1:])), np.cumsum(demand, axis=0)])
    where = deployment.where.astype(np.int64)
    return pack(RequestStream(first, amount, standing, where, demand, total))


def new_run(windows: RequestWindows, options: WindowsOptions) -> WindowsColumns:
    """The arrays of a run; `begin_run` sets them to a start."""
    nodes, pods = len(windows.deployment.node_names), len(windows.deployment.pod_names)
    parallel = options.service == "parallel"
    weights = options.weights
    levels = [options.low, weights.over, weights.under, weights.unmet, weights.migrated]
    option = [options.group if parallel else 1, int(parallel), _SHARING[options.sharing]]
    assert len(levels) == c.LEVELS and len(option) == c.OPTIONS
    hosting = Hosting(
        capacity=np.ascontiguousarray(windows.deployment.capacity, dtype=np.float64),
        where=np.zeros(pods, dtype=np.int64),
        pods=np.zeros(nodes, dtype=np.int64),
        forecast=np.zeros((len(FORECASTS), pods, 2)),
        load=np.zeros((len(FORECASTS), nodes, 2)),
        moved=np.zeros(pods, dtype=np.bool_),
        tally=np.array([options.budget, options.budget, options.max_pods, int(parallel)], dtype=np.int64),
        threshold=np.array([options.threshold]),
    )
    return pack(
        WindowsColumns(
            hosting=hosting,
            clock=np.zeros(2, dtype=np.int64),
            option=np.array(option, dtype=np.int64),
            level=np.array(levels),
            outcome=np.zeros(c.OUTCOMES),
            held=np.zeros((pods, 2)),
            assigned=np.zeros((pods, 2)),
            order=np.zeros(pods, dtype=np.int64),
            members=np.zeros(pods, dtype=np.int64),
        )
    )


class WindowsWorld:
    """Between two windows: any number of moves within the budget, then `stop` serves the next window."""

    def __init__(
        self,
        windows: RequestWindows,
        options: WindowsOptions | None = None,
        stream: RequestStream | None = None,
    ) -> None:
        """`stream`: the requests as columns, where another world has them already."""
        self.windows = windows
        self.options = options or WindowsOptions()
        self.stream = stream or compile_stream(windows, self.options)
        self.run = new_run(windows, self.options)
        self.begin(0, windows.windows)

    def sibling(self) -> WindowsWorld:
        """Another run over the same requests, which shares nothing that changes."""
        return WindowsWorld(self.windows, self.options, self.stream)

    @property
    def hosting(self) -> Hosting:
        """Where pods stand, and what they will probably ask for."""
        return self.run.hosting

    @property
    def window(self) -> int:
        """The window that is next."""
        return int(self.run.clock[c.NOW])

    @property
    def over(self) -> bool:
        """Whether every window of the run is served."""
        return self.window >= int(self.run.clock[c.END])

    def begin(self, first: int, last: int) -> None:
        """A run over windows [first, last), every pod where it stood at the start."""
        if not 0 <= first < last <= self.windows.windows:
            raise UsageError(f"there are no windows {first} to {last} among {self.windows.windows}")
        self.run.clock[c.END] = last
        begin_run(self.stream, self.run, first)

    def mask(self) -> Bool:
        """bool[pods * nodes + 1]: legal moves as pod * nodes + node; the last entry is to stop."""
        return moves_mask(self.hosting)

    def move(self, pod: int, node: int) -> float:
        """Move a pod; minus what it costs."""
        pods, nodes = self.hosting.where.size, self.hosting.pods.size
        inside = 0 <= pod < pods and 0 <= node < nodes
        if self.over or not inside or not may_move(self.hosting, pod, node):
            raise IllegalDecision(f"pod {pod} may not move to node {node} now")
        return float(migrate(self.run, pod, node))

    def stop(self) -> float:
        """Serve the requests of the next window; minus what they suffered."""
        if self.over:
            raise IllegalDecision("the run is over: there is no further window")
        return float(close_window(self.stream, self.run))

    def outcome(self) -> F64:
        """[OUTCOMES] of the last window."""
        return self.run.outcome.copy()

    def asked(self) -> F64:
        """[pods, 2] what pods asked for in the last window; at rest before the first."""
        if self.window == 0:
            return self.stream.standing.copy()
        return self.stream.demand[self.window - 1].copy()

    def assigned(self) -> F64:
        """[pods, 2] what they would get of it where they stand now."""
        return shared_out(self.asked(), self.hosting.where, self.hosting.capacity, self.options.sharing)


def shared_out(asked: F64, where: np.typing.NDArray[np.int64], capacity: F64, sharing: Sharing) -> F64:
    """[pods, 2] what every pod gets of its node."""
    assigned = np.zeros_like(asked)
    for node in range(capacity.shape[0]):
        here = np.flatnonzero(where == node)
        given = np.zeros((here.size, 2))
        room = np.zeros(here.size, dtype=np.int64)
        share(np.ascontiguousarray(asked[here]), capacity[node], _SHARING[sharing], given, room)
        assigned[here] = given
    return assigned
