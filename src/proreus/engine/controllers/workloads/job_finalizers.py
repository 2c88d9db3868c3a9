"""Pods that are held to be counted by a Job that is gone: nobody will count them, so they are let go.

That the Job is gone is believed only of the store itself: one watch may be behind another.
"""

from __future__ import annotations

from proreus.engine.controllers.instructions import Instruction, UpdateObject
from proreus.engine.controllers.workloads.job_pods import FINALIZER, tracked
from proreus.engine.controllers.workloads.owner_index import OwnedIndex
from proreus.engine.objects.errors import NotFound, StatusError
from proreus.engine.objects.kinds import JOB, POD
from proreus.engine.objects.metadata import Object, controller_of, namespace_of, uid_of, without_finalizer
from proreus.engine.objects.registry import Registry
from proreus.engine.watch.informer import Informer


class JobFinalizers:
    """Remembers which Jobs may have left pods behind; see the module."""

    def __init__(self, registry: Registry, jobs: Informer, pods: OwnedIndex) -> None:
        self._registry, self._jobs, self._pods = registry, jobs, pods
        self._jobs_gone: dict[str, tuple[str, str]] = {}
        """By uid: namespace and name."""

    def job_gone(self, job: Object) -> None:
        """It was deleted."""
        self._jobs_gone[uid_of(job)] = namespace_of(job), job["metadata"]["name"]

    def pod_seen(self, pod: Object) -> None:
        """A pod has come or changed; its Job may have gone before."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != JOB.kind or not tracked(pod):
            return
        job = self._jobs.get(namespace_of(pod), owner["name"])
        if job is None or uid_of(job) != owner["uid"]:
            self._jobs_gone[owner["uid"]] = namespace_of(pod), owner["name"]

    async def let_go(self) -> list[Instruction]:
        """Their pods without what held them; a Job that the store had no answer about is asked for again."""
        instructions: list[Instruction] = []
        asked, self._jobs_gone = self._jobs_gone, {}  # whatever changes from here on is marked anew
        for uid, (namespace, name) in asked.items():
            try:
                if not any(self._pods.owned_by(uid)) or await self._stands(uid, namespace, name):
                    continue
            except StatusError:
                self._jobs_gone[uid] = namespace, name
                continue
            freed = (without_finalizer(pod, FINALIZER) for pod in self._pods.owned_by(uid))
            instructions += [UpdateObject(POD, pod) for pod in freed if pod is not None]
        return instructions

    async def _stands(self, uid: str, namespace: str, name: str) -> bool:
        try:
            return uid_of(await self._registry.get(JOB, namespace, name)) == uid
        except NotFound:
            return False

    @property
    def waiting(self) -> bool:
        """Whether Jobs are still to be asked for."""
        return bool(self._jobs_gone)

    def again(self, pod: Object) -> None:
        """It could not be let go: another time."""
        owner = controller_of(pod)
        if owner is not None:
            self._jobs_gone[owner["uid"]] = namespace_of(pod), owner["name"]
