"""The Python face of a rule: binds it to a cluster, decides, explains."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.rng import seeded
from proreus.kernels.structs import pack
from proreus.model.decision import Decision, Place, from_action
from proreus.model.pod import GPU_WHOLE
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, cluster_scale, demand_context, pod_kind
from proreus.worlds.pods.policies.explanation import explained
from proreus.worlds.pods.policies.rules import columns as cols
from proreus.worlds.pods.policies.rules.choose import (
    choose,
    choose_scored,
    feasible_target,
    fill_scores,
    find_feasible,
)
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.kube_scores import fill_factors, score_nodes, total_scores
from proreus.worlds.pods.policies.rules.memory import new_memory
from proreus.worlds.pods.policies.rules.scores import node_score
from proreus.worlds.pods.state.columns import State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.legality import has_relations
from proreus.worlds.pods.state.observation import PodObservation

# Above this many cells, or when classes hardly repeat, a cache costs more than it saves.
_CACHE_CELLS = 32_000_000
_CACHE_REPEATS = 4
_CACHE_BYTES = 8 * _CACHE_CELLS  # what kube may remember
_NO_CELLS = 1  # too little for cells: enough to remember which classes fit nowhere


class PairWeights(Protocol):
    """Learned weights of the pair features, per kind of pod."""

    def weights_for(self, compiled: Compiled) -> F64:
        """The weights for one cluster and the demand on it, [pod kinds, features]."""
        ...

    def gaps_for(self, compiled: Compiled) -> F64:
        """What a shared device with so much left is worth there, [LEVELS]; [0] where all are alike."""
        ...

    def note(self, compiled: Compiled) -> str:
        """What there is to say of them, for explanations; "": nothing."""
        ...


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """Learned weights of the pair features, per kind of pod, shifted by the demand on the cluster."""

    weights: F64
    """[pod kinds, features]"""
    by_demand: F64
    """[demand figures, pod kinds, features]: added per unit by which the demand differs from `usual`."""
    usual: F64
    """[demand figures]: see `encoding.pair.demand_context`."""
    gaps: F64 = field(default_factory=lambda: np.zeros(0))
    """[LEVELS]: what a shared device with so much left is worth, in the unit of scores; [0]: all are alike.

    Which gaps something fits into later hangs on the shares that pods ask for: no weighted sum of the
    features of a pair says it."""

    def weights_for(self, compiled: Compiled) -> F64:
        """The weights for one workload, [pod kinds, features]."""
        shift = demand_context(compiled) - self.usual
        return self.weights + np.tensordot(shift, self.by_demand, axes=1)

    def gaps_for(self, compiled: Compiled) -> F64:
        """The same for every workload."""
        return self.gaps

    def note(self, compiled: Compiled) -> str:
        """They are what they are."""
        return ""


@dataclass(frozen=True)
class RuleOptions:
    """What makes one rule differ from another; the catalogue fills it in."""

    name: str
    kind: int
    tie: int
    preempts: bool = True
    """Evict lower-priority pods, by kube's rules, when no node can take a pod."""
    seed: int = 0
    cache: bool = True
    """Keep scores per class and node and compute them again only where a node changed."""
    minor: int = 36
    """kube: the version 1.minor that is imitated."""
    strategy: int = 0
    """kube: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""
    percentage: int = 0
    """kube: percentageOfNodesToScore; 0 adapts to the cluster's size."""
    weights: tuple[int, ...] = (3, 2, 1, 2, 2, 1, 1, 0, 0, 0, 0)
    """kube: one weight per score plugin."""
    load: tuple[float, float, float] = (40.0, 1.0, 1.0)
    """kube_plus: target utilisation in %, margin and sensitivity of the Trimaran scores."""
    ratio_shape: tuple[tuple[float, float], ...] = ((0.0, 0.0), (100.0, 10.0))
    """kube: RequestedToCapacityRatio's points (utilisation %, score 0..10)."""
    linear: PairWeights | None = None
    """linear: the learned weights."""


@dataclass
class RulePolicy:
    """A rule as a policy. Its memory (cache, rotation, random state) is of the run that it saw last."""

    options: RuleOptions
    _bound: tuple[State, PodRule] | None = field(default=None, init=False, repr=False)
    _scored: tuple[I64, int] | None = field(default=None, init=False, repr=False)
    """The nodes that `decide_with_bids` told of last, and the number of changes that it saw."""

    @property
    def name(self) -> str:
        """The name in the catalogue."""
        return self.options.name

    def rule_for(self, compiled: Compiled, state: State) -> PodRule:
        """The rule with its memory of the run that `state` belongs to."""
        if self._bound is None or self._bound[0] is not state:
            rule = _bind(self.options, compiled)
            if self._bound is not None and self._bound[0].counts is state.counts:
                # The same cluster with other columns: the search and the lots go on where they were.
                rule.rng[:] = self._bound[1].rng
                rule.cursor[:] = self._bound[1].cursor % len(compiled.workload.nodes)
            self._bound, self._scored = (state, rule), None
        return self._bound[1]

    def fresh(self, seed: int) -> RulePolicy:
        """The same rule, for another run."""
        return RulePolicy(replace(self.options, seed=seed))

    def scores_computed(self) -> int:
        """How many node scores the latest run computed: shows what the cache saves."""
        return 0 if self._bound is None else int(self._bound[1].rescored[0])

    def decide(self, observation: PodObservation) -> Decision:
        """The rule's choice for the pod at hand."""
        rule = self.rule_for(observation.compiled, observation.state)
        action, devices = choose(
            observation.cluster, observation.state, observation.scratch, rule, observation.pod
        )
        decision = from_action(action, len(observation.compiled.workload.nodes))
        return Place(decision.node, devices) if isinstance(decision, Place) else decision

    def explain(self, observation: PodObservation) -> Explanation:
        """The rule's choice and, per node, the filter that refused it or its scores."""
        rule = self.rule_for(observation.compiled, observation.state)
        cursor, rng = rule.cursor.copy(), rule.rng.copy()
        scores = self._scores(observation, rule)
        rule.cursor[:], rule.rng[:] = cursor, rng
        decision = self.decide(observation)
        # Asking must not change what a later decision would be.
        rule.cursor[:], rule.rng[:] = cursor, rng
        return explained(self, observation, decision, scores, self._note(observation))

    def bids(self, observation: PodObservation) -> tuple[I64, F64]:
        """The nodes that the rule looks at, with their totals; none where all are alike to it."""
        cluster, state, c = observation.cluster, observation.state, observation.pod_class
        rule = self.rule_for(observation.compiled, state)
        if rule.kind == cols.FLAT:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        if rule.kind != cols.KUBE:
            scores = np.empty(len(observation.compiled.workload.nodes))
            fill_scores(cluster, state, observation.scratch, rule, (c, scores))
            nodes = np.flatnonzero(scores != -np.inf)
            return nodes, scores[nodes]
        cursor = int(rule.cursor[0])
        feasible = find_feasible(cluster, state, observation.scratch, rule, c)
        rule.cursor[0] = cursor
        nodes = observation.scratch.nodes[:feasible].copy()
        total_scores(cluster, state, rule, c, nodes, feasible)
        return nodes, rule.totals[:feasible].astype(np.float64)

    def decide_with_bids(self, observation: PodObservation) -> tuple[Decision, I64, F64]:
        """`bids` and `decide` in one: kube scores its nodes once, others keep their scores."""
        rule, c = self.rule_for(observation.compiled, observation.state), observation.pod_class
        if rule.kind != cols.KUBE:
            if rule.kind == cols.FLAT or not len(rule.cache) or has_relations(observation.cluster, c):
                nodes, scores = self.bids(observation)
                return self.decide(observation), nodes, scores
            decision = self.decide(observation)
            nodes = np.flatnonzero(rule.cache[c] != -np.inf)
            return decision, nodes, rule.cache[c, nodes]
        scratch, state = observation.scratch, observation.state
        action, devices, feasible = choose_scored(observation.cluster, state, scratch, rule, observation.pod)
        decision = from_action(action, len(observation.compiled.workload.nodes))
        nodes = scratch.nodes[:feasible].copy()
        self._scored = nodes, state.counts.item(0)
        if isinstance(decision, Place):
            decision = Place(decision.node, devices)
        return decision, nodes, rule.totals[:feasible].astype(np.float64)

    def factors(self, observation: PodObservation, looked_at: I64, of: I64) -> dict[str, F64]:
        """By plugin of kube-scheduler, by feature of learned weights, else the one score that a rule has.

        None at all where all nodes are alike to it.
        """
        cluster, state, c = observation.cluster, observation.state, observation.pod_class
        rule = self.rule_for(observation.compiled, state)
        if rule.kind == cols.FLAT:
            return {}
        if rule.kind == cols.KUBE:
            if (
                self._scored is not None
                and self._scored[0] is looked_at
                and self._scored[1] == state.counts.item(0)
            ):
                weighted = np.empty((len(cols.PLUGINS), len(of)))
                fill_factors(cluster, state, rule, (c, looked_at[of], of), weighted)
            else:
                score_nodes(cluster, state, rule, c, looked_at, len(looked_at))
                weighted = (rule.weights[:, None] * rule.parts[:, of]).astype(np.float64)
            return {name: weighted[p] for p, name in enumerate(cols.PLUGINS) if self.options.weights[p]}
        totals, features = np.empty(len(of)), np.empty((len(of), len(PAIR_FEATURES)))
        for at, n in enumerate(looked_at[of].tolist()):
            totals[at] = node_score(cluster, state, rule, c, n)
            features[at] = rule.features
        if rule.kind != cols.LINEAR:
            return {self.name: totals}
        parts = features * rule.linear[pod_kind(cluster, c)]
        named = {name.replace("_", " "): parts[:, f] for f, name in enumerate(PAIR_FEATURES)}
        return {**named, "gap left on the device": totals - parts.sum(axis=1)}

    def _scores(self, observation: PodObservation, rule: PodRule) -> dict[int, dict[str, float]]:
        """Node -> weighted scores, for the nodes the rule looks at."""
        cluster, state, c = observation.cluster, observation.state, observation.pod_class
        if rule.kind != cols.KUBE:
            allowed = np.flatnonzero(observation.refusals() == 0).tolist()
            return {n: {self.name: node_score(cluster, state, rule, c, n)} for n in allowed}
        feasible = find_feasible(cluster, state, observation.scratch, rule, c)
        nodes = observation.scratch.nodes[:feasible].copy()
        score_nodes(cluster, state, rule, c, nodes, feasible)
        return {
            n: {
                plugin: float(rule.weights[p] * rule.parts[p, i])
                for p, plugin in enumerate(cols.PLUGINS)
                if rule.weights[p] > 0
            }
            for i, n in enumerate(nodes.tolist())
        }

    def _note(self, observation: PodObservation) -> str:
        nodes = len(observation.compiled.workload.nodes)
        ties = {
            cols.RANDOM: "at random",
            cols.ROTATING: "to the next in rotation",
            cols.HEAP: "to the root of the scheduler's heap of scores",
        }.get(self.options.tie, "to the first in order")
        if self.options.kind != cols.KUBE:
            note = "" if self.options.linear is None else self.options.linear.note(observation.compiled)
            return f"{note} Equal scores go {ties}.".lstrip()
        wanted = feasible_target(nodes, self.options.percentage)
        sampling = f"The search stops at {wanted} feasible nodes of {nodes}. " if wanted < nodes else ""
        return f"{sampling}Kubernetes 1.{self.options.minor}: equal totals go {ties}."


def _bind(options: RuleOptions, compiled: Compiled) -> PodRule:
    cluster = compiled.cluster
    nodes, classes = len(compiled.workload.nodes), len(compiled.specs)
    repeats = len(compiled.workload.pods) >= _CACHE_REPEATS * classes
    cached = options.cache and options.kind != cols.KUBE and repeats and nodes * classes <= _CACHE_CELLS
    remembered = _CACHE_BYTES if repeats else _NO_CELLS
    largest = cluster.nodes.allocatable.max(axis=0)
    return pack(
        PodRule(
            kind=options.kind,
            tie=options.tie,
            preempts=options.preempts,
            minor=options.minor,
            strategy=options.strategy,
            percentage=options.percentage,
            weights=np.array(options.weights, dtype=np.int64),
            load_options=np.array(options.load, dtype=np.float64),
            ratio_shape=np.array(options.ratio_shape, dtype=np.float64),
            scale=np.array(
                [
                    max(largest[0], 1),
                    max(largest[1], 1),
                    int(cluster.nodes.gpu_count.max()) * GPU_WHOLE,
                ],
                dtype=np.float64,
            ),
            rng=seeded(options.seed),
            cursor=np.zeros(1, dtype=np.int64),
            cache=np.zeros((classes, nodes) if cached else (0, 0)),
            cache_seen=np.full(classes, -1, dtype=np.int64),
            stamp=np.zeros(nodes, dtype=np.int64),
            refreshes=np.zeros(1, dtype=np.int64),
            rescored=np.zeros(1, dtype=np.int64),
            memory=new_memory(cluster, remembered if options.cache and options.kind == cols.KUBE else 0),
            parts=np.zeros((len(cols.PLUGINS), nodes), dtype=np.int64),
            totals=np.zeros(nodes, dtype=np.int64),
            raw=np.zeros(nodes),
            in_domain=np.zeros(max(int(cluster.nodes.domains.max(initial=0)), 1), dtype=np.int64),
            linear=np.zeros((0, 0)) if options.linear is None else options.linear.weights_for(compiled),
            gaps=np.zeros(0) if options.linear is None else options.linear.gaps_for(compiled),
            encoding_scale=cluster_scale(compiled),
            features=np.zeros(len(PAIR_FEATURES)),
        )
    )
