"""The SchedulingAgent over a registry: bound once, within capacity, whoever leads."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from proreus.engine.leader_election import Leader, LeaseTimes
from proreus.engine.objects.decision_annotation import DECISION
from proreus.engine.objects.errors import Conflict, Fenced, Gone, NotFound
from proreus.engine.objects.kinds import CONFIG_MAP, EVENT, NODE, POD, PRIORITY_CLASS, Kind
from proreus.engine.objects.registry import Binding, ObjectEvent, Registry
from proreus.engine.scheduler.agent import AgentOptions, SchedulingAgent
from proreus.engine.scheduler.decider import Decider
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Committed, KeyValue, Operation, Unavailable, Unchanged
from proreus.engine.watch.informer import Hear, Informer
from tests.engine.scheduler.objects import Object, node, pod

QUICK = LeaseTimes(lease=0.3, renew=0.2, retry=0.03)


def fresh(obj: Object) -> Object:
    """As a user hands it in."""
    return {**obj, "metadata": {key: part for key, part in obj["metadata"].items() if key != "uid"}}


async def a_registry(*nodes: Object) -> Registry:
    registry = Registry(MemoryStore())
    await registry.prepare()
    for one in nodes:
        await registry.create(NODE, one)
    return registry


@asynccontextmanager
async def running(*agents: SchedulingAgent) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        yield tasks
    finally:
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
            task.cancel()
        await asyncio.wait(tasks)


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.01)


async def placed(registry: Registry) -> dict[str, str]:
    pods = (await registry.list(POD)).items
    return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName")}


def agent_of(registry: Registry, identity: str = "a", **options: Any) -> SchedulingAgent:
    return SchedulingAgent(registry, AgentOptions(times=QUICK, identity=identity, **options))


def test_pods_are_bound_with_reasons_and_events() -> None:
    async def play() -> None:
        registry = await a_registry(node("small", "2"), node("large", "16"))
        agent = agent_of(registry)
        async with running(agent):
            await registry.create(POD, fresh(pod("web")))
            await registry.create(POD, fresh(pod("huge", "99")))
            await until(lambda: _said(registry, 2))
            web, huge = await registry.get(POD, "default", "web"), await registry.get(POD, "default", "huge")
            assert web["spec"]["nodeName"] == "large"
            assert json.loads(web["metadata"]["annotations"][DECISION])["policy"] == "kube"
            condition = huge["status"]["conditions"][-1]
            assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
            events = {event["reason"]: event["message"] for event in (await registry.list(EVENT)).items}
            assert events["Scheduled"].startswith("Successfully assigned default/web to large: ")
            assert events["FailedScheduling"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
            assert agent.metrics()["decisions"] == {"bound": 1, "unschedulable": 1}
            await registry.create(NODE, node("giant", "128"))
            await until(lambda: _bound(registry, 2))

    asyncio.run(play())


def test_a_clock_that_is_put_back_lets_nobody_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod backs off for a second by a clock that nobody puts, whatever the machine's shows."""

    async def play() -> None:
        jump, refused = [0.0], [0]
        registry = await a_registry(node("one", "2"))
        commit = registry.commit_each

        async def refuse_once(wants: Any, fence: Any = None) -> Any:
            refused[0] += 1
            return [Conflict("not now") for _ in wants] if refused[0] == 1 else await commit(wants, fence)

        monkeypatch.setattr(registry, "commit_each", refuse_once)
        options = AgentOptions(times=QUICK, identity="a")
        agent = SchedulingAgent(registry, options, lambda: time.time() + jump[0])
        async with running(agent):
            await registry.create(POD, fresh(pod("web")))
            async with asyncio.timeout(60):
                while not agent.core.counts["not done"]:
                    await asyncio.sleep(0.01)
            jump[0] = -3600.0
            await until(lambda: _bound(registry, 1))

    asyncio.run(play())


async def _said(registry: Registry, events: int) -> bool:
    return len((await registry.list(EVENT)).items) >= events


async def _bound(registry: Registry, count: int) -> bool:
    return len(await placed(registry)) >= count


def test_victims_are_deleted_and_the_pod_takes_their_place() -> None:
    async def play() -> None:
        registry = await a_registry(node("one", "1"))
        for name, value in (("low", 1), ("high", 100)):
            priority = {"metadata": {"name": name}, "value": value}
            await registry.create(
                PRIORITY_CLASS, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **priority}
            )
        async with running(agent_of(registry)):
            await registry.create(POD, fresh(pod("victim", priorityClassName="low")))
            await until(lambda: _bound(registry, 1))
            await registry.create(POD, fresh(pod("vip", priorityClassName="high")))
            await until(lambda: _nominated(registry, "vip"))
            victim = await registry.get(POD, "default", "victim")
            assert "deletionTimestamp" in victim["metadata"]
            why = [
                condition
                for condition in victim["status"]["conditions"]
                if condition["type"] == "DisruptionTarget"
            ]
            assert [one["reason"] for one in why] == ["PreemptionByScheduler"]
            await registry.delete(POD, "default", "victim", grace=0)
            await until(lambda: _on(registry, "vip", "one"))

    asyncio.run(play())


async def _nominated(registry: Registry, name: str) -> bool:
    found = await registry.get(POD, "default", name)
    return bool(found.get("status", {}).get("nominatedNodeName"))


async def _on(registry: Registry, name: str, where: str) -> bool:
    return (await placed(registry)).get(name) == where


def test_what_a_pod_names_is_compiled_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    warm_up = Decider.warm_up

    def noted(decider: Decider) -> None:
        threads.add(threading.current_thread().name)
        warm_up(decider)

    monkeypatch.setattr(Decider, "warm_up", noted)

    async def play() -> None:
        registry = await a_registry(node("one"))
        async with running(agent_of(registry)):
            await registry.create(POD, fresh(pod("web", schedulerName="learned")))
            await until(lambda: _bound(registry, 1), 60)
            web = await registry.get(POD, "default", "web")
            assert json.loads(web["metadata"]["annotations"][DECISION])["policy"] == "learned"

    asyncio.run(play())
    assert threads and threading.main_thread().name not in threads


def test_another_policy_is_chosen_live() -> None:
    async def play() -> None:
        registry = await a_registry(node("small", "2"), node("large", "16"))
        async with running(agent_of(registry)):
            choice = {"default-scheduler": '{"policy": "best_fit", "shadow": "kube", "deadline_ms": 5000}'}
            metadata = {"name": "proreus-schedulers", "namespace": "kube-system"}
            await registry.create(
                CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": choice}
            )
            await asyncio.sleep(0.3)
            await registry.create(POD, fresh(pod("web")))
            await until(lambda: _on(registry, "web", "small"))
            web = await registry.get(POD, "default", "web")
            document = json.loads(web["metadata"]["annotations"][DECISION])
            assert (document["shadow"]["policy"], document["shadow"]["node"]) == ("kube", "large")

    asyncio.run(play())


def following_informer(registry: Registry, hear: Hear) -> Informer:
    """Of pods."""
    informer = Informer(registry, POD)
    informer.subscribe(hear)
    return informer


class Watcher:
    """Sees every state that pods were ever in, and that no law is broken in any of them."""

    def __init__(self, cpu: int) -> None:
        self.cpu, self.load = cpu, Counter[str]()
        self.where: dict[str, str] = {}
        self.cost: dict[str, int] = {}

    def see(self, event: ObjectEvent) -> None:
        metadata, spec = event.object["metadata"], event.object["spec"]
        uid, where = metadata["uid"], spec.get("nodeName", "")
        before = self.where.get(uid, "")
        assert not before or before == where, f"{metadata['name']} was bound to {before}, then to {where}"
        if event.type == "DELETED":
            if before:
                self.load[before] -= self.cost[uid]
            self.where.pop(uid, None)
            return
        self.where[uid] = where
        self.cost[uid] = int(spec["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))
        if where and not before:
            self.load[where] += self.cost[uid]
            assert self.load[where] <= self.cpu, f"{where} holds {self.load[where]} of {self.cpu}"


async def churn(registry: Registry, rng: random.Random, pods: int) -> None:
    """Pods come and go."""
    for k in range(pods):
        await registry.create(POD, fresh(pod(f"p{k}", f"{rng.randint(1, 15) * 100}m")))
        if rng.random() < 0.4:
            there = list(await placed(registry))
            if there:
                await registry.delete(POD, "default", rng.choice(there), grace=0)
        if rng.random() < 0.1:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(3))
def test_under_churn_no_pod_is_bound_twice_and_no_capacity_exceeded(seed: int) -> None:
    async def play() -> None:
        registry = await a_registry(*(node(f"n{k}", "4") for k in range(5)))
        watcher = Watcher(4000)
        informer = following_informer(registry, watcher.see)
        following = asyncio.create_task(informer.run())
        async with running(agent_of(registry, events=False)):
            await churn(registry, random.Random(seed), 150)
            await until(lambda: _settled(registry, 4000))
        following.cancel()
        await asyncio.wait([following])
        assert following.cancelled(), following.exception()

    asyncio.run(play())


async def _settled(registry: Registry, cpu: int) -> bool:
    """Whether no waiting pod would fit anywhere."""
    pods = (await registry.list(POD)).items
    cost = {
        one["metadata"]["name"]: int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1])
        for one in pods
    }
    load = Counter[str]({one["metadata"]["name"]: 0 for one in (await registry.list(NODE)).items})
    for name, where in (there := await placed(registry)).items():
        load[where] += cost[name]
    waiting = [amount for name, amount in cost.items() if name not in there]
    return not waiting or min(waiting) > cpu - min(load.values())


@pytest.mark.parametrize("seed", range(3))
def test_two_agents_with_the_leader_killed_again_and_again(seed: int) -> None:
    async def play() -> None:
        rng = random.Random(seed)
        registry = await a_registry(*(node(f"n{k}", "4") for k in range(5)))
        watcher = Watcher(4000)
        following = asyncio.create_task(following_informer(registry, watcher.see).run())
        agents = {name: agent_of(registry, name, events=False) for name in "ab"}
        tasks = {name: asyncio.create_task(agent.run()) for name, agent in agents.items()}
        working = asyncio.create_task(churn(registry, rng, 200))
        leaders = set()
        for turn in range(4):
            await until(lambda: _led(agents))
            leader = next(name for name, agent in agents.items() if agent.leader.fence is not None)
            leaders.add(agents[leader].leader.identity)
            await asyncio.sleep(rng.random() * 0.1)
            tasks[leader].cancel()  # in the middle of whatever it does, without a word to anybody
            await asyncio.wait([tasks[leader]])
            agents[leader] = agent_of(registry, f"{leader}{turn}", events=False)
            tasks[leader] = asyncio.create_task(agents[leader].run())
        await working
        await until(lambda: _settled(registry, 4000))
        for task in (*tasks.values(), following):
            task.cancel()
        await asyncio.wait([*tasks.values(), following])
        assert following.cancelled(), following.exception()
        assert len(leaders) == 4, "each time somebody else"

    asyncio.run(play())


async def _led(agents: dict[str, SchedulingAgent]) -> bool:
    return any(agent.leader.fence is not None for agent in agents.values())


@pytest.mark.parametrize("silent", [False, True])
def test_a_leader_whose_store_is_away_can_go(silent: bool) -> None:
    class Away(MemoryStore):
        away = False

        async def get(self, key: str) -> KeyValue | None:
            if self.away and silent:
                await asyncio.sleep(3600)
            if self.away:
                raise Unavailable("nobody answers")
            return await super().get(key)

        async def commit(self, conditions: Sequence[Unchanged], operations: Sequence[Operation]) -> Committed:
            if self.away:
                await self.get("")
            return await super().commit(conditions, operations)

    async def play() -> None:
        store = Away()
        registry = Registry(store)
        await registry.prepare()
        leader = Leader(registry, "scheduler", "first", QUICK)
        await leader._attempt()
        assert leader.fence is not None
        store.away = True
        async with asyncio.timeout(10):
            await leader.resign()
        assert leader.fence is None

    asyncio.run(play())


def test_a_leader_that_was_halted_binds_nothing_more() -> None:
    async def play() -> None:
        registry = await a_registry(node("one"))
        now = [0.0]
        first, second = (
            Leader(registry, "scheduler", name, QUICK, clock=lambda: now[0]) for name in ("first", "second")
        )
        await first._attempt()
        halted = first.fence
        assert halted is not None
        await second._attempt()
        early = second.fence
        assert early is None, "somebody leads"
        now[0] = 0.25
        lost = first.fence
        assert lost is None, "it could not renew in time"
        now[0] = 10.0
        await second._attempt()
        held = second.fence
        assert held is not None
        await registry.create(POD, fresh(pod("web")))
        late = registry.binding(Binding("default", "web", "one"))
        assert isinstance((await registry.commit_each([late], halted))[0], Fenced)
        assert not (await registry.get(POD, "default", "web"))["spec"].get("nodeName")
        outcome = (await registry.commit_each([late], held))[0]
        assert isinstance(outcome, dict) and outcome["spec"]["nodeName"] == "one"
        await second.resign()
        await first._attempt()
        again = first.fence
        assert again is not None, "nobody has to wait for one who resigned"

    asyncio.run(play())


def test_an_informer_tells_each_change_once_also_over_a_gap() -> None:
    async def play() -> None:
        store = MemoryStore()
        registry = Registry(store)
        await registry.prepare()
        events: list[ObjectEvent] = []
        informer = following_informer(registry, events.append)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        for name in ("a", "b"):
            await registry.create(POD, fresh(pod(name)))
        await until(lambda: _told(events, 2))
        task.cancel()
        await asyncio.wait([task])
        await registry.delete(POD, "default", "a")
        await registry.create(POD, fresh(pod("c")))
        await registry.delete(POD, "default", "b")
        await registry.create(POD, fresh(pod("b")))
        again = asyncio.create_task(informer.run())
        await until(lambda: _told(events, 6))
        changes = [(event.object["metadata"]["name"], event.type) for event in events]
        assert changes[2:] == [("a", "DELETED"), ("b", "DELETED"), ("b", "ADDED"), ("c", "ADDED")]
        await informer.resync()
        assert len(events) == 6, "nothing new"
        assert {name for _, name in informer.objects} == {"b", "c"}
        again.cancel()
        await asyncio.wait([again])
        with pytest.raises(NotFound):
            await registry.get(POD, "default", "a")

    asyncio.run(play())


async def _told(events: list[ObjectEvent], count: int) -> bool:
    return len(events) >= count


class Forgetful(Registry):
    """Its watches break off, as they do where the history was compacted."""

    breaks = 2

    async def watch(
        self, kind: Kind, namespace: str = "", after: int = 0, *, weighed: bool = False
    ) -> AsyncGenerator[ObjectEvent, None]:
        if self.breaks:
            self.breaks -= 1
            await self.create(POD, fresh(pod(f"unseen-{self.breaks}")))
            raise Gone("too old resource version")
        async with aclosing(super().watch(kind, namespace, after, weighed=weighed)) as events:
            async for event in events:
                yield event


def test_an_informer_lists_again_where_the_history_is_gone() -> None:
    async def play() -> None:
        registry = Forgetful(MemoryStore())
        await registry.prepare()
        events: list[ObjectEvent] = []
        informer = following_informer(registry, events.append)
        task = asyncio.create_task(informer.run())
        await until(lambda: _told(events, 2))
        await registry.create(POD, fresh(pod("seen")))
        await until(lambda: _told(events, 3))
        assert [event.object["metadata"]["name"] for event in events] == ["unseen-1", "unseen-0", "seen"]
        assert informer.relisted == 2
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(play())


def test_an_informer_ends_when_told_to_also_amid_a_resync() -> None:
    async def play() -> None:
        registry = await a_registry(node("one"))
        informer = Informer(registry, POD)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await asyncio.sleep(0.01)
        again = asyncio.create_task(informer.resync())
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60.0)
        assert done and task.cancelled()
        again.cancel()
        await asyncio.wait([again])

    asyncio.run(play())
