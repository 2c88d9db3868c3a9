"""Everything that runs real containers, killed again and again under churn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from tests.engine.faults.killing import Found
from tests.engine.faults.real_cluster import RealCluster, kill_one
from tests.engine.faults.rig import Rig, rigged

ENGINE, AGENT, RUNTIME, KEEPER = "engine", "agent", "containerd", "keeper"
_WORKERS, _PAUSE = 2, 0.4
SETTLE_SECONDS = 240.0
"""What was killed again and again backs off for up to a minute or two, as in Kubernetes."""


@dataclass
class RealFound(Found):
    """Of all kills together."""

    killed: dict[str, int] = field(default_factory=dict)
    containers: int = 0
    """That began."""
    shims_ended: int = 0
    """That containerd had forgotten when it was killed."""


async def kill_everything(
    cluster: RealCluster, kills: int, seed: int, say: Callable[[str], None] = lambda _: None
) -> RealFound:
    """Kill whatever the lot falls on; every tenth time it must come to rest, with nothing left over."""
    found, begun, draw = RealFound(), time.monotonic(), random.Random(seed)
    async with rigged(cluster.server, seed=seed, work=cluster.work) as rig:
        rig.churn.workers, rig.churn.pause = _WORKERS, _PAUSE
        while found.kills < kills and not found.broken:
            async with rig.churn.going_on():
                await asyncio.sleep(1.5)
                for _ in range(min(10, kills - found.kills)):
                    await asyncio.sleep(draw.random() * 1.5)
                    await _kill(cluster, found, draw)
            took = await rig.settled(SETTLE_SECONDS)
            found.longest_to_what_was_asked_for = max(found.longest_to_what_was_asked_for, took)
            found.note(rig)
            found.broken += [*cluster.work.doubled(), *await _orphans(cluster, rig)]
            found.containers, found.seconds = cluster.work.starts(), time.monotonic() - begun
            say(str(found.as_dict()))
        await rig.churn.emptied()
        await rig.settled(SETTLE_SECONDS)
        await gone(rig)
        found.note(rig)
        found.broken += cluster.work.doubled()
    for process in (cluster.engine, cluster.agent):
        if "Traceback" in process.said():
            found.broken.append(process.said()[-3000:])
    return found


async def _kill(cluster: RealCluster, found: RealFound, draw: random.Random) -> None:
    """One of them, and start it again where nobody else does."""
    targets = [ENGINE, AGENT, KEEPER, *([RUNTIME] if cluster.daemon is not None else [])]
    target = targets[(found.kills + draw.randrange(2)) % len(targets)]
    match target:
        case "engine" | "agent":
            process = cluster.engine if target == ENGINE else cluster.agent
            process.kill()
            await asyncio.sleep(draw.random() * 0.5)
            found.longest_start = max(found.longest_start, await process.start())
        case "containerd":
            assert cluster.daemon is not None
            cluster.daemon.kill()
            await asyncio.sleep(draw.random())
            await asyncio.to_thread(cluster.daemon.start)
        case "keeper":
            there = cluster.keepers()
            if not there or not kill_one(draw.choice(there)):
                return
        case _:
            assert_never(target)  # type: ignore[arg-type]
    found.kills += 1
    found.killed[target] = found.killed.get(target, 0) + 1


async def _orphans(cluster: RealCluster, rig: Rig) -> list[str]:
    """Processes of pods that do not stand: looked for again where one may only just be ending."""
    for _ in range(100):
        pods, _ = await rig.client.list("pods")
        alive = {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running")}
        strangers = cluster.running() - alive
        if not strangers:
            return []
        await asyncio.sleep(0.1)
    return [f"pod {uid} is gone, and runs" for uid in sorted(strangers)]


async def gone(rig: Rig) -> None:
    """Until there is no pod any more."""
    for _ in range(600):
        if not (await rig.client.list("pods"))[0]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("pods are left that nobody asked for")
