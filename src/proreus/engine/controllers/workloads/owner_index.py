"""Who owns what: pods and ReplicaSets found by their owner, and those that nobody owns by their namespace."""

from __future__ import annotations

from collections.abc import Iterator

from proreus.engine.objects.metadata import Object, controller_of, key_of, namespace_of

_Key = tuple[str, str]


class OwnedIndex:
    """The objects of one kind, by the owner that manages them."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[_Key, Object]] = {}
        self._free: dict[str, dict[_Key, Object]] = {}

    def put(self, obj: Object, previous: Object | None) -> None:
        """It stands so now."""
        if previous is not None and _owner(previous) != _owner(obj):
            self.drop(previous)
        owner = _owner(obj)
        shelf = (
            self._by_owner.setdefault(owner, {}) if owner else self._free.setdefault(namespace_of(obj), {})
        )
        shelf[key_of(obj)] = obj

    def drop(self, obj: Object) -> None:
        """It stands no more."""
        owner = _owner(obj)
        shelves, name = (self._by_owner, owner) if owner else (self._free, namespace_of(obj))
        shelf = shelves.get(name, {})
        shelf.pop(key_of(obj), None)
        if not shelf:
            shelves.pop(name, None)

    def owned_by(self, uid: str) -> Iterator[Object]:
        """Those that this owner manages."""
        yield from self._by_owner.get(uid, {}).values()

    def free_in(self, namespace: str) -> Iterator[Object]:
        """Those of the namespace that nobody manages."""
        yield from self._free.get(namespace, {}).values()


def _owner(obj: Object) -> str:
    controller = controller_of(obj)
    return "" if controller is None else str(controller["uid"])
