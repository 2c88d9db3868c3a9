"""Days of a whole engine on simulated GPU nodes, in virtual time: what is recorded, learned, promoted.

    python -m tests.engine.days --pods 600 --seconds 1650 --days 2 --generations 10

plays the loop at length: a day under kube is recorded, a policy is trained on it, put up as a candidate,
judged, promoted; the next days go by, and a worse candidate is put up after it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proreus.cli.main import main as proreus
from proreus.engine.api.v1 import schedulers
from proreus.engine.controllers.promotion.controller import PromotionOptions
from proreus.engine.controllers.promotion.core import Evidence, GateOptions, shorter_waits
from proreus.engine.controllers.promotion.evaluation import Case, weigh
from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.host import FOLLOWED, ResourceHost
from proreus.engine.kubelet.node_status import NodeSpec
from proreus.engine.leader_only import Controllers
from proreus.engine.objects.kinds import NODE, POD
from proreus.engine.objects.promotions import Promotion
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.draws import Habits
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.scheduler.agent import AgentOptions, SchedulingAgent
from proreus.engine.scheduler.core import SchedulingOptions
from proreus.engine.store.factory import open_store
from proreus.engine.store.memory import MemoryStore
from proreus.engine.store.protocol import Put
from proreus.engine.trace.log import TraceLog
from proreus.engine.trace.segments import PREFIX, trace_of
from proreus.engine.watch.informer import Informer
from proreus.model.cluster_trace import ClusterTrace
from proreus.model.duel import Contest, Duel
from proreus.worlds.pods.training.duel import contest
from tests.engine.controllers.virtual_time import loop_now, play

SCHEDULER = "default-scheduler"
PLAY = "proreus.worlds.pods.training.duel:contest"
NODES = 6
_ROOM = {"cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}
_GATE = GateOptions(least_pods=150, least_each=20)


async def _weigh_here(values: Sequence[bytes], case: Case) -> Evidence:
    """Virtual time stands still meanwhile."""
    return weigh(values, case)


@dataclass
class Days:
    """A cluster that lives through days."""

    registry: Registry
    store: MemoryStore
    pods: int
    """A day."""
    seconds: float
    """Of a day."""
    day: int = 0

    async def live(self, share: float = 1.0) -> tuple[float, float]:
        """A day, or a share of one, with pods of its own; from when to when."""
        self.day += 1
        draw, begin = random.Random(self.day), loop_now().wall()
        for number in range(round(share * self.pods)):
            await asyncio.sleep(draw.expovariate(self.pods / self.seconds))
            await self.registry.create(POD, gpu_pod(f"day-{self.day}-{number}", draw))
        return begin, loop_now().wall()

    async def put_up(self, policy: str, candidate: str) -> None:
        """A candidate for the place of a policy, as PUT /v1/schedulers does it."""
        await schedulers.switch(self.registry, SCHEDULER, Chosen(policy, candidate=candidate, share=0.2))

    async def promotion(self) -> Promotion | None:
        """Where the candidate stands."""
        return (await schedulers.promotions(self.registry)).get(SCHEDULER)

    async def trace(self) -> ClusterTrace:
        """What was recorded so far."""
        await asyncio.sleep(6)  # the recorder writes every five seconds
        return trace_of([segment async for segment in TraceLog(self.store).read()])

    async def keep(self, path: Path) -> None:
        """The trace in a file, as a cluster that was stopped leaves it."""
        await asyncio.sleep(6)
        entries = (await self.store.list(PREFIX)).entries

        async def write() -> None:
            opened = await open_store(str(path))
            await opened.commit([], [Put(entry.key, entry.value) for entry in entries])
            await opened.close()

        # A file takes real time, in which none must pass here.
        writing = threading.Thread(target=lambda: asyncio.run(write()))
        writing.start()
        writing.join()


def gpu_pod(name: str, draw: random.Random) -> dict[str, Any]:
    """Parts of a GPU, whole ones, and all four of a node."""
    kind = draw.random()
    annotations = {
        "proreus.io/duration": str(draw.choice((15, 30, 45, 60))),
        "proreus.io/start-latency": "0.5",
    }
    requests = {"cpu": "2", "memory": "1Gi"}
    if kind < 0.55:
        annotations["proreus.io/gpu-milli"] = draw.choice(("250", "500"))
    else:
        requests["nvidia.com/gpu"] = "1" if kind < 0.85 else "4"
    container = {
        "name": "main",
        "image": "app",
        "resources": {"requests": requests, "limits": dict(requests)},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


@asynccontextmanager
async def days(pods: int, seconds: float, runs: Path) -> AsyncIterator[Days]:
    """A cluster with every agent of the engine, in the loop's virtual time; policies lie in `runs`."""
    loop = loop_now()
    scheduling = SchedulingOptions(policy_folders=(runs,))
    store = MemoryStore(loop.time)
    registry = Registry(store, loop.wall)
    await registry.prepare()
    timers = LoopTimers(loop.wall)
    promotion = PromotionOptions(PLAY, seconds / 8, _GATE, _weigh_here, scheduling.folders)
    scheduler = SchedulingAgent(registry, AgentOptions(scheduling, events=False), loop.wall, loop.wall)
    controllers = Controllers(registry, timers, "controllers", promotion=promotion)
    informers = {kind: Informer(registry, kind) for kind in FOLLOWED}
    room = Capacity(_ROOM, _ROOM)
    housed = [
        Housed(NodeSpec(f"node-{place}", f"10.0.0.{place}"), SimulatedRuntime(room, timers, Habits()))
        for place in range(1, NODES + 1)
    ]
    host = ResourceHost(registry, timers, housed, informers)
    parts = [
        host.run(),
        scheduler.run(),
        controllers.run(),
        *(informer.run() for informer in informers.values()),
    ]
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        while len((await registry.list(NODE)).items) < NODES or scheduler.leader.fence is None:
            await asyncio.sleep(1)
        yield Days(registry, store, pods, seconds)
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def train(store: Path, run: Path, generations: int = 2) -> Path:
    """A policy from what was recorded, by the command that a user would give."""
    where = f"--format engine --from {store} --until 2100-01-01 --out {run}"
    how = f"--algo es --measure wait_mean --generations {generations} --evaluate-every {generations}"
    few = "--population 8 --train-seeds 2 --validation-seeds 3 --confirm-seeds 4 --processes 1 --quiet"
    assert proreus(["train", "pods", *f"{where} {how} {few}".split()]) == 0
    return run


def waits_of(trace: ClusterTrace, since: float, until: float) -> list[float]:
    """Seconds from creation to a node of the pods that came meanwhile."""
    came = [pod for pod in trace.pods if since <= pod.created < until]
    return [(pod.bound or until) - pod.created for pod in came]


def replayed(trace: ClusterTrace, policy: str, candidate: str, stretch: tuple[float, float]) -> Duel:
    """The two over a stretch of the trace."""
    return contest(trace, Contest(policy, candidate, *stretch))


async def _at_length(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = {}
    async with days(arguments.pods, arguments.seconds, folder) as living:
        first = await living.live()
        await living.keep(folder / "day.db")
        better = str(train(folder / "day.db", folder / "run", arguments.generations))
        await living.put_up("kube", better)
        for _ in range(arguments.days):
            await living.live()
            told.setdefault("candidate", []).append(_shown(await living.promotion()))
        third = await living.live()
        trace = await living.trace()
        told["mean wait, day under kube"] = _mean(waits_of(trace, *first))
        told["mean wait, last day"] = _mean(waits_of(trace, *third))
        again = replayed(trace, "kube", better, third)
        told["last day replayed (kube, candidate)"] = again.waits[0]
        told["part of the wait that the candidate saves there"] = asdict(shorter_waits(again))
        await living.put_up(better, "worst_fit")
        for _ in range(arguments.days):
            await living.live()
            told.setdefault("worse candidate", []).append(_shown(await living.promotion()))
        trace = await living.trace()
        told["pods of the worse one"] = sum(pod.policy == "worst_fit" for pod in trace.pods)
    return told


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _shown(promotion: Promotion | None) -> str:
    return "" if promotion is None else f"{promotion.stage}: {promotion.told}"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=2750.0)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--generations", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(play(_at_length(arguments, Path(folder))), indent=1) + "\n")


if __name__ == "__main__":
    main()
