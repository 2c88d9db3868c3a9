"""The term rows of an open cluster: which pods affinity, anti-affinity and spread constraints look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from proreus.kernels.arrays import Bool
from proreus.model.pod import PodSpec
from proreus.worlds.pods.state.columns import State, Terms
from proreus.worlds.pods.state.ids import Ids
from proreus.worlds.pods.state.open.capacity import (
    AVOID,
    DRAW,
    FEEL,
    LIKE,
    NEED,
    SHUN,
    SPREAD,
    RaggedLists,
    Room,
)
from proreus.worlds.pods.state.open.nodes import NodeRows
from proreus.worlds.pods.state.terms import ClassTerms, PodSelection, SelectorGroup, class_terms, group_of

Term: TypeAlias = tuple[str, PodSelection]
"""Topology key, and whom it selects."""
_LISTS = (NEED, AVOID, LIKE, DRAW, SPREAD)


class TermRows:
    """Which term has which row, and which class uses which."""

    def __init__(self, room: Room, nodes: NodeRows) -> None:
        self._room, self._nodes = room, nodes
        self.count: Callable[[int], None] = lambda t: None
        """Told of every term that gets a row, so that running pods can be counted."""
        self.moved: Callable[[], None] = lambda: None
        """Told when spread constraints of other classes got other places: caches may go by these."""
        self._ids: Ids[Term] = Ids()
        self._of_class: dict[int, list[Term]] = {}
        self._groups: dict[int, tuple[SelectorGroup, bool]] = {}
        """What selectors see of each class, and whether its pods stay."""
        self._drawn: dict[int, int] = {}
        self._avoided: dict[int, int] = {}
        """Term -> how many classes exert, or avoid, it."""
        self._used: dict[int, ClassTerms] = {}
        self._stale = False

    def add_class(self, c: int, spec: PodSpec) -> None:
        """The terms of a class that got row c, and the terms of others that select it."""
        self._groups[c] = (group_of(spec), not spec.terminating)
        column = self._room.terms.selects
        for (_, selection), t in self._ids.items():
            column[t, c] = self._selects(selection, c)
        taken: list[Term] = []
        terms = class_terms(spec, lambda key, selection: self._take((key, selection), taken))
        self._of_class[c], self._used[c] = taken, terms
        self._room.widen(H=sum(each.hard for each in terms.spread))
        self._room.terms.self_sufficient[c] = terms.self_sufficient
        self._room.put(NEED, c, [(t,) for t in terms.need])
        self._room.put(AVOID, c, [(t,) for t in terms.avoid])
        self._room.put(LIKE, c, terms.like)
        self._room.put(DRAW, c, terms.draw)
        if self._room.put(SPREAD, c, terms.spread):
            self.moved()
        for t in {each.term for each in terms.draw}:
            self._drawn[t] = self._drawn.get(t, 0) + 1
        for t in set(terms.avoid):
            self._avoided[t] = self._avoided.get(t, 0) + 1
        self._stale = self._stale or bool(self._drawn or self._avoided)

    def drop_class(self, c: int) -> None:
        """The class in row c is no more; it has no pods."""
        terms = self._used.pop(c)
        for counts, used in (
            (self._drawn, {each.term for each in terms.draw}),
            (self._avoided, set(terms.avoid)),
        ):
            for t in used:
                counts[t] -= 1
                if not counts[t]:
                    del counts[t]
        for lists in _LISTS:
            self._room.put(lists, c, [])
        del self._groups[c]
        self._room.terms.selects[:, c] = False
        for term in self._of_class.pop(c):
            t, gone = self._ids.drop(term)
            if gone:
                self._nodes.drop_key(term[0])
                self._room.clear(Terms, "T", t)
                self._room.clear(State, "T", t)
        self._stale = True

    def list_felt(self) -> None:
        """For every class the terms exerted, or avoided, by some class that select it."""
        if not self._stale:
            return
        self._list(FEEL, sorted(self._drawn))
        self._list(SHUN, sorted(self._avoided))
        self._stale = False

    def _list(self, lists: RaggedLists, terms: list[int]) -> None:
        selects: Bool = self._room.terms.selects[terms]
        _, place = np.nonzero(selects.T)
        flat = np.array(terms, dtype=np.int64)[place]
        self._room.put_all(lists, selects.sum(axis=0), flat)

    def _take(self, term: Term, taken: list[Term]) -> int:
        t, new = self._ids.take(term)
        taken.append(term)
        if new:
            self._room.ensure(T=t + 1)
            columns = self._room.terms
            columns.key[t] = self._nodes.take_key(term[0])
            picked: dict[SelectorGroup, bool] = {}
            for c, (group, stays) in self._groups.items():
                if group not in picked:
                    picked[group] = term[1].picks(group)
                columns.selects[t, c] = picked[group] and (stays or not term[1].staying)
            self.count(t)
        return t

    def _selects(self, selection: PodSelection, c: int) -> bool:
        group, stays = self._groups[c]
        return selection.picks(group) and (stays or not selection.staying)
