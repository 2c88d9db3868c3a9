"""Of several that stand for election one leads at a time, by nobody's wall clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from proreus.kubeclient.client import ClientOptions, KubeClient, RetryPolicy
from proreus.kubeclient.fake import FakeApiServer
from proreus.kubeclient.leases import LeaseDurations, LeaseElection

_OPTIONS = ClientOptions(retry=RetryPolicy(seconds=0.05, first=0.01, longest=0.02))
_DURATIONS = LeaseDurations(lease=0.6, renew=0.4, retry=0.05)


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


def _election(server: FakeApiServer, who: str) -> LeaseElection:
    return LeaseElection(KubeClient(server, _OPTIONS), ("kube-system", "x"), who, _DURATIONS)


def _scene(work: Callable[[FakeApiServer], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            await work(FakeApiServer())

    asyncio.run(main())


def test_one_leads_and_when_it_is_killed_another_does() -> None:
    async def work(server: FakeApiServer) -> None:
        elections = [_election(server, f"e{n}") for n in range(3)]
        tasks = [asyncio.create_task(election.run()) for election in elections]
        led: list[int] = []

        def leaders() -> list[int]:
            return [n for n, election in enumerate(elections) if election.term is not None]

        for _ in range(3):
            await _until(lambda: bool(leaders()))
            (leader,) = leaders()
            led.append(leader)
            tasks[leader].cancel()
            while leader in leaders():  # it stops by itself, before another begins
                assert leaders() == [leader]
                await asyncio.sleep(0.01)
            elections[leader] = _election(server, f"e{leader}-again")
            tasks[leader] = asyncio.create_task(elections[leader].run())
        lease = server.all("leases", "coordination.k8s.io")[0]
        assert lease["spec"]["leaseTransitions"] >= 2
        for task in tasks:
            task.cancel()

    _scene(work)


def test_who_resigns_lets_another_lead_at_once() -> None:
    async def work(server: FakeApiServer) -> None:
        first, second = _election(server, "first"), _election(server, "second")
        task = asyncio.create_task(first.run())
        await _until(lambda: first.term is not None)
        other = asyncio.create_task(second.run())
        task.cancel()
        await first.resign()
        assert first.term is None
        began = asyncio.get_running_loop().time()
        await _until(lambda: second.term is not None)
        assert asyncio.get_running_loop().time() - began < 0.5
        other.cancel()

    _scene(work)


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00.000000Z", "2400-01-01T00:00:00.000000Z"])
def test_the_clock_of_the_holder_says_nothing(renewed: str) -> None:
    """A holder whose clock is centuries off is let alone while it renews, and replaced when it does not."""

    async def work(server: FakeApiServer) -> None:
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": renewed}

        def renew(n: int) -> None:
            lease = {
                "metadata": {"name": "x", "namespace": "kube-system"},
                "spec": {**spec, "leaseTransitions": n},
            }
            server.put("leases", lease, "coordination.k8s.io")

        renew(0)
        mine = _election(server, "mine")
        task = asyncio.create_task(mine.run())
        for n in range(8):
            await asyncio.sleep(0.2)
            renew(n)
            assert mine.term is None
        await _until(lambda: mine.term is not None)
        task.cancel()

    _scene(work)


def test_a_leader_that_cannot_renew_stops_before_others_may_begin() -> None:
    async def work(server: FakeApiServer) -> None:
        mine = _election(server, "mine")
        task = asyncio.create_task(mine.run())
        await _until(lambda: mine.term is not None)
        server.down = True
        mine.changed.clear()
        began = asyncio.get_running_loop().time()
        await mine.changed.wait()
        assert mine.term is None and asyncio.get_running_loop().time() - began < _DURATIONS.lease
        server.down = False
        await _until(lambda: mine.term == 2)
        task.cancel()

    _scene(work)
