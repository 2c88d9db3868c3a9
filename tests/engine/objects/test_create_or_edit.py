"""One way to make an object or change it: whoever races, whoever deletes, whatever namespace ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proreus.engine.objects.errors import Fenced, Forbidden, NotFound
from proreus.engine.objects.kinds import CONFIG_MAP, LEASE, NAMESPACE, POD, PRIORITY_CLASS
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.schema.structure import Shaped
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Unchanged
from tests.engine.objects.worlds import with_registry

_NAMED = {"metadata": {"name": "counter", "namespace": "default"}}


def _one_more(standing: dict[str, Any]) -> dict[str, Any]:
    count = int((standing.get("data") or {}).get("count", 0))
    return {**standing, "data": {"count": str(count + 1)}}


def test_whoever_comes_first_makes_it_and_nobody_is_lost() -> None:
    async def play() -> None:
        store = MemoryStore()
        registries = [Registry(store) for _ in range(4)]  # as four processes have them
        await registries[0].prepare()
        turns = [
            registry.create_or_edit(CONFIG_MAP, _NAMED, _one_more)
            for registry in registries
            for _ in range(8)
        ]
        await asyncio.gather(*turns)
        assert (await registries[0].get(CONFIG_MAP, "default", "counter"))["data"] == {"count": "32"}

    asyncio.run(play())


def test_one_that_was_deleted_behind_ones_back_is_made_again() -> None:
    async def play() -> None:
        store = MemoryStore()
        ours, theirs = Registry(store), Registry(store)
        await ours.prepare()
        first = await ours.create_or_edit(CONFIG_MAP, _NAMED, _one_more)
        await ours.create_or_edit(CONFIG_MAP, _NAMED, _one_more)
        await theirs.delete(CONFIG_MAP, "default", "counter")
        again = await ours.create_or_edit(CONFIG_MAP, _NAMED, _one_more)
        assert again["data"] == {"count": "1"} and again["metadata"]["uid"] != first["metadata"]["uid"]

    asyncio.run(play())


def test_in_a_namespace_that_ends_it_is_changed_but_not_made() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(NAMESPACE, {"metadata": {"name": "ends"}})
        there = {"metadata": {"name": "there", "namespace": "ends"}}
        await registry.create_or_edit(CONFIG_MAP, there, _one_more)
        await registry.delete(NAMESPACE, "", "ends")
        changed = await registry.create_or_edit(CONFIG_MAP, there, _one_more)
        assert changed["data"] == {"count": "2"}
        with pytest.raises(Forbidden, match="being terminated"):
            await registry.create_or_edit(
                CONFIG_MAP, {"metadata": {"name": "new", "namespace": "ends"}}, _one_more
            )
        with pytest.raises(NotFound, match="nowhere"):
            await registry.create_or_edit(
                CONFIG_MAP, {"metadata": {"name": "new", "namespace": "nowhere"}}, _one_more
            )

    with_registry(scenario)


def test_whose_fence_was_moved_writes_nothing() -> None:
    async def scenario(registry: Registry) -> None:
        metadata = {"name": "fence", "namespace": "kube-system"}
        lease = await registry.create(LEASE, {"metadata": metadata, "spec": {"holderIdentity": "me"}})
        key, revision = LEASE.key("kube-system", "fence"), int(lease["metadata"]["resourceVersion"])
        fence = Unchanged(key, revision)
        await registry.create_or_edit(CONFIG_MAP, _NAMED, _one_more, fence)
        await registry.edit(
            LEASE, "kube-system", "fence", lambda standing: {**standing, "spec": {"holderIdentity": "other"}}
        )
        with pytest.raises(Fenced):
            await registry.create_or_edit(CONFIG_MAP, _NAMED, _one_more, fence)
        assert (await registry.get(CONFIG_MAP, "default", "counter"))["data"] == {"count": "1"}

    with_registry(scenario)


def test_what_an_apply_makes_has_the_priority_of_its_class_and_does_not_own_it() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 7})
        container = {"name": "main", "image": "i"}
        stated = {"metadata": {"name": "p"}, "spec": {"containers": [container], "priorityClassName": "high"}}
        told: list[bool] = []
        made = await registry.apply(
            POD, "default", "p", Shaped(stated), manager="me", before_writing=told.append
        )
        assert made["spec"]["priority"] == 7
        (owner,) = made["metadata"]["managedFields"]
        assert set(owner["fieldsV1"]["f:spec"]) == {"f:containers", "f:priorityClassName"}
        await registry.apply(POD, "default", "p", Shaped(stated), manager="me", before_writing=told.append)
        assert told[-1] is False and True in told

    with_registry(scenario)


class Outrun(MemoryStore):
    """Somebody else is faster, once."""

    other: Callable[[], Awaitable[Any]] | None = None

    async def commit(self, *arguments: Any, **keywords: Any) -> Any:
        """As the store does, a moment later."""
        other, self.other = self.other, None
        if other is not None:
            await other()
        return await super().commit(*arguments, **keywords)


def test_an_apply_that_was_outrun_has_made_nothing() -> None:
    async def play() -> None:
        store = Outrun()
        ours, theirs = Registry(store), Registry(store)
        await ours.prepare()
        store.other = lambda: theirs.create(CONFIG_MAP, {**_NAMED, "data": {"theirs": "1"}})
        creating: list[bool] = []
        stated = Shaped({"data": {"ours": "1"}})
        left = await ours.apply(
            CONFIG_MAP, "default", "counter", stated, manager="me", before_writing=creating.append
        )
        assert left["data"] == {"theirs": "1", "ours": "1"}
        assert creating == [True, False], "who asks answers by the last: the object was there"

    asyncio.run(play())


def test_an_apply_that_states_a_uid_makes_the_object_all_the_same() -> None:
    async def scenario(registry: Registry) -> None:
        stated = Shaped({"metadata": {"name": "c", "uid": "of-another"}, "data": {"a": "1"}})
        made = await registry.apply(CONFIG_MAP, "default", "c", stated, manager="me")
        assert made["data"] == {"a": "1"} and made["metadata"]["uid"] != "of-another"

    with_registry(scenario)
