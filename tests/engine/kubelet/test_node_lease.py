"""One process a node, and one range of addresses a pool."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.engine.kubelet.heartbeats import Heartbeats, Housed
from proreus.engine.kubelet.node_lease import NodeTaken, claimed, left_behind, released
from proreus.engine.kubelet.node_status import LEASE_SECONDS, NodeSpec, new_lease, renewed_lease
from proreus.engine.kubelet.pod_addresses import (
    MOST_NUMBERS,
    allot,
    allotted,
    node_address,
    pod_network,
)
from proreus.engine.kubelet.usage.reporter import NodeLoad, UsageReporter
from proreus.engine.objects.kinds import NODE
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.runtimes.stats import TOPIC
from proreus.engine.store.memory import MemoryStore
from proreus.model.errors import WorkError
from tests.engine.controllers.virtual_time import loop_now, play

NOW = 1_800_000_000.0


def test_a_node_is_one_process_s_until_it_ends_or_falls_silent() -> None:
    ours = claimed(new_lease("n", NOW), "a", NOW)
    assert claimed(ours, "a", NOW + 5)["metadata"] == ours["metadata"], "started again, it goes on"
    with pytest.raises(NodeTaken, match=r"another process \(a\) runs the node n.* 5 s ago.* wait 35 s"):
        claimed(ours, "b", NOW + 5)
    with pytest.raises(NodeTaken):
        claimed(renewed_lease(ours, NodeLoad(0, 0, 0), NOW + 100), "b", NOW + 100 + LEASE_SECONDS - 1)
    theirs = claimed(ours, "b", NOW + LEASE_SECONDS)
    with pytest.raises(NodeTaken):  # who slept meanwhile does not take it back
        claimed(renewed_lease(theirs, NodeLoad(0, 0, 0), NOW + LEASE_SECONDS), "a", NOW + LEASE_SECONDS + 1)
    let_go = released(ours, "a")
    assert let_go is not None
    again = claimed(let_go, "b", NOW + 1)
    with pytest.raises(NodeTaken):  # that it had been let go counts no more
        claimed(again, "a", NOW + 2)
    assert released(again, "a") is None


def test_a_lease_that_tells_no_time_holds_nothing() -> None:
    lease = claimed(new_lease("n", NOW), "a", NOW)
    for spec in ({}, {"renewTime": "yesterday"}):
        assert claimed({**lease, "spec": spec}, "b", NOW)["metadata"]["name"] == "n"


def test_left_behind_is_what_the_same_process_ran_and_does_not_run() -> None:
    leases = [
        claimed(new_lease(name, NOW), process, NOW) for name, process in (("b", "p"), ("a", "p"), ("c", "q"))
    ]
    assert left_behind(leases, "p", ["a"]) == ["b"]
    assert left_behind(leases, "p", ["a", "b"]) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 600)), max_size=12))
def test_no_two_pools_ever_share_a_number(steps: list[tuple[str, int]]) -> None:
    ranges: dict[str, str] = {}
    given_out: dict[int, str] = {}
    for pool, count in steps:
        ranges, first = allotted(ranges, pool, count)
        for number in range(first, first + count):
            assert given_out.setdefault(number, pool) == pool
    assert allotted(ranges, "a", 0)[0].keys() >= ranges.keys()


def test_numbers_are_addresses_of_their_own_and_run_out() -> None:
    numbers = (0, 1, 249, 250, 62_499)
    assert (
        len({node_address(number) for number in numbers} | {pod_network(number) for number in numbers}) == 10
    )
    assert (node_address(250), pod_network(250)) == ("10.0.1.1", "10.2.0")
    with pytest.raises(WorkError, match="no addresses are left"):
        allotted({"a": f"0+{MOST_NUMBERS}"}, "b", 1)
    assert allotted({"a": "nonsense"}, "b", 1)[1] == 0


def test_pools_that_come_at_once_see_each_other_in_the_store() -> None:
    async def scene() -> list[int]:
        registry = Registry(MemoryStore())
        await registry.prepare()
        return await asyncio.gather(*(allot(registry, pool, 10) for pool in ("a", "b", "c", "a")))

    a, b, c, again = asyncio.run(scene())
    assert a == again and sorted({a, b, c}) == [0, 10, 20]


def test_a_sign_of_life_from_the_future_holds_a_node_only_if_another_follows() -> None:
    """A clock that was put back must not keep a node for hours, nor one that is ahead give it away."""
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}

    async def scene(*, lives: bool) -> float:
        registry, runtime = (
            Registry(MemoryStore()),
            SimulatedRuntime(Capacity(amounts, amounts), LoopTimers()),
        )
        await registry.prepare()

        def beats(process: str, ahead: float) -> Heartbeats:
            timers = LoopTimers(lambda: loop_now().wall() + ahead)
            housed = {"n": Housed(NodeSpec("n", "10.0.0.1"), runtime)}
            measuring = UsageReporter({"n": runtime}, registry.notes(TOPIC))
            return Heartbeats(registry, timers, housed, lambda _: True, measuring, process)

        first = beats("p", 7200.0)
        await first.claim()
        running = asyncio.ensure_future(first.run()) if lives else None
        began = loop_now().time()
        try:
            await beats("q", 0.0).claim()
        finally:
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        return loop_now().time() - began

    assert play(scene(lives=False)) == LEASE_SECONDS
    with pytest.raises(NodeTaken, match=r"dated its last sign of life 7\d+ s ahead"):
        play(scene(lives=True))


def test_nodes_that_a_smaller_start_lacks_are_told() -> None:
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}

    async def scene() -> tuple[list[str], list[str]]:
        registry, timers = Registry(MemoryStore()), LoopTimers()
        await registry.prepare()

        def beats(*names: str, process: str) -> Heartbeats:
            runtime = SimulatedRuntime(Capacity(amounts, amounts), timers)
            housed = {name: Housed(NodeSpec(name, "10.0.0.1"), runtime) for name in names}
            measuring = UsageReporter(dict.fromkeys(names, runtime), registry.notes(TOPIC))
            return Heartbeats(registry, timers, housed, lambda _: True, measuring, process)

        first = beats("n-1", "n-2", "n-3", process="p")
        await first.claim()
        await first.register()
        with pytest.raises(NodeTaken, match="runs the node n-3"):
            await beats("n-3", process="q").claim()
        await first.release()
        await beats("n-3", process="q").claim()
        await registry.delete(NODE, "", "n-2")
        second = beats("n-1", process="p")
        await second.claim()
        await first.release()
        return await second.left_behind(), await beats(process="q").left_behind()

    assert asyncio.run(scene()) == ([], ["n-3"])
