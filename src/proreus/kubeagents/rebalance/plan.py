"""Which evictions are worth it, by a search over a copy of the cluster. No I/O, no clock.

An eviction does not say where the pod goes: its owner makes another, and the cluster's scheduler places that.
So a plan is played here as the cluster will play it: the pod is taken off, the policy that places pods in
this cluster (`kube` for kube-scheduler) is asked, and what it decides is what is expected. A plan is kept
only where that gains. The search tries many orders, by lot from a seed, and keeps the best.

- `empty`: nodes become empty, so that they can be taken away. All pods of a node go, or none.
- `pieces`: less free CPU lies around in pieces that are too small; the moves are proposed by the annealing
  search of the world `rebalance`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.judge.prices import price_of
from proreus.kubeagents.rebalance.fragments import fragment_share, proposed_moves
from proreus.kubeagents.rebalance.movable import MovableOptions, is_daemon, why_not
from proreus.model.decision import Place
from proreus.model.resources import COL_CPU
from proreus.worlds.pods.policies.explanation import PodPolicy

Goal = Literal["empty", "pieces"]
Object = dict[str, Any]


@dataclass(frozen=True)
class PlanOptions:
    """What is looked for."""

    goal: Goal = "empty"
    most: int = 20
    """Evictions."""
    tries: int = 16
    """Orders that are tried."""
    piece: int = 4000
    """pieces: thousandths of cores of a whole piece."""
    movable: MovableOptions = field(default_factory=MovableOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.most < 1 or self.tries < 1 or self.piece < 1:
            raise ValueError("a plan has at least one eviction, one try and a piece of some size")


@dataclass(frozen=True)
class Move:
    """One eviction and what is expected of it."""

    pod: str
    """namespace/name"""
    uid: str
    source: str
    target: str
    """Where the policy would put the pod that is made again."""


@dataclass(frozen=True)
class Standing:
    """What a cluster comes to at one moment."""

    cost: float
    """Dollars an hour of the nodes that hold pods which are not DaemonSets'."""
    nodes: int
    """So many hold pods."""
    fragments: float
    """Share of the free CPU that belongs to no whole piece."""
    waiting: int


@dataclass(frozen=True)
class Plan:
    """What to do, and what is expected to come of it."""

    goal: Goal
    moves: tuple[Move, ...]
    cordon: tuple[str, ...]
    """Nodes that get no new pods from then on: those that become empty."""
    before: Standing
    expected: Standing
    left_alone: dict[str, int]
    """Pods that may not be evicted, by the reason."""

    @property
    def gain(self) -> float:
        """In dollars an hour, or in points of the share of fragments."""
        return gain(self.goal, self.before, self.expected)


def gain(goal: Goal, before: Standing, after: Standing) -> float:
    """How much better it is than it was."""
    if goal == "empty":
        return before.cost - after.cost
    return 100.0 * (before.fragments - after.fragments)


def standing(view: ClusterView, piece: int) -> Standing:
    """As it is now."""
    cluster = view.cluster
    holding = [name for name in cluster.node_names() if _real_pods(view, name)]
    waiting = sum(not known.node for known in view.known.values())
    cost = sum(price_of(cluster.node(name)) for name in holding)
    return Standing(cost, len(holding), fragment_share(view, piece), waiting)


def make_plan(
    view: ClusterView, policy: PodPolicy, options: PlanOptions, tell: Callable[[str], None] = lambda _: None
) -> Plan:
    """The best plan that the search finds; the view is as it was afterwards."""
    with view.lock:
        return _Planner(view, policy, options, tell).best()


class _Planner:
    """The search."""

    def __init__(
        self, view: ClusterView, policy: PodPolicy, options: PlanOptions, tell: Callable[[str], None]
    ) -> None:
        self.view, self.policy, self.options, self.tell = view, policy, options, tell
        self._moves: list[Move] = []
        self._cordoned: list[str] = []
        self._left_alone: dict[str, int] = {}
        self._movable: dict[str, bool] = {}
        for key, known in view.known.items():
            if not known.node or is_daemon(known.object):
                continue
            why = known.trouble or why_not(known.object, options.movable) or self._budget(key)
            self._movable[key] = not why
            if why:
                self._left_alone[why] = self._left_alone.get(why, 0) + 1

    def best(self) -> Plan:
        before = standing(self.view, self.options.piece)
        found = Plan(self.options.goal, (), (), before, before, self._left_alone)
        for number in range(self.options.tries):
            self.tell(f"order {number + 1} of {self.options.tries}: {len(found.moves)} moves so far")
            draw = random.Random(self.options.seed * 1_000_003 + number)
            self._try(draw, first=number == 0)
            after = standing(self.view, self.options.piece)
            plan = Plan(
                self.options.goal,
                tuple(self._moves),
                tuple(self._cordoned),
                before,
                after,
                self._left_alone,
            )
            self._undo(0, 0)
            better = (plan.gain, -len(plan.moves)) > (found.gain, -len(found.moves))
            if plan.moves and plan.gain > 1e-9 and better:
                found = plan
        return found

    def _try(self, draw: random.Random, *, first: bool) -> None:
        if self.options.goal == "pieces":
            self._cut_pieces(draw)
            return
        order = self._order(draw, first=first)
        # Some are closed before anybody moves, so that nobody moves onto one that is to be emptied next.
        most = self._room(order)
        together = order[: most if first else draw.randint(0, most)]
        for node in together:
            self.view.cordon(node, closed=True)
        for node in order:
            pods = _real_pods(self.view, node)
            moved = {move.pod for move in self._moves}  # nobody is evicted twice
            fits = len(self._moves) + len(pods) <= self.options.most and not moved.intersection(pods)
            if not (fits and self._empty(node, pods)) and node in together:
                self.view.cordon(node, closed=False)

    def _room(self, order: Sequence[str]) -> int:
        """How many of the first of these could be empty at once, by what the others have free."""
        cluster = self.view.cluster
        holding = [name for name in cluster.node_names() if _real_pods(self.view, name)]
        open_nodes = [name for name in holding if not cluster.node(name).unschedulable]
        _, state = cluster.columns()
        free = {name: state.free[cluster.node_at(name), COL_CPU] for name in open_nodes}
        left, taken = sum(int(amount) for amount in free.values()), 0
        for count, name in enumerate(order):
            taken += sum(
                self.view.known[key].template.spec.requests.cpu for key in _real_pods(self.view, name)
            )
            left -= int(free[name])
            if taken > left:
                return count
        return max(0, len(order) - 1)

    def _order(self, draw: random.Random, *, first: bool) -> list[str]:
        """Nodes that could become empty, dear ones with few pods first; but for the first try, by lot."""
        weights = {}
        for name in self.view.cluster.node_names():
            pods, node = _real_pods(self.view, name), self.view.cluster.node(name)
            if pods and not node.unschedulable and all(self._movable[key] for key in pods):
                chance = 1.0 if first else draw.uniform(0.3, 1.0)
                weights[name] = chance * price_of(node) / len(pods)
        return sorted(weights, key=lambda name: (-weights[name], name))

    def _empty(self, node: str, pods: Sequence[str]) -> bool:
        """All of its pods elsewhere, on nodes that hold pods anyway; else none. Whether that could be."""
        moves, cordoned = len(self._moves), len(self._cordoned)
        self.view.cordon(node, closed=True)
        self._cordoned.append(node)
        sizes = {key: self.view.known[key].template.spec.requests for key in pods}
        for key in sorted(pods, key=lambda key: (-sizes[key].cpu, -sizes[key].memory, key)):
            target = self._evict(key)
            # A node that was empty would cost as much as this one saves.
            if not target or len(_real_pods(self.view, target)) == 1:
                self._undo(moves, cordoned)
                return False
        return True

    def _cut_pieces(self, draw: random.Random) -> None:
        """Those evictions of the annealed plan that gain where the policy would put the pods."""
        movable = [key for key, may in self._movable.items() if may]
        now = fragment_share(self.view, self.options.piece)
        for key in proposed_moves(self.view, movable, self.options, draw.randrange(1 << 30)):
            moves = len(self._moves)
            target = self._evict(key)
            after = fragment_share(self.view, self.options.piece)
            if not target or after >= now:
                self._undo(moves, len(self._cordoned))
            else:
                now = after

    def _evict(self, key: str) -> str:
        """Take a pod off and let the policy place it; where, "": nowhere, and then it is where it was."""
        known = self.view.known[key]
        source = self.view.take_off(key)
        observation = self.view.observe(known.object)
        decision = self.policy.decide(observation)
        if not isinstance(decision, Place):
            self.view.put_on(key, source)
            return ""
        target = observation.compiled.workload.nodes[decision.node].name
        self.view.put_on(key, target)
        if target == source:
            return ""
        self._moves.append(Move(key, known.ref.uid, source, target))
        return target

    def _undo(self, moves: int, cordoned: int) -> None:
        for move in reversed(self._moves[moves:]):
            self.view.take_off(move.pod)
            self.view.put_on(move.pod, move.source)
        for node in reversed(self._cordoned[cordoned:]):
            self.view.cordon(node, closed=False)
        del self._moves[moves:], self._cordoned[cordoned:]

    def _budget(self, key: str) -> str:
        """Whether a disruption budget allows nothing just now, as the API server counts it."""
        return "a disruption budget allows none" if key in self.view.protected() else ""


def _real_pods(view: ClusterView, node: str) -> list[str]:
    """The pods of a node that are not there whatever a scheduler does."""
    return [key for key in view.cluster.pods_on(node) if not is_daemon(view.known[key].object)]


def told(plan: Plan) -> Iterator[str]:
    """The plan in lines for a person."""
    before, after = plan.before, plan.expected
    if not plan.moves:
        yield "nothing to gain: no plan that the policy would carry out is better than what is there"
    for move in plan.moves:
        yield f"evict {move.pod} from {move.source}: expected on {move.target}"
    for node in plan.cordon:
        yield f"cordon {node}: it becomes empty"
    if plan.goal == "empty":
        yield (
            f"expected: {before.nodes} nodes with pods become {after.nodes}, "
            f"${before.cost:,.2f} an hour become ${after.cost:,.2f} ({plan.gain:,.2f} less)"
        )
    else:
        yield (
            f"expected: {100 * before.fragments:.1f} % of the free CPU in fragments become "
            f"{100 * after.fragments:.1f} %"
        )
    for why, count in sorted(plan.left_alone.items()):
        yield f"left alone: {count} pods, {why}"
