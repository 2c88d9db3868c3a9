"""Compiles pod affinity, anti-affinity and spread into term tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import I64, Bool
from proreus.model.node import Node
from proreus.model.pod import PodSpec, PodTerm, SpreadConstraint
from proreus.model.selectors import Selector
from proreus.worlds.pods.state.columns import Terms

HARD_AFFINITY_WEIGHT = 1
"""kube-scheduler's hardPodAffinityWeight: what a required term of a placed pod adds to a node's score."""


def ragged(lists: Sequence[Sequence[int]]) -> tuple[I64, I64]:
    """(offsets, flat) of a list of lists."""
    start = np.cumsum([0] + [len(entries) for entries in lists])
    flat = np.array([entry for entries in lists for entry in entries], dtype=np.int64)
    return start.astype(np.int64), flat


@dataclass(frozen=True)
class PodSelection:
    """The pods that every part picks by labels within namespaces; without parts none."""

    parts: tuple[tuple[Selector, tuple[str, ...]], ...]
    staying: bool = False
    """Pods on their way out do not count."""

    def picks(self, group: SelectorGroup) -> bool:
        """Whether pods of the group are selected."""
        return bool(self.parts) and all(
            group.namespace in namespaces and selector.matches(group.label_map())
            for selector, namespaces in self.parts
        )


class SelectorGroup(NamedTuple):
    """All that a selector sees of a pod; few distinct ones exist among many classes."""

    namespace: str
    labels: tuple[tuple[str, str], ...]

    def label_map(self) -> dict[str, str]:
        return dict(self.labels)


def group_of(spec: PodSpec) -> SelectorGroup:
    """What a selector sees of the pods of a class."""
    return SelectorGroup(spec.namespace, spec.labels)


class TermTable:
    """Collects distinct terms: a topology key and the set of classes it selects."""

    def __init__(self, specs: Sequence[PodSpec], keys: Sequence[str]) -> None:
        self._keys = {key: i for i, key in enumerate(keys)}
        self._ids: dict[tuple[int, bytes], int] = {}
        self.key: list[int] = []
        self.selects: list[Bool] = []
        self._known: dict[PodSelection, Bool] = {}
        """Many classes ask for the same."""
        self._staying = np.array([not spec.terminating for spec in specs], dtype=np.bool_)
        groups: dict[SelectorGroup, int] = {}
        of = [groups.setdefault(group_of(spec), len(groups)) for spec in specs]
        self._groups = list(groups)
        self._group_of = np.array(of, dtype=np.int64)

    def _selected(self, selection: PodSelection) -> Bool:
        """bool[C] classes that are selected."""
        known = self._known.get(selection)
        if known is None:
            picked = [selection.picks(group) for group in self._groups]
            known = np.array(picked, dtype=np.bool_)[self._group_of]
            self._known[selection] = known = known & self._staying if selection.staying else known
        return known

    def add(self, topology_key: str, selection: PodSelection) -> int:
        """The id of the term with this key and selection."""
        selected = self._selected(selection)
        identity = (self._keys[topology_key], selected.tobytes())
        if identity not in self._ids:
            self._ids[identity] = len(self.key)
            self.key.append(identity[0])
            self.selects.append(selected)
        return self._ids[identity]


def topology_keys(specs: Sequence[PodSpec]) -> list[str]:
    """Every topology key that some spec mentions, sorted."""
    keys: set[str] = set()
    for spec in specs:
        for part in (spec.affinity, spec.anti_affinity):
            keys |= {term.topology_key for term in part.required}
            keys |= {term.topology_key for _, term in part.preferred}
        keys |= {constraint.topology_key for constraint in spec.spread}
    return sorted(keys)


class Weighted(NamedTuple):
    """A term that adds to, or takes from, the score of a node."""

    term: int
    weight: int


class Spread(NamedTuple):
    term: int
    max_skew: int
    min_domains: int
    hard: bool
    system_default: bool
    honors_affinity: bool
    honors_taints: bool
    counts_itself: bool


class ClassTerms(NamedTuple):
    """The terms of one class, by their ids."""

    need: list[int]
    self_sufficient: bool
    """The first pod of the class satisfies its own affinity."""
    avoid: list[int]
    like: list[Weighted]
    draw: list[Weighted]
    """What its placed pods add to the nodes around them."""
    spread: list[Spread]


def compile_terms(specs: Sequence[PodSpec], table: TermTable) -> Terms:
    """The term columns of all classes."""
    classes = [class_terms(spec, table.add) for spec in specs]
    selects = np.array(table.selects, dtype=np.bool_).reshape(len(table.key), len(specs))
    drawn = {each.term for pod_class in classes for each in pod_class.draw}
    avoided = {term for pod_class in classes for term in pod_class.avoid}
    need_start, need = ragged([pod_class.need for pod_class in classes])
    avoid_start, avoid = ragged([pod_class.avoid for pod_class in classes])
    like_start, like, like_weight = _weighted([pod_class.like for pod_class in classes])
    draw_start, draw, draw_weight = _weighted([pod_class.draw for pod_class in classes])
    feel_start, feel = ragged(_selecting(drawn, selects))
    shun_start, shun = ragged(_selecting(avoided, selects))
    spread_start, spread = ragged([[each.term for each in pod_class.spread] for pod_class in classes])
    constraints = [each for pod_class in classes for each in pod_class.spread]
    return Terms(
        key=np.array(table.key, dtype=np.int64),
        selects=selects,
        need_start=need_start,
        need=need,
        self_sufficient=np.array([pod_class.self_sufficient for pod_class in classes], dtype=np.bool_),
        avoid_start=avoid_start,
        avoid=avoid,
        like_start=like_start,
        like=like,
        like_weight=like_weight,
        draw_start=draw_start,
        draw=draw,
        draw_weight=draw_weight,
        feel_start=feel_start,
        feel=feel,
        shun_start=shun_start,
        shun=shun,
        spread_start=spread_start,
        spread=spread,
        spread_skew=np.array([each.max_skew for each in constraints], dtype=np.int64),
        spread_min_domains=np.array([each.min_domains for each in constraints], dtype=np.int64),
        spread_hard=np.array([each.hard for each in constraints], dtype=np.bool_),
        spread_default=np.array([each.system_default for each in constraints], dtype=np.bool_),
        spread_affinity=np.array([each.honors_affinity for each in constraints], dtype=np.bool_),
        spread_taints=np.array([each.honors_taints for each in constraints], dtype=np.bool_),
        spread_self=np.array([each.counts_itself for each in constraints], dtype=np.bool_),
    )


def class_terms(spec: PodSpec, add: Callable[[str, PodSelection], int]) -> ClassTerms:
    """The terms of a class; `add` numbers them by topology key and selection."""

    def selection(*terms: PodTerm) -> PodSelection:
        return PodSelection(tuple((term.selector, term.namespaces or (spec.namespace,)) for term in terms))

    def numbered(term: PodTerm) -> int:
        return add(term.topology_key, selection(term))

    # A pod counts for required affinity only where all terms select it.
    wanted = selection(*spec.affinity.required)
    need = [add(term.topology_key, wanted) for term in spec.affinity.required]
    avoid = [numbered(term) for term in spec.anti_affinity.required]
    like = [
        Weighted(numbered(term), sign * weight)
        for part, sign in ((spec.affinity, 1), (spec.anti_affinity, -1))
        for weight, term in part.preferred
    ]
    hard = [Weighted(numbered(term), HARD_AFFINITY_WEIGHT) for term in spec.affinity.required]
    spread = [_spread_of(item, spec, add) for item in spec.spread]
    return ClassTerms(need, wanted.picks(group_of(spec)), avoid, like, like + hard, spread)


def _spread_of(item: SpreadConstraint, spec: PodSpec, add: Callable[[str, PodSelection], int]) -> Spread:
    # An empty selector counts no pod.
    parts = ((item.selector, (spec.namespace,)),) if item.selector.requirements else ()
    return Spread(
        term=add(item.topology_key, PodSelection(parts, staying=True)),
        max_skew=item.max_skew,
        min_domains=item.min_domains,
        hard=item.hard,
        system_default=item.system_default,
        honors_affinity=item.honors_affinity,
        honors_taints=item.honors_taints,
        counts_itself=item.selector.matches(dict(spec.labels)),
    )


def _weighted(lists: Sequence[Sequence[Weighted]]) -> tuple[I64, I64, I64]:
    """(offsets, terms, weights) of the lists of all classes."""
    start, terms = ragged([[each.term for each in entries] for entries in lists])
    return start, terms, np.array([each.weight for entries in lists for each in entries], dtype=np.int64)


def _selecting(terms: set[int], selects: Bool) -> list[list[int]]:
    """For every class those of the terms that select it."""
    some = np.array(sorted(terms), dtype=np.int64)
    selected = np.ascontiguousarray(selects[some].T)
    return [some[row].tolist() for row in selected]


def compile_domains(nodes: Sequence[Node], keys: Sequence[str]) -> tuple[I64, I64]:
    """(domain int64[K, N], number of domains int64[K]); domains are numbered in order of appearance."""
    domain = np.full((len(keys), len(nodes)), -1, dtype=np.int64)
    sizes = np.zeros(len(keys), dtype=np.int64)
    labels = [node.label_map() for node in nodes]
    for k, key in enumerate(keys):
        seen: dict[str, int] = {}
        for n, own in enumerate(labels):
            value = own.get(key)
            if value is not None:
                domain[k, n] = seen.setdefault(value, len(seen))
        sizes[k] = len(seen)
    return domain, sizes
