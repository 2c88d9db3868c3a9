"""Controllers of a process that was halted: what they had in hand is not written once another leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from proreus.engine.leader_election import NAMESPACE
from proreus.engine.leader_only import LEASE_NAME, Controllers
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, LEASE, POD, REPLICA_SET, Kind
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Committed, Operation, Unchanged
from tests.engine.controllers.clusters import deployment, job


class HaltedStore(MemoryStore):
    """Holds back every write of objects of some kind until it is let go, as a stopped process does."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self._prefix = kind.prefix
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.outcomes: list[bool] = []

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        if self.go_on.is_set() or not any(operation.key.startswith(self._prefix) for operation in operations):
            return await super().commit(conditions, operations)
        self.reached.set()
        await self.go_on.wait()
        committed = await super().commit(conditions, operations)
        self.outcomes.append(committed.done)
        return committed


@pytest.mark.parametrize(
    ("kind", "workload", "made"),
    [(DEPLOYMENT, deployment, REPLICA_SET), (JOB, job, POD)],
    ids=lambda one: getattr(one, "kind", None),
)
def test_one_that_wakes_when_another_leads_writes_nothing(
    kind: Kind, workload: Callable[[], dict[str, object]], made: Kind
) -> None:
    async def play() -> None:
        store = HaltedStore(made)
        registry = Registry(store)
        await registry.prepare()
        controllers = Controllers(registry, LoopTimers(), "first")
        task = asyncio.create_task(controllers.run())
        try:
            async with asyncio.timeout(60):
                await registry.create(kind, workload())
                await store.reached.wait()
                await registry.edit(
                    LEASE,
                    NAMESPACE,
                    f"{LEASE_NAME}-fence",
                    lambda one: {**one, "spec": {**one["spec"], "holderIdentity": "second"}},
                )
                store.go_on.set()
                while not store.outcomes:
                    await asyncio.sleep(0)
                assert not any(store.outcomes)
                # Nobody else stands for election: it leads again, and then does it, once.
                while not (await registry.list(made)).items:
                    await asyncio.sleep(0.05)
            assert len((await registry.list(made)).items) == 1
        finally:
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(play())


def test_a_fence_is_one_of_the_conditions_that_a_store_takes() -> None:
    async def play() -> None:
        store = CountingStore()
        registry = Registry(store)
        await registry.prepare()
        fence = await registry.create(LEASE, {"metadata": {"name": "fence", "namespace": NAMESPACE}})
        wants = [await registry.creating(JOB, job(f"job-{number}")) for number in range(300)]
        held = Unchanged(LEASE.key(NAMESPACE, "fence"), int(fence["metadata"]["resourceVersion"]))
        outcomes = await registry.commit_each(wants, held)
        assert not any(isinstance(outcome, StatusError) for outcome in outcomes)
        assert store.most == 128, "as many as etcd takes"

    asyncio.run(play())


class CountingStore(MemoryStore):
    """Remembers the most conditions of one transaction."""

    most = 0

    async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
        self.most = max(self.most, len(conditions))
        return await super().commit(conditions, operations)
