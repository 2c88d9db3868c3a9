"""A plan carried out, one eviction after the other, with an eye on what becomes of it.

Before every write the kill switch is asked. A pod that is not where the plan saw it, or is another of the
same name, is left alone. A disruption budget that says no is asked again for a while, then the pod stays.
Where more pods wait for a node than before and none is found for them in time, the rest of the plan is
dropped and the nodes that were closed for it are opened again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.rebalance.plan import Move, Plan, Standing, gain, standing
from proreus.kubeclient.errors import ApiError, Conflict, NotFound, TooManyRequests

MARK = "proreus.io/rebalanced"
"""On a node that was closed by a plan: since when."""
_log = logging.getLogger(__name__)


class Writer(Protocol):
    """What is written to the cluster; an ApiError where that fails."""

    def evict(self, namespace: str, name: str, uid: str) -> None:
        """Ask that this pod leaves."""
        ...

    def cordon(self, node: str, since: str | None) -> None:
        """Close a node, or (None) open it again."""
        ...


@dataclass(frozen=True)
class ExecutionOptions:
    """How fast, and how patient."""

    per_minute: float = 6.0
    """Evictions."""
    budget_seconds: float = 120.0
    """How long a disruption budget is asked again."""
    settle_seconds: float = 120.0
    """How long the pod that is made again may wait for a node, before everything is stopped."""


@dataclass
class Execution:
    """What came of a plan."""

    plan: Plan
    evicted: list[Move] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    cordoned: list[str] = field(default_factory=list)
    stopped: str = ""
    """Why not all of it was carried out."""
    measured: Standing | None = None

    @property
    def gain(self) -> float:
        """As measured afterwards, in the unit of the plan's."""
        return 0.0 if self.measured is None else gain(self.plan.goal, self.plan.before, self.measured)


class Executor:
    """Carries a plan out."""

    def __init__(
        self,
        view: ClusterView,
        writer: Writer,
        options: ExecutionOptions,
        stopped: Callable[[], str],
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """stopped: why nothing may be written, "": it may; wait: for so many seconds, True: told to end."""
        self._view, self._writer, self._options = view, writer, options
        self._stopped, self._wait, self._clock = stopped, wait, clock

    def run(self, plan: Plan, piece: int, tell: Callable[[str], None] = lambda _: None) -> Execution:
        """To the end, or until something says stop."""
        made = Execution(plan)
        try:
            self._carry_out(made, tell)
        except _Stop as stop:
            made.stopped = str(stop)
            self._open_again(made)
        except ApiError as error:
            made.stopped = f"the API server refuses: {error}"
            self._open_again(made)
        with self._view.lock:
            made.measured = standing(self._view, piece)
        return made

    def _carry_out(self, made: Execution, tell: Callable[[str], None]) -> None:
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for node in made.plan.cordon:
            self._check()
            self._writer.cordon(node, since)
            made.cordoned.append(node)
        patience = self._options.settle_seconds
        for number, move in enumerate(made.plan.moves):
            if number and self._wait(60.0 / self._options.per_minute):
                raise _Stop("told to end")
            tell(f"evicting {move.pod} ({number + 1} of {len(made.plan.moves)})")
            why = self._evict(move)
            if why:
                made.skipped[why] += 1
                continue
            made.evicted.append(move)
            self._settle(move, made.plan.before.waiting, patience)

    def _evict(self, move: Move) -> str:
        """Why it was not; "": it was."""
        until = self._clock() + self._options.budget_seconds
        namespace, _, name = move.pod.partition("/")
        while True:
            self._check()
            with self._view.lock:
                known = self._view.known.get(move.pod)
                there = known is not None and known.ref.uid == move.uid and known.node == move.source
            if not there:
                return "it was not there any more"
            try:
                self._writer.evict(namespace, name, move.uid)
            except TooManyRequests:
                if self._clock() >= until:
                    return "a disruption budget said no"
                if self._wait(min(5.0, self._options.budget_seconds / 4)):
                    raise _Stop("told to end") from None
            except (NotFound, Conflict):
                return "it was not there any more"
            else:
                return ""

    def _settle(self, move: Move, waiting: int, seconds: float) -> None:
        """Until the pod has left and no more pods wait than before."""
        until = self._clock() + seconds
        while True:
            self._check()
            with self._view.lock:
                known = self._view.known.get(move.pod)
                left = known is None or known.ref.uid != move.uid
                now = sum(not one.node for one in self._view.known.values())
            if left and now <= waiting:
                return
            if self._clock() >= until:
                what = f"{now} pods wait for a node, {waiting} did before" if left else "it has not left"
                raise _Stop(f"{move.pod}: {what} after {seconds:g} s")
            if self._wait(min(0.5, seconds / 10)):
                raise _Stop("told to end")

    def _check(self) -> None:
        if why := self._stopped():
            raise _Stop(why)

    def _open_again(self, made: Execution) -> None:
        """Nodes that did not become empty take pods again; also where the switch says stop, for that is
        what was there before."""
        with self._view.lock:
            holding = {known.node for known in self._view.known.values()}
        for node in [name for name in made.cordoned if name in holding]:
            try:
                self._writer.cordon(node, None)
                made.cordoned.remove(node)
            except ApiError as error:
                _log.error("node %s stays closed: %s", node, error)


class _Stop(Exception):
    """Not one write more."""
