"""Compiles pod affinity, anti-affinity and spread into term tables (called by `compile.py` alone)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proreus.kernels.arrays import I64, Bool
from proreus.model.node import Node
from proreus.model.pod import PodSpec, PodTerm
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
        # Selectors see labels and namespace only; few distinct pairs exist among many classes.
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        of = [groups.setdefault((s.namespace, s.labels), len(groups)) for s in specs]
        self._groups = [(namespace, dict(labels)) for namespace, labels in groups]
        self._group_of = np.array(of, dtype=np.int64)

    def _selected(self, selector: Selector, namespaces: tuple[str, ...]) -> Bool:
        """bool[C] classes that the selector picks within the namespaces."""
        picked = [ns in namespaces and selector.matches(labels) for ns, labels in self._groups]
        return np.array(picked, dtype=np.bool_)[self._group_of]

    def of_pod_term(self, term: PodTerm, owner: PodSpec) -> Bool:
        """bool[C] classes selected by an affinity term of `owner`."""
        return self._selected(term.selector, term.namespaces or (owner.namespace,))

    def of_spread(self, selector: Selector, owner: PodSpec) -> Bool:
        """bool[C] classes counted by a spread constraint of `owner`; an empty selector counts none (kube)."""
        if not selector.requirements:
            return np.zeros(len(self._specs), dtype=np.bool_)
        return self._selected(selector, (owner.namespace,))

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


def compile_terms(specs: Sequence[PodSpec], table: TermTable) -> Terms:
    """The term columns of all classes."""
    need: list[list[int]] = []
    avoid: list[list[int]] = []
    like: list[list[tuple[int, int]]] = []
    draw: list[list[tuple[int, int]]] = []
    spread: list[list[tuple[int, int, int, bool, bool, bool]]] = []
    self_sufficient: list[bool] = []
    for c, spec in enumerate(specs):
        wanted = [table.of_pod_term(term, spec) for term in spec.affinity.required]
        all_wanted = np.logical_and.reduce(wanted) if wanted else np.zeros(len(specs), dtype=np.bool_)
        need.append([table.add(term.topology_key, all_wanted) for term in spec.affinity.required])
        self_sufficient.append(bool(wanted) and bool(all_wanted[c]))
        avoid.append(
            [table.add(t.topology_key, table.of_pod_term(t, spec)) for t in spec.anti_affinity.required]
        )
        liked = [
            (table.add(term.topology_key, table.of_pod_term(term, spec)), sign * weight)
            for part, sign in ((spec.affinity, 1), (spec.anti_affinity, -1))
            for weight, term in part.preferred
        ]
        like.append(liked)
        draw.append(
            liked
            + [
                (table.add(term.topology_key, selected), HARD_AFFINITY_WEIGHT)
                for term, selected in zip(spec.affinity.required, wanted, strict=True)
            ]
        )
        constraints = []
        for item in spec.spread:
            selected = table.of_spread(item.selector, spec)
            term = table.add(item.topology_key, selected)
            itself = item.selector.matches(dict(spec.labels))
            constraints.append(
                (term, item.max_skew, item.min_domains, item.hard, item.system_default, itself)
            )
        spread.append(constraints)

    selects = np.array(table.selects, dtype=np.bool_).reshape(len(table.key), len(specs))
    drawn = {term for entries in draw for term, _ in entries}
    avoided = {term for entries in avoid for term in entries}
    feel = [[t for t in sorted(drawn) if selects[t, c]] for c in range(len(specs))]
    shun = [[t for t in sorted(avoided) if selects[t, c]] for c in range(len(specs))]

    need_start, need_flat = ragged(need)
    avoid_start, avoid_flat = ragged(avoid)
    like_start, like_flat = ragged([[t for t, _ in entries] for entries in like])
    draw_start, draw_flat = ragged([[t for t, _ in entries] for entries in draw])
    feel_start, feel_flat = ragged(feel)
    shun_start, shun_flat = ragged(shun)
    spread_start, spread_flat = ragged([[entry[0] for entry in entries] for entries in spread])
    flat_spread = [entry for entries in spread for entry in entries]
    return Terms(
        key=np.array(table.key, dtype=np.int64),
        selects=selects,
        need_start=need_start,
        need=need_flat,
        self_sufficient=np.array(self_sufficient, dtype=np.bool_),
        avoid_start=avoid_start,
        avoid=avoid_flat,
        like_start=like_start,
        like=like_flat,
        like_weight=np.array([w for entries in like for _, w in entries], dtype=np.int64),
        draw_start=draw_start,
        draw=draw_flat,
        draw_weight=np.array([w for entries in draw for _, w in entries], dtype=np.int64),
        feel_start=feel_start,
        feel=feel_flat,
        shun_start=shun_start,
        shun=shun_flat,
        spread_start=spread_start,
        spread=spread_flat,
        spread_skew=np.array([entry[1] for entry in flat_spread], dtype=np.int64),
        spread_min_domains=np.array([entry[2] for entry in flat_spread], dtype=np.int64),
        spread_hard=np.array([entry[3] for entry in flat_spread], dtype=np.bool_),
        spread_default=np.array([entry[4] for entry in flat_spread], dtype=np.bool_),
        spread_self=np.array([entry[5] for entry in flat_spread], dtype=np.bool_),
    )


def compile_domains(nodes: Sequence[Node], keys: Sequence[str]) -> tuple[I64, I64]:
    """(domain int64[K, N], number of domains int64[K]); domains are numbered in order of appearance."""
    domain = np.full((len(keys), len(nodes)), -1, dtype=np.int64)
    sizes = np.zeros(len(keys), dtype=np.int64)
    for k, key in enumerate(keys):
        seen: dict[str, int] = {}
        for n, node in enumerate(nodes):
            value = node.label_map().get(key)
            if value is not None:
                domain[k, n] = seen.setdefault(value, len(seen))
        sizes[k] = len(seen)
    return domain, sizes
