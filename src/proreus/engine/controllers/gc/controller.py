"""The shell of the housekeeping: it follows what there is, and does what the parts of this package say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from proreus.engine.controllers.disruption.budgets import reconcile_budget
from proreus.engine.controllers.executor import carry_out
from proreus.engine.controllers.gc.collector import GarbageGraph, Reference, empty_out
from proreus.engine.controllers.gc.expiry import EVENT_SECONDS, old_events, oldest_event, surplus_pods
from proreus.engine.controllers.instructions import Instruction
from proreus.engine.controllers.workloads.replica_sets import replicas_of
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import NotFound, StatusError
from proreus.engine.objects.event_recorder import EventRecorder
from proreus.engine.objects.kinds import (
    BUDGET,
    BY_KIND,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    JOB,
    KINDS,
    NAMESPACE,
    POD,
    REPLICA_SET,
    SECRET,
    SERVICE,
    Kind,
)
from proreus.engine.objects.metadata import (
    Object,
    controller_of,
    deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    read_selector,
    uid_of,
)
from proreus.engine.objects.registry import ObjectEvent, Outcome, Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.watch.informer import Informer

OWNING = (POD, REPLICA_SET, DEPLOYMENT, JOB, CONFIG_MAP, SECRET, SERVICE, BUDGET)
"""The kinds whose owners are watched over."""
FOLLOWED = (*OWNING, NAMESPACE)
_SWEEP_SECONDS = 60.0
_EMPTYING_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_PAGE = 250
_PAGE_PAUSE = 0.01
"""Seconds between two pages of events: others have their turn."""
_SWEEPS_IN_A_LIFE = 12
"""Events are looked for so often, at most, in the time that one is kept."""


class GcController:
    """See the module; `informers` follow at least `FOLLOWED`."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        informers: Mapping[Kind, Informer],
        event_seconds: float = EVENT_SECONDS,
        term: Term | None = None,
    ) -> None:
        self._registry, self._timers, self._informers = registry, timers, informers
        self._term = term
        self._event_seconds = event_seconds
        self._recorder = EventRecorder(registry, "proreus-housekeeping", timers.wall)
        self._graph = GarbageGraph()
        self._budgets: set[tuple[str, str]] = set()
        self._owners_changed, self._budgets_changed = asyncio.Event(), asyncio.Event()
        self._namespaces_changed = asyncio.Event()
        for kind in OWNING:
            informers[kind].subscribe(self._hearing(kind))
        informers[NAMESPACE].subscribe(self._namespace_changed)

    async def run(self) -> None:
        """Serve until cancelled."""
        for kind in FOLLOWED:
            await self._informers[kind].synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect())
            group.create_task(self._count_budgets())
            group.create_task(self._empty_namespaces())
            group.create_task(self._sweep())

    def _hearing(self, kind: Kind) -> Any:
        def hear(event: ObjectEvent) -> None:
            if event.type == "DELETED":
                self._graph.gone(event.object)
            else:
                self._graph.seen(kind, event.object)
            self._owners_changed.set()
            if kind is BUDGET:
                self._mark_budget(key_of(event.object))
            elif kind in (POD, REPLICA_SET, DEPLOYMENT) and self._informers[BUDGET].objects:
                self._mark_budgets(kind, event.object)

        return hear

    def _namespace_changed(self, event: ObjectEvent) -> None:
        if event.type != "DELETED" and deleting(event.object):
            self._namespaces_changed.set()

    async def _collect(self) -> None:
        while True:
            await self._owners_changed.wait()
            self._owners_changed.clear()
            uids = self._graph.take()
            missing = {uid: self._missing(uid) for uid in uids}
            absent, unclear = await self._absent([ref for refs in missing.values() for ref in refs])
            judged = [(uid, self._graph.judge(uid, absent)) for uid in uids]
            instructions = [one for _, many in judged for one in many]
            outcomes = iter(await self._carry_out(instructions) if instructions else [])
            failed = bool(unclear)
            for uid, refs in missing.items():
                if any(str(ref["uid"]) in unclear for _, ref in refs):
                    self._graph.again(uid)
            for uid, many in judged:
                for outcome in [next(outcomes) for _ in many]:
                    if isinstance(outcome, StatusError) and not isinstance(outcome, NotFound):
                        self._graph.again(uid)
                        failed = True
            if failed:
                await asyncio.sleep(_RETRY_SECONDS)
                self._owners_changed.set()

    async def _carry_out(self, instructions: Sequence[Instruction]) -> list[Outcome]:
        return await carry_out(self._registry, self._recorder, instructions, self._term)

    def _missing(self, uid: str) -> list[tuple[str, Reference]]:
        return [(self._graph.namespace(uid), ref) for ref in self._graph.missing(uid)]

    async def _absent(self, wanted: Sequence[tuple[str, Reference]]) -> tuple[set[str], set[str]]:
        """The uids of those that the store does not have, and of those that it had no answer about; kinds
        that it knows nothing of are let be."""
        absent: set[str] = set()
        unclear: set[str] = set()
        asked: set[str] = set()
        for namespace, ref in wanted:
            uid = str(ref["uid"])
            kind = BY_KIND.get((ref.get("apiVersion", ""), ref.get("kind", "")))
            if kind is None or uid in asked:
                continue
            asked.add(uid)
            try:
                found = await self._registry.get(kind, namespace if kind.namespaced else "", ref["name"])
            except NotFound:
                absent.add(uid)
            except StatusError:
                unclear.add(uid)
            else:
                if uid_of(found) != uid:
                    absent.add(uid)
        return absent, unclear

    def _mark_budget(self, key: tuple[str, str]) -> None:
        self._budgets.add(key)
        self._budgets_changed.set()

    def _mark_budgets(self, kind: Kind, obj: Object) -> None:
        for key, budget in self._informers[BUDGET].objects.items():
            if key[0] == namespace_of(obj):
                selector = read_selector((budget.get("spec") or {}).get("selector"))
                if kind is not POD or (selector is not None and selector.matches(labels_of(obj))):
                    self._mark_budget(key)

    async def _count_budgets(self) -> None:
        while True:
            await self._budgets_changed.wait()
            self._budgets_changed.clear()
            keys, self._budgets = sorted(self._budgets), set()
            instructions: list[Instruction] = []
            for key in keys:
                budget = self._informers[BUDGET].get(*key)
                if budget is None:
                    continue
                plan = reconcile_budget(budget, self._selected(budget), self._scale, self._timers.wall())
                instructions += plan.instructions
                if plan.again_in is not None:
                    when = self._timers.steady() + plan.again_in
                    self._timers.call_at(when, self._mark_budget, key)
            if instructions:
                outcomes = await self._carry_out(instructions)
                if any(
                    isinstance(outcome, StatusError) and not isinstance(outcome, NotFound)
                    for outcome in outcomes
                ):
                    await asyncio.sleep(_RETRY_SECONDS)
                    self._budgets.update(keys)
                    self._budgets_changed.set()

    def _selected(self, budget: Object) -> list[Object]:
        selector = read_selector((budget.get("spec") or {}).get("selector"))
        if selector is None:
            return []
        return [
            pod
            for (namespace, _), pod in self._informers[POD].objects.items()
            if namespace == namespace_of(budget) and selector.matches(labels_of(pod))
        ]

    def _scale(self, pod: Object) -> tuple[str, int] | None:
        """Its Deployment, or its ReplicaSet where that has none."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != REPLICA_SET.kind:
            return None
        replica_set = self._informers[REPLICA_SET].get(namespace_of(pod), owner["name"])
        if replica_set is None or uid_of(replica_set) != owner["uid"]:
            return None
        above = controller_of(replica_set)
        if above is not None and above["kind"] == DEPLOYMENT.kind:
            deployment = self._informers[DEPLOYMENT].get(namespace_of(pod), above["name"])
            if deployment is not None and uid_of(deployment) == above["uid"]:
                return uid_of(deployment), replicas_of(deployment)
        return uid_of(replica_set), replicas_of(replica_set)

    async def _empty_namespaces(self) -> None:
        while True:
            await self._namespaces_changed.wait()
            self._namespaces_changed.clear()
            leaving = [one for one in self._informers[NAMESPACE].objects.values() if deleting(one)]
            for namespace in leaving:
                try:
                    contents = await self._contents(name_of(namespace))
                except StatusError:
                    continue
                await self._carry_out(empty_out(namespace, contents))
            if leaving:
                self._timers.call_at(self._timers.steady() + _EMPTYING_SECONDS, self._namespaces_changed.set)

    async def _contents(self, namespace: str) -> dict[Kind, list[Object]]:
        kinds = [kind for kind in KINDS if kind.namespaced]
        return {kind: (await self._registry.list(kind, namespace)).items for kind in kinds}

    async def _sweep(self) -> None:
        due = self._timers.steady()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if self._timers.steady() >= due:
                due = self._timers.steady() + await self._sweep_events()
            surplus = surplus_pods(self._informers[POD].objects.values())
            await self._carry_out(surplus)

    async def _sweep_events(self) -> float:
        """Take old events away, page by page, so that a million of them do not hold up the rest.

        Returns in how many seconds to look again: not before the oldest that is left is too old, with others
        of its minute, and not so often that reading all of them takes a good part of the time.
        """
        now = self._timers.wall()
        oldest, after = now, ""
        while True:
            try:
                page = await self._registry.list(EVENT, limit=_PAGE, after=after)
            except StatusError:
                return 0.0
            await self._carry_out(old_events(page.items, now, self._event_seconds))
            oldest = min(oldest, oldest_event(page.items, now, self._event_seconds))
            after = page.after
            if not after:
                left = oldest + self._event_seconds - now
                return max(left + _SWEEP_SECONDS, self._event_seconds / _SWEEPS_IN_A_LIFE)
            await asyncio.sleep(_PAGE_PAUSE)
