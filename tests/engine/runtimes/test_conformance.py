"""What every runtime promises, the pretended one included: orders, reports, and taking up what ran."""

from __future__ import annotations

import asyncio

import pytest

from proreus.engine.runtimes.protocol import LogWanted, Phase, RuntimeRefused
from tests.engine.runtimes.benches import PATIENCE, Place, container, lasting, pod_of


def test_a_container_starts_ends_and_tells_its_exit_code(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            pod = pod_of(container("exit 3"), annotations=lasting("0.05") | {"proreus.io/exit-code": "3"})
            end, _ = await bench.run(pod)
            assert (end.exit_code, end.reason, end.attempt) == (3, "Error", 0)
            assert end.id and 0 < end.started <= end.finished
            assert bench.reports[pod["metadata"]["uid"]].address
            well = pod_of(container("true"), annotations=lasting("0.05"))
            end, _ = await bench.run(well)
            assert (end.exit_code, end.reason) == (0, "Completed")

    asyncio.run(scene())


def test_orders_given_twice_do_no_more_than_once(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            pod = pod_of(container("sleep 60"), annotations=lasting("60"))
            uid = pod["metadata"]["uid"]
            for _ in range(2):
                bench.runtime.start(pod, ["main"])
            first = await bench.running(uid)
            bench.runtime.start_container(uid, "main", 0)
            await asyncio.sleep(0.2)
            assert bench.reports[uid].containers == (first,)
            for _ in range(2):
                bench.runtime.stop(uid, 0.0)
            await bench.ended(uid)
            for _ in range(2):
                bench.runtime.remove(uid)
            assert bench.runtime.adopt([]) == []

    asyncio.run(scene())


def test_the_next_attempt_is_the_agents_order(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            annotations = lasting("0.05") | {"proreus.io/exit-code": "1"}
            pod = pod_of(container("exit 1"), restartPolicy="Always", annotations=annotations)
            uid = pod["metadata"]["uid"]
            first, _ = await bench.run(pod)
            bench.runtime.start_container(uid, "main", 1)
            second = await bench.ended(uid, attempt=1)
            assert second.id != first.id and second.started >= first.finished

    asyncio.run(scene())


def test_stopping_what_has_ended_or_is_unknown_is_no_matter(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            bench.runtime.stop("nobody", 1.0)
            bench.runtime.remove("nobody")
            bench.runtime.start_container("nobody", "main", 0)
            pod = pod_of(container("true"), annotations=lasting("0.05"))
            end, _ = await bench.run(pod)
            await bench.stop(pod["metadata"]["uid"])
            assert bench.reports[pod["metadata"]["uid"]].containers == (end,)

    asyncio.run(scene())


def test_a_pod_that_is_stopped_while_it_starts_ends(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            pod = pod_of(container("sleep 60"), annotations=lasting("60"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            bench.runtime.stop(uid, 0.0)
            end = await bench.ended(uid)
            assert end.exit_code == 137

    asyncio.run(scene())


def test_logs_and_commands_of_what_is_not_there_are_refused(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            pod = pod_of(container("true"), annotations=lasting("0.05"))
            uid = pod["metadata"]["uid"]
            await bench.run(pod)
            with pytest.raises(RuntimeRefused):
                await bench.text("nobody")
            with pytest.raises(RuntimeRefused):
                await bench.text(uid, "other")
            with pytest.raises(RuntimeRefused):
                await bench.text(uid, previous=True)
            with pytest.raises(RuntimeRefused):
                await bench.runtime.execute(uid, "main", ["true"])

    asyncio.run(scene())


def test_a_new_runtime_takes_up_what_runs(place: Place) -> None:
    """The agent ends; what ran runs on, and ends once."""

    async def scene() -> None:
        pod = pod_of(container("sleep 60"), annotations=lasting("60"))
        uid = pod["metadata"]["uid"]
        async with place.open() as bench:
            bench.runtime.start(pod, ["main"])
            before = await bench.running(uid)
        state = {"startedAt": "2026-01-01T00:00:00Z"}
        pod["status"] = {
            "podIP": "10.0.0.1",
            "containerStatuses": [{"name": "main", "state": {"running": state}, "containerID": before.id}],
        }
        async with place.bench() as bench:
            (report,) = bench.runtime.adopt([pod] if place.name == "simulated" else [])
            (again,) = report.containers
            assert (again.phase, again.id, again.attempt) == (Phase.RUNNING, before.id, 0)
            assert [report.uid for report in bench.runtime.adopt([])] == [uid]
            await bench.stop(uid)

    asyncio.run(scene())


def test_capacity_and_use_are_told(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            has = bench.runtime.capacity()
            assert set(has.amounts) >= {"cpu", "memory", "pods"} and set(has.allocatable) == set(has.amounts)
            pod = pod_of(container("while :; do :; done"), annotations=lasting("60"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            bench.runtime.stats()
            await asyncio.sleep(0.5)
            (use,) = bench.runtime.stats()
            async with asyncio.timeout(PATIENCE):
                while use.cpu <= (50 if place.real else 0):  # a busy machine may give a loop little at first
                    await asyncio.sleep(0.5)
                    (use,) = bench.runtime.stats()
            assert (use.uid, use.container) == (uid, "main")
            assert use.memory > 0
            await bench.stop(uid)
            assert bench.runtime.stats() == []

    asyncio.run(scene())


def test_following_a_log_ends_with_the_container(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            script = "echo one; sleep 0.3; echo two; sleep 0.3; echo three"
            pod = pod_of(container(script), annotations=lasting("0.6"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            lines = [line async for line in bench.runtime.logs(uid, LogWanted("main", follow=True))]
            assert len(lines) >= 2 and all(line.endswith(b"\n") for line in lines)
            if place.real:
                assert lines == [b"one\n", b"two\n", b"three\n"]

    asyncio.run(scene())
