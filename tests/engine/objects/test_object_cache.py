"""What is kept of objects that were read or written: never more than a bound, and little of what is gone."""

from __future__ import annotations

import pytest

from proreus.engine.objects import object_cache as shelves
from proreus.engine.objects.kinds import EVENT
from proreus.engine.objects.object_cache import ObjectCache, StoredObject
from proreus.engine.store.memory import MemoryStore


def _keep(shelf: ObjectCache, key: str, revision: int) -> None:
    shelf.keep(key, StoredObject({"metadata": {"name": key}}, revision, 100))


def _kept(shelf: ObjectCache) -> set[str]:
    return set(shelf._kept)


def test_of_what_is_gone_only_the_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "MOST_GONE_KEPT", 2)
    shelf = ObjectCache(MemoryStore())
    for number in range(5):
        _keep(shelf, f"pod-{number}", 1 + number)
    for number in range(4):
        shelf.gone(f"pod-{number}", 10 + number)
    assert _kept(shelf) == {"pod-2", "pod-3", "pod-4"}
    assert shelf.peek("pod-3") is None and shelf.peek("pod-4") is not None
    assert shelf._size == 300


def test_what_came_again_stays_whoever_tells_late_that_it_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "MOST_GONE_KEPT", 1)
    shelf = ObjectCache(MemoryStore())
    _keep(shelf, "pod", 1)
    shelf.gone("pod", 2)
    _keep(shelf, "pod", 3)
    shelf.gone("pod", 2)  # a watch that is behind
    for number in range(3):
        _keep(shelf, f"other-{number}", 4 + number)
        shelf.gone(f"other-{number}", 10 + number)
    standing = shelf.peek("pod")
    assert standing is not None and standing.revision == 3


def test_of_events_only_the_last_are_kept_and_nothing_else_makes_room_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shelves, "MOST_EVENTS_KEPT", 3)
    shelf = ObjectCache(MemoryStore())
    _keep(shelf, "pod", 1)
    for number in range(10):
        _keep(shelf, EVENT.key("default", f"event-{number}"), 2 + number)
    _keep(shelf, EVENT.key("default", "event-7"), 20)  # counted once more
    _keep(shelf, EVENT.key("default", "event-10"), 21)
    last = {EVENT.key("default", f"event-{number}") for number in (7, 9, 10)}
    assert _kept(shelf) == {"pod"} | last
    assert set(shelf._events) == last
    assert shelf._size == 400
