"""A host of task agents: it follows workloads and pods, wakes the agent that a change is about, and does what
the agents say, the instructions of all of them in one go."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from proreus.engine.controllers.executor import carry_out
from proreus.engine.controllers.instructions import Instruction, ReconcileResult, UpdateObject
from proreus.engine.controllers.workloads.agent import OwnedObjects, TaskAgent
from proreus.engine.controllers.workloads.bare_pods import begin_anew
from proreus.engine.controllers.workloads.job_finalizers import JobFinalizers
from proreus.engine.controllers.workloads.owner_index import OwnedIndex
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import Unserviceable
from proreus.engine.objects.event_recorder import EventRecorder
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, POD, REPLICA_SET, Kind
from proreus.engine.objects.metadata import (
    Object,
    controller_of,
    key_of,
    labels_of,
    namespace_of,
    read_selector,
    uid_of,
)
from proreus.engine.objects.registry import ObjectEvent, Outcome, Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.watch.informer import Informer

WORKLOADS = (DEPLOYMENT, REPLICA_SET, JOB)
FOLLOWED = (*WORKLOADS, POD)
_Key = tuple[Kind, str, str]
_PODS_A_SECOND, _LONGEST_REST = 20_000, 0.5
"""After a look at many pods an agent rests, so that looking takes a small share of the time."""
_RETRY_SECONDS = 1.0
_SHORTEST_WAIT = 0.01
"""Seconds; moments that are written down in whole seconds would else be waited for again and again."""
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
_log = logging.getLogger(__name__)
_BY_NAME = {kind.kind: kind for kind in WORKLOADS}


class TaskHost:
    """See the module; `informers` follow at least `FOLLOWED`, and are run by the host's process."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        informers: Mapping[Kind, Informer],
        term: Term | None = None,
    ) -> None:
        self._registry, self._timers, self._informers = registry, timers, informers
        self._term = term
        self._recorder = EventRecorder(registry, "proreus-task-agent", timers.wall)
        self._agents: dict[_Key, TaskAgent] = {}
        self._dirty: dict[_Key, None] = {}
        self._later: list[tuple[float, int, _Key]] = []
        self._due: dict[_Key, float] = {}
        self._count = 0
        self._anew: list[Object] = []
        self._pods, self._sets = OwnedIndex(), OwnedIndex()
        self._left_behind = JobFinalizers(registry, informers[JOB], self._pods)
        self._something = asyncio.Event()
        for kind in WORKLOADS:
            informers[kind].subscribe(self._workload_changed(kind))
        informers[POD].subscribe(self._pod_changed)

    async def run(self) -> None:
        """Serve until cancelled."""
        for kind in FOLLOWED:
            await self._informers[kind].synced.wait()
        while True:
            await self._wait()
            await self._round()

    async def _wait(self) -> None:
        """Until something changes, or a moment comes that an agent waits for."""
        patience = self._later[0][0] - self._timers.steady() if self._later else None
        with contextlib.suppress(TimeoutError):  # then the moment has come
            async with asyncio.timeout(None if patience is None else max(0.0, patience)):
                await self._something.wait()
        self._something.clear()
        now = self._timers.steady()
        while self._later and self._later[0][0] <= now:
            when, _, key = heapq.heappop(self._later)
            if self._due.get(key) == when:  # else it has looked since
                del self._due[key]
                self._dirty[key] = None

    async def _round(self) -> None:
        """Everyone whose workload changed looks once; what they say is done together."""
        revisions = {kind: self._informers[kind].revision for kind in FOLLOWED}
        plans: list[tuple[_Key, Object, ReconcileResult]] = []
        now = self._timers.steady()
        waiting: dict[_Key, None] = {}
        for key in self._dirty:
            kind, namespace, name = key
            workload = self._informers[kind].get(namespace, name)
            if workload is None:
                self._agents.pop(key, None)
                continue
            agent = self._agents.setdefault(key, TaskAgent(kind))
            if not agent.can_see(revisions):
                waiting[key] = None  # the change that it has made itself will wake it
                continue
            if agent.not_before > now:
                self._look_at(key, agent.not_before)
                continue
            around = self._around(kind, workload)
            agent.not_before = now + min(_LONGEST_REST, len(around.pods) / _PODS_A_SECOND)
            try:
                plans.append((key, workload, agent.look(workload, around, self._timers.wall())))
            except _UNREADABLE:
                # One workload that should never have been stored must not stop all the others.
                _log.exception("%s %s/%s cannot be worked on", kind.kind, namespace, name)
        self._dirty = waiting
        lost, self._anew = self._anew, []
        both = [instruction for _, _, plan in plans for instruction in plan.instructions]
        both += [instruction for pod in lost for instruction in begin_anew(pod).instructions]
        freed = await self._left_behind.let_go()
        both += freed
        outcomes = await carry_out(self._registry, self._recorder, both, self._term) if both else []
        notes: list[Instruction] = []
        begin = 0
        for key, workload, plan in plans:
            end = begin + len(plan.instructions)
            notes += self._agents[key].heard(workload, plan.instructions, outcomes[begin:end])
            begin = end
            self._schedule(key, plan)
        if notes:
            await carry_out(self._registry, self._recorder, notes, self._term)
        self._try_again(freed, outcomes[len(outcomes) - len(freed) :])

    def _try_again(self, freed: Sequence[Instruction], outcomes: Sequence[Outcome]) -> None:
        """Pods that could not be let go; one that has changed meanwhile will be seen anyway."""
        for update_object, outcome in zip(freed, outcomes, strict=True):
            if isinstance(update_object, UpdateObject) and isinstance(outcome, Unserviceable):
                self._left_behind.again(update_object.object)
        if self._left_behind.waiting:
            self._timers.call_at(self._timers.steady() + _RETRY_SECONDS, self._something.set)

    def _schedule(self, key: _Key, plan: ReconcileResult) -> None:
        agent = self._agents[key]
        pauses = [pause for pause in (plan.again_in, agent.pause) if pause is not None]
        if pauses:
            self._look_at(key, self._timers.steady() + max(_SHORTEST_WAIT, min(pauses)))

    def _look_at(self, key: _Key, when: float) -> None:
        if when < self._due.get(key, math.inf):
            self._due[key] = when
            self._count += 1
            heapq.heappush(self._later, (when, self._count, key))

    def _around(self, kind: Kind, workload: Object) -> OwnedObjects:
        uid, namespace = uid_of(workload), namespace_of(workload)
        if kind is DEPLOYMENT:
            sets = [*self._sets.owned_by(uid), *self._sets.free_in(namespace)]
            # Only who replaces all pods at once must know of those that are still leaving.
            recreates = (workload["spec"].get("strategy") or {}).get("type") == "Recreate"
            owned = self._sets.owned_by(uid) if recreates else ()
            return OwnedObjects(
                sets, [pod for replica_set in owned for pod in self._pods.owned_by(uid_of(replica_set))]
            )
        return OwnedObjects((), [*self._pods.owned_by(uid), *self._pods.free_in(namespace)])

    def _workload_changed(self, kind: Kind) -> Any:
        def hear(event: ObjectEvent) -> None:
            obj = event.object
            if kind is REPLICA_SET:
                self._reindex(self._sets, event)
                self._wake_owner(obj)
                if controller_of(obj) is None:
                    self._wake_selecting(obj, (DEPLOYMENT,))
            elif kind is JOB and event.type == "DELETED":
                self._left_behind.job_gone(obj)
            self._mark((kind, *key_of(obj)))

        return hear

    def _pod_changed(self, event: ObjectEvent) -> None:
        pod = event.object
        self._reindex(self._pods, event)
        if event.type != "DELETED":
            self._left_behind.pod_seen(pod)
        self._wake_owner(pod)
        if event.previous is not None and controller_of(event.previous) != controller_of(pod):
            self._wake_owner(event.previous)
        if controller_of(pod) is None:
            if event.type == "DELETED":
                self._anew.append(pod)
                self._something.set()
            else:
                self._wake_selecting(pod, (REPLICA_SET, JOB))
        elif event.type == "DELETED":
            self._wake_grand_owner(pod)

    def _reindex(self, index: OwnedIndex, event: ObjectEvent) -> None:
        if event.type == "DELETED":
            index.drop(event.object)
        else:
            index.put(event.object, event.previous)

    def _wake_owner(self, obj: Object) -> None:
        owner = controller_of(obj)
        kind = _BY_NAME.get(owner["kind"]) if owner is not None else None
        if owner is not None and kind is not None:
            self._mark((kind, namespace_of(obj), owner["name"]))

    def _wake_grand_owner(self, pod: Object) -> None:
        """A Deployment that waits for the old pods to be gone."""
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == REPLICA_SET.kind:
            replica_set = self._informers[REPLICA_SET].get(namespace_of(pod), owner["name"])
            if replica_set is not None:
                self._wake_owner(replica_set)

    def _wake_selecting(self, orphan: Object, kinds: Sequence[Kind]) -> None:
        """Whoever would take it up."""
        if not labels_of(orphan):
            return
        for kind in kinds:
            for (namespace, name), workload in self._informers[kind].objects.items():
                if namespace != namespace_of(orphan):
                    continue
                selector = read_selector(workload["spec"].get("selector"))
                if selector is not None and selector.matches(labels_of(orphan)):
                    self._mark((kind, namespace, name))

    def _mark(self, key: _Key) -> None:
        self._dirty[key] = None
        self._something.set()
