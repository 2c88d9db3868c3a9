"""Drawn trouble in a whole small cluster: nothing runs twice or beyond a node's room, and in the end there is
what was asked for."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from proreus.engine.controllers.nodes.lifecycle import Patience
from proreus.engine.objects.conditions import find_condition
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, POD
from proreus.engine.runtimes.protocol import Phase
from tests.engine.controllers.clusters import Cluster, cluster, deployment, job, template
from tests.engine.controllers.virtual_time import play

NODES = 5


@pytest.mark.parametrize("seed", range(4))
def test_the_cluster_comes_to_what_was_asked_for_after_any_trouble(seed: int) -> None:
    async def main() -> None:
        async with cluster(NODES, Patience(grace=40, toleration=20)) as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=6))
            wanted = job(duration=40, completions=12, parallelism=3, backoffLimit=10_000)
            wanted["spec"]["template"]["metadata"]["annotations"]["proreus.io/failure-rate"] = "0.2"
            await made.registry.create(JOB, wanted)
            guard = asyncio.create_task(_guard(made))
            await _trouble(made, random.Random(seed))
            made.start_nodes(*(_names() - made.hosts.keys()), keep_runtimes=True)
            await _change(made, replicas=6)
            await made.until(lambda: _as_asked(made), 7200)
            assert not guard.done(), guard.exception()
            guard.cancel()

    play(main())


@pytest.mark.parametrize("seconds", [3.0, 200.0])
def test_agents_outlive_a_store_that_goes_away(seconds: float) -> None:
    """Nobody is evicted for a silence that was the store's, and what ended meanwhile is told afterwards."""

    async def main() -> None:
        async with cluster(NODES, Patience(grace=40, toleration=20)) as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=6))
            await made.registry.create(JOB, job(duration=10, completions=6, parallelism=3))
            await asyncio.sleep(8)
            kept = {pod["metadata"]["uid"] for pod in await made.list(POD) if _of_web(pod)}
            made.store.away = True
            await asyncio.sleep(seconds)
            made.store.away = False
            await made.until(lambda: _job_done(made), 300)
            assert {pod["metadata"]["uid"] for pod in await made.list(POD) if _of_web(pod)} == kept
            await _change(made, replicas=8)
            await made.until(lambda: _runs(made, 8), 60)

    play(main())


def _of_web(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"].get("app") == "web")


async def _job_done(made: Cluster) -> bool:
    return find_condition(await made.registry.get(JOB, "default", "sum"), "Complete") is not None


async def _runs(made: Cluster, number: int) -> bool:
    pods = [pod for pod in await made.list(POD) if _of_web(pod)]
    return len(pods) == number and all(pod["status"]["phase"] == "Running" for pod in pods)


async def _trouble(made: Cluster, draw: random.Random) -> None:
    """Forty things that may happen, at drawn moments."""
    for step in range(40):
        await asyncio.sleep(draw.expovariate(1 / 12))
        what = draw.choice(["stop", "start", "scale", "delete", "force", "image"])
        if what == "stop" and len(made.hosts) > 2:
            await made.stop_node(draw.choice(sorted(made.hosts)))
        elif what == "start" and _names() - made.hosts.keys():
            # With its memory, as after a restart of the agent, or without, as after one of the machine.
            name = draw.choice(sorted(_names() - made.hosts.keys()))
            made.start_nodes(name, keep_runtimes=draw.random() < 0.5)
        elif what == "scale":
            await _change(made, replicas=draw.randrange(9))
        elif what == "image":
            await _change(made, template=template(f"nginx:{step}", app="web"))
        elif what in ("delete", "force"):
            pods = await made.list(POD)
            if pods:
                pod = draw.choice(pods)["metadata"]
                grace = 0 if what == "force" else None
                try:
                    await made.registry.delete(POD, pod["namespace"], pod["name"], grace=grace)
                except StatusError:
                    continue


async def _guard(made: Cluster) -> None:
    """No pod in two runtimes at once, no node beyond its room, at any moment."""
    while True:
        places = Counter(use.uid for runtime in made.runtimes.values() for use in runtime.stats())
        assert not places or max(places.values()) == 1, places
        for name, runtime in made.runtimes.items():
            running = [use.uid for use in runtime.stats()]
            assert len(running) * 100 <= 8000, name
        await asyncio.sleep(0.1)


async def _as_asked(made: Cluster) -> bool:
    obj = await made.registry.get(DEPLOYMENT, "default", "web")
    work = await made.registry.get(JOB, "default", "sum")
    status = obj.get("status", {})
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    done = find_condition(work, "Complete")
    if counts != [6, 6, 6] or done is None or work["status"]["succeeded"] != 12:
        return False
    pods = [pod for pod in await made.list(POD) if pod["status"]["phase"] == "Running"]
    run = {
        report.uid
        for runtime in made.runtimes.values()
        for report in runtime.adopt(())
        if any(container.phase is Phase.RUNNING for container in report.containers)
    }
    return {pod["metadata"]["uid"] for pod in pods} == run and len(run) == 6


def _names() -> set[str]:
    return {f"node-{number}" for number in range(NODES)}


async def _change(made: Cluster, **spec: Any) -> None:
    def changed(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "spec": {**obj["spec"], **spec}}

    await made.registry.edit(DEPLOYMENT, "default", "web", changed)
