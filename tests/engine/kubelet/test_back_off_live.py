"""Containers that crash on one node, in virtual time: each is tried again when its own pause is over."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from proreus.engine.objects.kinds import POD
from proreus.engine.runtimes.protocol import Phase, PodReport
from proreus.engine.runtimes.simulated.draws import EXIT_CODE, START_LATENCY
from proreus.kube.owners import DURATION
from tests.engine.controllers.clusters import cluster
from tests.engine.controllers.virtual_time import loop_now, play

_PODS = 4
_APART = 1.5
"""Seconds from one pod to the next, so that each has moments of its own."""


def test_several_crashing_pods_of_a_node_keep_to_their_own_pauses() -> None:
    begun: dict[str, dict[int, float]] = defaultdict(dict)
    ended: dict[str, dict[int, float]] = defaultdict(dict)

    async def scene() -> None:
        async with cluster(nodes=1, schedule=False) as made:
            (name,) = made.runtimes
            runtime = made.runtimes[name]
            hear = runtime._hear  # the agent goes on hearing

            def both(report: PodReport) -> None:
                for container in report.containers:
                    seen = ended if container.phase is Phase.EXITED else begun
                    seen[report.uid].setdefault(container.attempt, loop_now().time())
                hear(report)

            runtime.subscribe(both)
            marks = {EXIT_CODE: "3", DURATION: "2", START_LATENCY: "0.01"}
            for number in range(_PODS):
                metadata = {"name": f"crash-{number}", "namespace": "default", "annotations": marks}
                spec = {"containers": [{"name": "main", "image": "none"}]}
                await made.registry.create(POD, {"metadata": metadata, "spec": spec})
                await made.registry.bind("default", f"crash-{number}", name)
                await asyncio.sleep(_APART)
            await asyncio.sleep(120)

    play(scene())
    assert len(begun) == _PODS
    for uid in begun:
        pauses = [begun[uid][attempt + 1] - ended[uid][attempt] for attempt in range(4)]
        assert pauses == pytest.approx([0, 10, 20, 40], abs=0.1)
