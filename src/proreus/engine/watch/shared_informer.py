"""One informer of a kind for everybody in the process: each is told every change, with what stood before."""

from __future__ import annotations

from collections.abc import Callable

from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.metadata import Object, key_of
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.watch.informer import Informer, ObjectChange

Hear = Callable[[ObjectEvent], None]


class SharedInformer(Informer):
    """Whoever is told must return soon and must not change what it is handed."""

    def __init__(self, registry: Registry, kind: Kind) -> None:
        super().__init__(registry, kind, self._pass_on)
        self.revision = 0
        """Everything up to this revision of the store has been told."""
        self._hearers: list[Hear] = []
        self._standing: dict[tuple[str, str], Object] = {}

    def subscribe(self, hear: Hear) -> None:
        """Every change goes there; call it before `run`, and what stands comes first, as ADDED."""
        self._hearers.append(hear)

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as it was last heard of."""
        return self._standing.get((namespace, name))

    async def relist(self) -> int:
        """As the informer does it; then everything up to that revision is known."""
        revision = await super().relist()
        self.revision = max(self.revision, revision)
        return revision

    def _pass_on(self, object_change: ObjectChange) -> None:
        obj, key = object_change.object, key_of(object_change.object)
        previous = self._standing.pop(key, None)
        revision = int(obj["metadata"]["resourceVersion"])
        if object_change.gone:
            event = ObjectEvent("DELETED", obj, previous, revision)
        else:
            self._standing[key] = obj
            event = ObjectEvent("ADDED" if previous is None else "MODIFIED", obj, previous, revision)
        self.revision = max(self.revision, revision)
        for hear in self._hearers:
            hear(event)
