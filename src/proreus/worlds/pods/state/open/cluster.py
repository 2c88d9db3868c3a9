"""A cluster that lives: nodes, pods and budgets come and go in place, and any policy can be asked any time.

The columns, the kernels and the answers are those of `compile_workload` over what is there:

- Nodes stand in the order in which they came. An update keeps a node's place; one that left and comes again
  is the last. `visit_order` takes one node of each zone in turn, zones in the order of their oldest node.
- Pods that preemption weighs against each other differ by priority, then `since`, then the order in which
  they were bound.
- The demand (typical pods, and the figures of the whole that learned policies read) is renewed when somebody
  asks and at least as many pods came or went since the last renewal as were counted then; it is taken from
  all pods there are, those that wait included. `renew_demand` does so at once.

Caches. A policy is bound to a `State`. This one hands out the same `State` until a cache over it would be of
the wrong size or all of it wrong: columns grew, nodes came or went or changed their size, budgets came or
went, the demand was renewed. Then there is another, with the same `counts` array, by which a policy knows
that it is still the same cluster. In between, a cache by class and node row

- reads the ring `state.changed` as ever; a change that concerns all nodes makes `state.counts[0]` jump by
  more than the ring holds, which every reader takes for "start over";
- may compare `cluster.classes.epoch[c]`, which goes up when class row c is given to another spec. Who does
  not compare is safe too: the counter jumps before, and also when entries of `terms.spread` move, as above.

No clock, no I/O, one thread at a time. An observation holds until the next call that changes something, or
the next question; a decision over it must have ended by then, for dry runs of preemption write to the state.
"""

from __future__ import annotations

import math
from collections.abc import KeysView
from typing import cast

import numpy as np

from proreus.kernels.structs import pack
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, Pod, PodSpec
from proreus.model.resources import BASE_COLUMNS, Resources
from proreus.model.workload import DisruptionBudget
from proreus.worlds.pods.state.columns import Budgets, Cluster, Scratch, State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.demand import demand_of
from proreus.worlds.pods.state.devices import devices_held
from proreus.worlds.pods.state.fragmentation import typical_demand
from proreus.worlds.pods.state.ids import Ids
from proreus.worlds.pods.state.objects import amounts, bound, protects
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.capacity import Room, live
from proreus.worlds.pods.state.open.classes import ClassRows
from proreus.worlds.pods.state.open.kernels import (
    NOWHERE,
    admit,
    count_budget,
    count_term,
    dismiss,
    lift,
    lower,
    refill_fragments,
    weigh,
)
from proreus.worlds.pods.state.open.nodes import NodeRows
from proreus.worlds.pods.state.open.shapes import ShapeRows
from proreus.worlds.pods.state.open.terms import TermRows
from proreus.worlds.pods.state.open.values import (
    ClusterSnapshot,
    MeasuredLoad,
    OpenWorkload,
    Placed,
    Unlisted,
)
from proreus.worlds.pods.state.placement import place

_QUESTION = 0
"""The pod row for a pod that is only asked about."""
_ABSENT = Pod("", PodSpec(Resources()))


class OpenCluster:
    """Columns of a cluster that are kept up to date; see the module.

    most_idle: so many classes without pods, or half of all, are kept before the longest unused give way.
    """

    def __init__(self, name: str = "live", most_idle: int = 64) -> None:
        self._name = name
        self._room = Room()
        self._nodes = NodeRows(self._room)
        self._shapes = ShapeRows(self._room, self._nodes)
        self._terms = TermRows(self._room, self._nodes)
        self._terms.count, self._terms.moved = self._count_term, self._start_over
        self._classes = ClassRows(self._nodes, self._shapes, self._terms, self._room, most_idle)
        self._classes.protect, self._classes.reused = self._protect, self._start_over
        self._unlisted: dict[str, Unlisted] = {}
        self._measured: dict[str, MeasuredLoad] = {}
        self._unweighed: dict[str, None] = {}
        """Nodes whose load is not yet what was measured."""
        self._pods: list[Pod] = [_ABSENT] * self._room.sizes["P"]
        self._pod_row: dict[str, int] = {}
        self._free_pods = list(range(_QUESTION + 1, len(self._pods)))[::-1]
        self._budgets: dict[tuple[str, str], DisruptionBudget] = {}
        self._budget_rows: Ids[tuple[str, str]] = Ids()
        self._demand = demand_of(())
        self._turnover = 0
        self._asked = -1
        self._reordered = True
        self._bind()

    # Nodes.

    def node_names(self) -> KeysView[str]:
        """The nodes that are there."""
        return self._nodes.row.keys()

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self._nodes.nodes[self._node_row(name)]

    def add_node(self, node: Node) -> None:
        """A node joins, after those that are there."""
        if node.name in self._nodes.row:
            raise InputError("is there already", field=f"node {node.name}")
        n = self._nodes.add(node)
        self._clear_node(n)
        self._shapes.fill_node(n)
        self._nodes_changed()

    def update_node(self, node: Node) -> None:
        """The node of that name is now like this; its place in the order and its pods stay."""
        n = self._node_row(node.name)
        before = self._nodes.nodes[n]
        if node == before:
            return
        self._lift(n)
        self._nodes.replace(n, node)
        self._shapes.fill_node(n)
        sizes = (before.allocatable, before.gpu_count, before.gpu_model, before.pace)
        if sizes != (node.allocatable, node.gpu_count, node.gpu_model, node.pace):
            self._stale = True  # figures of the whole are relative to the largest node
        if node.images != before.images:
            self._shapes.images_changed()
        if node.images != before.images or node.labels != before.labels:
            self._reordered = True
            self._start_over()
        self._lower(n)

    def remove_node(self, name: str) -> None:
        """A node leaves; its pods must have left before."""
        n = self._node_row(name)
        if self._room.state.first[n] >= 0:
            raise InputError("pods are still on it", field=f"node {name}")
        self._unlisted.pop(name, None)
        self._measured.pop(name, None)
        self._unweighed.pop(name, None)
        self._nodes.remove(n)
        self._nodes_changed()

    def set_unlisted(self, name: str, unlisted: Unlisted) -> None:
        """What is in use on a node besides the pods that are listed, in place of what was told before."""
        n = self._node_row(name)
        if self._unlisted.get(name, Unlisted()) == unlisted:
            return
        count = self._nodes.nodes[n].gpu_count
        if len(unlisted.gpu_used) > count:
            raise InputError(f"lists {len(unlisted.gpu_used)} GPUs, the node has {count}", field=name)
        self._nodes.add_extended([extended for extended, _ in unlisted.used.extended])
        self._lift(n)
        self._unlisted[name] = unlisted
        self._lower(n)

    def set_load(self, name: str, measured: MeasuredLoad | None) -> None:
        """What was measured on a node, instead of what its pods are expected to use; None: that, again."""
        self._node_row(name)
        if self._measured.get(name) == measured:
            return
        if measured is None:
            del self._measured[name]
        else:
            self._measured[name] = measured
        self._unweighed[name] = None

    def resource_names(self) -> KeysView[str]:
        """The extended resources that any node or pod has named so far; each has a column, and keeps it."""
        return self._nodes.extended.keys()

    # Pods.

    def pod_names(self) -> KeysView[str]:
        """The pods that are there, running or waiting."""
        return self._pod_row.keys()

    def pod(self, name: str) -> Pod:
        """The pod of that name."""
        return self._pods[self._pod_at(name)]

    def place_of(self, name: str) -> str | None:
        """The node that a pod runs on; None while it waits."""
        n = int(self._room.state.pod_node[self._pod_at(name)])
        return None if n == NOWHERE else self._nodes.nodes[n].name

    def pods_on(self, node: str) -> list[str]:
        """The pods that run on a node, the last that came first."""
        state, names = self._room.state, []
        p = int(state.first[self._node_row(node)])
        while p >= 0:
            names.append(self._pods[p].name)
            p = int(state.following[p])
        return names

    def add_pod(self, pod: Pod, node: str | None = None, devices: int = 0, since: float = 0.0) -> None:
        """A pod comes: it waits, or runs on `node` since then.

        devices: a bit mask of GPUs; 0 takes the tightest that fit. since: on any clock; of equals, preemption
        spares those that run longest.
        """
        if pod.name in self._pod_row:
            raise InputError("is there already", field=f"pod {pod.name}")
        n = NOWHERE if node is None else self._node_row(node)
        held = 0 if n == NOWHERE else self._held(pod, n, devices)
        c = self._classes.row(pod.spec)
        p = self._free_pods.pop() if self._free_pods else self._more_pods()
        self._classes.join(c)
        self._room.pod_class[p] = c
        self._pods[p], self._pod_row[pod.name] = pod, p
        self._turnover += 1
        if self._stale or self._room.grown:
            self._bind()
        admit(self._cluster, self._state, p, n, held, float(since))

    def bind_pod(self, name: str, node: str, devices: int = 0, since: float = 0.0) -> None:
        """A pod that waits runs on `node` from now on; the other arguments as for `add_pod`."""
        p, n = self._pod_at(name), self._node_row(node)
        if self._room.state.pod_node[p] != NOWHERE:
            raise InputError("runs already", field=f"pod {name}")
        held = self._held(self._pods[p], n, devices)
        if self._stale or self._room.grown:
            self._bind()
        place(self._cluster, self._state, p, n, held, float(since))

    def remove_pod(self, name: str) -> None:
        """A pod goes, running or waiting."""
        p = self._pod_at(name)
        if self._stale or self._room.grown:
            self._bind()
        self._weigh()  # what was measured was measured with this pod
        c = dismiss(self._cluster, self._state, self._room.own.base_load, p)
        del self._pod_row[name]
        self._pods[p] = _ABSENT
        self._free_pods.append(p)
        self._classes.leave(c)
        self._turnover += 1

    # Budgets.

    def budget_names(self) -> KeysView[tuple[str, str]]:
        """The budgets that are there: namespace and name."""
        return self._budgets.keys()

    def add_budget(self, budget: DisruptionBudget) -> None:
        """A disruption budget from now on."""
        key = (budget.namespace, budget.name)
        if key in self._budgets:
            raise InputError("is there already", field=f"budget {budget.name}")
        self._budgets[key] = budget
        b, _ = self._budget_rows.take(key)
        self._room.ensure(B=b + 1)
        columns = self._room.budgets
        columns.min_available[b] = bound(budget.min_available)
        columns.max_unavailable[b] = bound(budget.max_unavailable)
        columns.allowed[b] = bound(budget.allowed)
        columns.selects[b] = [protects(budget, spec) for spec in self._classes.specs]
        self._bind()
        count_budget(self._cluster, self._state, b, _QUESTION + 1)

    def remove_budget(self, name: str, namespace: str = "default") -> None:
        """That budget is no more."""
        key = (namespace, name)
        if key not in self._budgets:
            raise InputError("is not there", field=f"budget {name}")
        del self._budgets[key]
        b, _ = self._budget_rows.drop(key)
        self._room.clear(Budgets, "B", b)
        self._room.clear(State, "B", b)
        self._stale = True

    # Questions.

    def observe(self, pod: Pod | str, waiting: int = 0, now: float = 0.0) -> PodObservation:
        """The moment of a decision about a pod that waits, by its name, or about one that is not kept."""
        if not len(self._nodes):
            raise InputError("the cluster has no node")
        if isinstance(pod, str):
            p = self._pod_at(pod)
            if self._room.state.pod_node[p] != NOWHERE:
                raise InputError("runs already", field=f"pod {pod}")
            c = int(self._room.pod_class[p])
        else:
            p, c = _QUESTION, self._classes.row(pod.spec)
            self._room.pod_class[p], self._pods[p] = c, pod
        self._classes.ask(c, self._asked)
        self._asked = c
        self._shapes.refresh_images(int(self._room.classes.shape[c]))
        self._terms.list_felt()
        if self._reordered:
            self._room.nodes.visit_order[: len(self._nodes)] = self._nodes.visit_order()
            self._shapes.stale_order, self._reordered = True, False
        self._shapes.list_named()
        if self._turnover and self._turnover >= self._demand.pods:
            self.renew_demand()
        if self._stale or self._room.grown:
            self._bind()
        self._weigh()
        return PodObservation(self._compiled, self._state, self._scratch, p, now, waiting)

    def columns(self) -> tuple[Cluster, State]:
        """The columns as they are, to read until the next call that changes something."""
        self._terms.list_felt()
        if self._stale or self._room.grown:
            self._bind()
        self._weigh()
        return self._cluster, self._state

    def rows_of(self, pod: str) -> tuple[int, int]:
        """The class of a pod, which pods of equal specs share, and the row of its node (-1: it waits)."""
        p = self._pod_at(pod)
        return int(self._room.pod_class[p]), int(self._room.state.pod_node[p])

    def devices_of(self, pod: str) -> int:
        """The GPUs that a pod holds, as a bit mask."""
        return int(self._room.state.pod_devices[self._pod_at(pod)])

    def node_at(self, name: str) -> int:
        """The row of a node; another after nodes came or went."""
        return self._node_row(name)

    def renew_demand(self) -> None:
        """Take the demand from the pods that are there now."""
        counted = zip(self._classes.specs, self._classes.pods, strict=True)
        self._demand, self._turnover, self._stale = demand_of(counted), 0, True

    def snapshot(self) -> ClusterSnapshot:
        """What is there, as objects."""
        state, nodes = self._room.state, self._nodes.nodes
        rows = list(self._pod_row.values())
        running = sorted((p for p in rows if state.pod_node[p] >= 0), key=lambda p: int(state.pod_rank[p]))
        return ClusterSnapshot(
            nodes=tuple(nodes),
            unlisted=tuple(self._unlisted.get(node.name, Unlisted()) for node in nodes),
            running=tuple(
                Placed(
                    self._pods[p],
                    nodes[state.pod_node[p]].name,
                    int(state.pod_devices[p]),
                    float(state.pod_since[p]),
                )
                for p in running
            ),
            waiting=tuple(self._pods[p] for p in rows if state.pod_node[p] < 0),
            budgets=tuple(self._budgets.values()),
            demand=self._demand,
        )

    def bytes(self) -> int:
        """What the columns take, spare rows included."""
        return self._room.bytes()

    # Below the face.

    def _node_row(self, name: str) -> int:
        n = self._nodes.row.get(name)
        if n is None:
            raise InputError("is not there", field=f"node {name}")
        return n

    def _pod_at(self, name: str) -> int:
        p = self._pod_row.get(name)
        if p is None:
            raise InputError("is not there", field=f"pod {name}")
        return p

    def _held(self, pod: Pod, n: int, devices: int) -> int:
        gpu = pod.spec.gpu
        if not gpu.count:
            return 0
        left = self._room.state.gpu_left[n, : self._nodes.nodes[n].gpu_count]
        held = devices_held(left, gpu.count, gpu.milli, devices)
        if held is None:
            raise InputError(
                f"pod {pod.name!r} holds {gpu.count} x {gpu.milli} of {GPU_WHOLE} GPU parts, "
                "which its devices do not have",
                field=self._nodes.nodes[n].name,
            )
        return held

    def _more_pods(self) -> int:
        before = len(self._pods)
        self._room.ensure(P=before + 1)
        more = self._room.sizes["P"] - before
        self._pods += [_ABSENT] * more
        self._free_pods = list(range(before, before + more))[::-1]
        return self._free_pods.pop()

    def _nodes_changed(self) -> None:
        self._shapes.images_changed()
        self._reordered = self._stale = True

    def _start_over(self) -> None:
        """Every cache that reads the ring falls too far behind and starts over."""
        state = self._room.state
        state.counts[0] += len(state.changed) + 1

    def _lift(self, n: int) -> None:
        """Take the pods of node n out of all sums, before what they are sums over changes."""
        if self._stale or self._room.grown:
            self._bind()
        lift(self._cluster, self._state, n)

    def _lower(self, n: int) -> None:
        """Put them back."""
        self._clear_node(n)
        if self._stale or self._room.grown:
            self._bind()
        lower(self._cluster, self._state, n)

    def _clear_node(self, n: int) -> None:
        """The sums of node n when no listed pod is on it."""
        node, state = self._nodes.nodes[n], self._room.state
        unlisted = self._unlisted.get(node.name, Unlisted())
        used = unlisted.used
        state.free[n] = self._room.nodes.allocatable[n]
        taken = amounts([used], self._nodes.extended)[0]
        state.free[n, : len(taken)] -= taken
        state.gpu_left[n] = 0
        state.gpu_left[n, : node.gpu_count] = GPU_WHOLE
        for device, milli in enumerate(unlisted.gpu_used[: node.gpu_count]):
            state.gpu_left[n, device] -= milli
        state.scored[n] = (used.cpu, used.memory)
        state.load[n] = self._room.own.base_load[n] = (used.cpu, 0.0)
        state.kinds[n], state.fragment[n] = 0, 0.0
        if node.name in self._measured:
            self._unweighed[node.name] = None

    def _weigh(self) -> None:
        """Loads as they were measured, when somebody asks: what was told in between is past."""
        waiting, self._unweighed = self._unweighed, {}
        for name in waiting:
            load = self._measured.get(name)
            if load is None:
                load = MeasuredLoad(float(self._unlisted.get(name, Unlisted()).used.cpu), before=-math.inf)
            of_node = (float(load.mean), float(load.variance))
            base, n = self._room.own.base_load, self._node_row(name)
            weigh(self._cluster, self._state, base, n, of_node, float(load.before))

    def _count_term(self, t: int) -> None:
        if self._pod_row:
            if self._stale or self._room.grown:
                self._bind()
            count_term(self._cluster, self._state, t)

    def _protect(self, c: int, spec: PodSpec) -> None:
        for key, b in self._budget_rows.items():
            self._room.budgets.selects[b, c] = protects(self._budgets[key], spec)

    def _bind(self) -> None:
        """Handles over the columns as they are now: another `State`, which policies bind to anew."""
        room, nodes = self._room, self._nodes
        self._cluster: Cluster = pack(
            Cluster(
                nodes=live(room.nodes, len(nodes)),
                classes=room.classes,
                shapes=room.shapes,
                terms=room.terms,
                ports=room.ports,
                budgets=room.budgets,
                typical=typical_demand(self._demand, nodes.models),
                pod_class=room.pod_class,
            )
        )
        self._state: State = pack(live(room.state, len(nodes)))
        # As wide as domains are many: whoever keeps figures per domain has them as wide.
        widest = max(int(room.nodes.domains.max()), 1)
        counted = np.zeros((room.sizes["H"], widest), dtype=np.int64)
        self._scratch: Scratch = pack(room.scratch._replace(spread_count=counted))
        refill_fragments(self._cluster, self._state)
        self._compiled = Compiled(
            # Lists that live on stand where a closed workload has tuples: nobody who only reads can tell.
            workload=OpenWorkload(
                self._name,
                tuple(nodes.nodes),
                cast("tuple[Pod, ...]", self._pods),
                tuple(self._budgets.values()),
            ),
            cluster=self._cluster,
            columns=(*BASE_COLUMNS, *nodes.extended),
            models=tuple(nodes.models),
            specs=cast("tuple[PodSpec, ...]", self._classes.specs),
            demand=self._demand,
        )
        self._stale = room.grown = False
