"""The shell that completes namespaces: it follows them, and makes what one lacks.

The process of the API notes its certificate in kube-system (`note_api`); whoever leads copies it from there,
so that a process without an API can lead as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from proreus.engine.controllers.executor import carry_out
from proreus.engine.controllers.instructions import Instruction
from proreus.engine.controllers.namespaces.built_in import (
    ACCOUNT,
    CERTIFICATE_KEY,
    ROOT_CERTIFICATE,
    complete,
    kubernetes_service,
    root_certificate,
)
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import AlreadyExists, NotFound, StatusError
from proreus.engine.objects.event_recorder import EventRecorder
from proreus.engine.objects.intents import Change
from proreus.engine.objects.kinds import CONFIG_MAP, NAMESPACE, SERVICE, SERVICE_ACCOUNT, Kind
from proreus.engine.objects.metadata import Object, name_of
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.watch.informer import Informer

FOLLOWED = (NAMESPACE, SERVICE_ACCOUNT, CONFIG_MAP)
_SYSTEM = "kube-system"
_RETRY_SECONDS = 1.0


class NamespaceController:
    """See the module; `informers` follow at least `FOLLOWED`."""

    def __init__(
        self,
        registry: Registry,
        timers: Timers,
        informers: Mapping[Kind, Informer],
        term: Term | None = None,
    ) -> None:
        self._registry, self._informers, self._term = registry, informers, term
        self._recorder = EventRecorder(registry, "proreus-namespaces", timers.wall)
        self._changed = asyncio.Event()
        self._due: set[str] = set()
        informers[NAMESPACE].subscribe(lambda event: self._look_at(name_of(event.object)))
        informers[SERVICE_ACCOUNT].subscribe(self._account_changed)
        informers[CONFIG_MAP].subscribe(self._certificate_changed)

    async def run(self) -> None:
        """Serve until cancelled."""
        for kind in FOLLOWED:
            await self._informers[kind].synced.wait()
        while True:
            await self._changed.wait()
            self._changed.clear()
            due, self._due = sorted(self._due), set()
            instructions = [instruction for name in due for instruction in self._lacks(name)]
            outcomes = await carry_out(self._registry, self._recorder, instructions, self._term)
            if any(isinstance(out, StatusError) and not _settled(out) for out in outcomes):
                await asyncio.sleep(_RETRY_SECONDS)
                self._due.update(due)
                self._changed.set()

    def _lacks(self, name: str) -> list[Instruction]:
        namespace = self._informers[NAMESPACE].get("", name)
        if namespace is None:
            return []
        account = self._informers[SERVICE_ACCOUNT].get(name, ACCOUNT)
        return complete(namespace, account, self._certificate(name), self._authority())

    def _certificate(self, namespace: str) -> Object | None:
        return self._informers[CONFIG_MAP].get(namespace, ROOT_CERTIFICATE)

    def _authority(self) -> str:
        noted = self._certificate(_SYSTEM) or {}
        return str((noted.get("data") or {}).get(CERTIFICATE_KEY, ""))

    def _look_at(self, *names: str) -> None:
        self._due.update(names)
        self._changed.set()

    def _account_changed(self, event: ObjectEvent) -> None:
        if event.type == "DELETED" and name_of(event.object) == ACCOUNT:
            self._look_at(event.object["metadata"]["namespace"])

    def _certificate_changed(self, event: ObjectEvent) -> None:
        if name_of(event.object) != ROOT_CERTIFICATE:
            return
        namespace = event.object["metadata"]["namespace"]
        if namespace == _SYSTEM:  # the authority itself: it may be another from now on
            self._look_at(*(name for _, name in self._informers[NAMESPACE].objects))
        else:
            self._look_at(namespace)


def _settled(refusal: StatusError) -> bool:
    """Whether looking again would change nothing: somebody was faster, or the namespace is going."""
    return isinstance(refusal, AlreadyExists | NotFound) or "being terminated" in str(refusal)


async def note_api(registry: Registry, port: int, authority: str) -> None:
    """The certificate of the API that is opened now, for all namespaces, and the Service of its name."""
    for kind, obj, field in (
        (CONFIG_MAP, root_certificate(_SYSTEM, authority), "data"),
        (SERVICE, kubernetes_service(port), "spec"),
    ):
        namespace, name, stated = obj["metadata"]["namespace"], obj["metadata"]["name"], obj[field]
        try:
            await registry.create(kind, obj)
        except AlreadyExists:
            await registry.edit(kind, namespace, name, _with_field(field, stated))


def _with_field(field: str, stated: object) -> Change:
    return lambda standing: {**standing, field: stated}
