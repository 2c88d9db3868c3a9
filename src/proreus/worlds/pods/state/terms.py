"""Compiles pod affinity, anti-affinity and spread into term tables (called by `compile.py` alone)."""

from __future__ import annotations

from collections.abc import Sequence
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


class TermTable:
    """Collects distinct terms: a topology key and the set of classes it selects."""

    def __init__(self, specs: Sequence[PodSpec], keys: Sequence[str]) -> None:
        self._specs = specs
        self._keys = {key: i for i, key in enumerate(keys)}
        self._ids: dict[tuple[int, bytes], int] = {}
        self.key: list[int] = []
        self.selects: list[Bool] = []
        self._known: dict[tuple[Selector, tuple[str, ...]], Bool] = {}
        """Many classes ask for the same."""
        self._staying = np.array([not spec.terminating for spec in specs], dtype=np.bool_)
        # Selectors see labels and namespace only; few distinct pairs exist among many classes.
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        of = [groups.setdefault((s.namespace, s.labels), len(groups)) for s in specs]
        self._groups = [(namespace, dict(labels)) for namespace, labels in groups]
        self._group_of = np.array(of, dtype=np.int64)

    def _selected(self, selector: Selector, namespaces: tuple[str, ...]) -> Bool:
        """bool[C] classes that the selector picks within the namespaces."""
        known = self._known.get((selector, namespaces))
        if known is None:
            picked = [ns in namespaces and selector.matches(labels) for ns, labels in self._groups]
            known = self._known[selector, namespaces] = np.array(picked, dtype=np.bool_)[self._group_of]
        return known

    def of_pod_term(self, term: PodTerm, owner: PodSpec) -> Bool:
        """bool[C] classes selected by an affinity term of `owner`."""
        return self._selected(term.selector, term.namespaces or (owner.namespace,))

    def of_spread(self, selector: Selector, owner: PodSpec) -> Bool:
        """bool[C] classes that a spread constraint of `owner` counts; an empty selector counts none."""
        if not selector.requirements:
            return np.zeros(len(self._specs), dtype=np.bool_)
        return self._selected(selector, (owner.namespace,)) & self._staying

    def add(self, topology_key: str, selected: Bool) -> int:
        """The id of the term with this key and selection."""
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


class _Weighted(NamedTuple):
    """A term that adds to, or takes from, the score of a node."""

    term: int
    weight: int


class _Spread(NamedTuple):
    """A spread constraint."""

    term: int
    max_skew: int
    min_domains: int
    hard: bool
    system_default: bool
    honors_affinity: bool
    honors_taints: bool
    counts_itself: bool


class _ClassTerms(NamedTuple):
    """The terms of one class, by their ids."""

    need: list[int]
    self_sufficient: bool
    """The first pod of the class satisfies its own affinity."""
    avoid: list[int]
    like: list[_Weighted]
    draw: list[_Weighted]
    """What its placed pods add to the nodes around them."""
    spread: list[_Spread]


def compile_terms(specs: Sequence[PodSpec], table: TermTable) -> Terms:
    """The term columns of all classes."""
    classes = [_class_terms(c, spec, table) for c, spec in enumerate(specs)]
    selects = np.array(table.selects, dtype=np.bool_).reshape(len(table.key), len(specs))
    drawn = {each.term for one in classes for each in one.draw}
    avoided = {term for one in classes for term in one.avoid}
    need_start, need = ragged([one.need for one in classes])
    avoid_start, avoid = ragged([one.avoid for one in classes])
    like_start, like, like_weight = _weighted([one.like for one in classes])
    draw_start, draw, draw_weight = _weighted([one.draw for one in classes])
    feel_start, feel = ragged(_selecting(drawn, selects))
    shun_start, shun = ragged(_selecting(avoided, selects))
    spread_start, spread = ragged([[each.term for each in one.spread] for one in classes])
    constraints = [each for one in classes for each in one.spread]
    return Terms(
        key=np.array(table.key, dtype=np.int64),
        selects=selects,
        need_start=need_start,
        need=need,
        self_sufficient=np.array([one.self_sufficient for one in classes], dtype=np.bool_),
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


def _class_terms(c: int, spec: PodSpec, table: TermTable) -> _ClassTerms:
    """The terms of class `c`; those that are new go into the table."""

    def one(term: PodTerm) -> int:
        return table.add(term.topology_key, table.of_pod_term(term, spec))

    # A pod counts for required affinity only where all terms select it.
    wanted = [table.of_pod_term(term, spec) for term in spec.affinity.required]
    all_wanted = np.logical_and.reduce(wanted) if wanted else np.zeros(0, dtype=np.bool_)
    need = [table.add(term.topology_key, all_wanted) for term in spec.affinity.required]
    avoid = [one(term) for term in spec.anti_affinity.required]
    like = [
        _Weighted(one(term), sign * weight)
        for part, sign in ((spec.affinity, 1), (spec.anti_affinity, -1))
        for weight, term in part.preferred
    ]
    hard = [_Weighted(one(term), HARD_AFFINITY_WEIGHT) for term in spec.affinity.required]
    spread = [_spread_of(item, spec, table) for item in spec.spread]
    return _ClassTerms(need, bool(wanted) and bool(all_wanted[c]), avoid, like, like + hard, spread)


def _spread_of(item: SpreadConstraint, spec: PodSpec, table: TermTable) -> _Spread:
    return _Spread(
        term=table.add(item.topology_key, table.of_spread(item.selector, spec)),
        max_skew=item.max_skew,
        min_domains=item.min_domains,
        hard=item.hard,
        system_default=item.system_default,
        honors_affinity=item.honors_affinity,
        honors_taints=item.honors_taints,
        counts_itself=item.selector.matches(dict(spec.labels)),
    )


def _weighted(lists: Sequence[Sequence[_Weighted]]) -> tuple[I64, I64, I64]:
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
