"""`python -m tests.engine.faults.soak --minutes 10 --runtime runc`: pods begin and end as fast as it goes.

Every minute a line of JSON: how many pods have come and gone, and what the engine holds on the machine.
With `--runtime simulated` the nodes are; `--pods` ends it when so many have gone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.engine.faults.client import PATHS, Client
from tests.engine.faults.processes import EngineProcess, up
from tests.engine.faults.real_cluster import RealCluster, real_cluster
from tests.engine.faults.workloads import Object, pod_of
from tests.engine.runtimes.leftovers import cgroups

_IN_FLIGHT = 16
_ANY: Object = {"name": "main", "image": "any"}
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def held(cluster: RealCluster) -> dict[str, int]:
    """What there is of it on the machine, in KiB and in pieces."""
    found: dict[str, int] = {}
    for name, process in (("engine", cluster.engine), ("agent", cluster.agent)):
        found[f"{name}_kib"], found[f"{name}_fds"] = _of_process(process)
    if cluster.daemon is not None:
        found["containerd_kib"], found["containerd_fds"] = _of_pid(cluster.daemon.pid)
    found["node_disk_kib"] = _disk(cluster.options.root)
    found["store_disk_kib"] = _disk(cluster.engine.folder)
    found["cgroups"] = sum(
        1
        for parent in cgroups(cluster.options.own_name)
        for _, folders, _ in os.walk(parent)
        for _ in folders
    )
    found["mounts"] = Path("/proc/self/mounts").read_text().count(str(cluster.work.notes.parent))
    return found


def _of_process(process: EngineProcess) -> tuple[int, int]:
    assert process.process is not None
    return _of_pid(process.process.pid)


def _of_pid(pid: int) -> tuple[int, int]:
    """KiB in memory, and open files."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * _PAGE_KIB, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _disk(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(Path(place, name)).st_blocks // 2
            except FileNotFoundError:  # it goes with its pod
                continue
    return total


@dataclass(frozen=True)
class Churned:
    """Pods that end at once, so many at a time, asked for at a server."""

    server: str
    pod: Callable[[str], Object]
    in_flight: int
    most: float = math.inf

    async def soak(self, seconds: float, say: Callable[[float, int], None]) -> None:
        """Pods come and go, until the time is over or the most have; told once a minute and at the end:
        seconds, and how many have."""
        client, done, numbers = Client((self.server,)), 0, itertools.count()
        begun = looked = time.monotonic()
        asked: set[str] = set()
        try:
            while (on := time.monotonic() - begun < seconds and done < self.most) or asked:
                leaving = asked & await _ended(client)
                await asyncio.gather(*(client.ask("DELETE", f"{PATHS['pods']}/{name}") for name in leaving))
                asked -= leaving
                done += len(leaving)
                more = self.in_flight - len(asked) if on else 0
                new = [f"short-{next(numbers)}" for _ in range(more)]
                await asyncio.gather(*(client.ask("POST", PATHS["pods"], self.pod(name)) for name in new))
                asked |= set(new)
                if time.monotonic() - looked >= 60.0:
                    looked = time.monotonic()
                    say(looked - begun, done)
                await asyncio.sleep(0.1)
            while (await client.list("pods"))[0]:
                await asyncio.sleep(0.2)
        finally:
            await client.close()
        say(time.monotonic() - begun, done)


async def _ended(client: Client) -> set[str]:
    pods, _ = await client.list("pods")
    return {pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Succeeded"}


async def soak_real(folder: Path, runtime: str, seconds: float) -> None:
    """On this machine."""
    async with real_cluster(folder, runtime) as cluster:

        def short(name: str) -> Object:
            made = pod_of(name, cluster.work.template({"short": name}, cluster.work.container("echo done")))
            return {**made, "spec": {**made["spec"], "restartPolicy": "Never"}}

        def say(after: float, pods: int) -> None:
            _say({"seconds": round(after), "pods": pods, **held(cluster)})

        say(0.0, 0)
        await Churned(cluster.server, short, _IN_FLIGHT).soak(seconds, say)
        await cluster.end()


async def soak_simulated(folder: Path, seconds: float, most: float = math.inf) -> None:
    """On simulated nodes: many more pods in the same time."""
    engine, server = up(folder / "up", "--nodes", "8")
    await engine.start()
    at_once = {"proreus.io/start-latency": "0.01", "proreus.io/duration": "0.01"}

    def short(name: str) -> Object:
        template = {"metadata": {"annotations": at_once}, "spec": {"containers": [_ANY]}}
        made = pod_of(name, template)
        return {**made, "spec": {**made["spec"], "restartPolicy": "Never"}}

    def say(after: float, pods: int) -> None:
        kib, files = _of_process(engine)
        disk = _disk(engine.folder)
        _say({"seconds": round(after), "pods": pods, "kib": kib, "fds": files, "store_disk_kib": disk})

    try:
        say(0.0, 0)
        await Churned(server, short, 20 * _IN_FLIGHT, most=most).soak(seconds, say)
    finally:
        engine.end(signal.SIGTERM)


def _say(told: Object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--runtime", choices=("simulated", "process", "runc", "containerd"), default="runc")
    parser.add_argument("--pods", type=float, default=math.inf, help="simulated: end when so many have gone")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if chosen.runtime == "simulated":
            asyncio.run(soak_simulated(Path(name), chosen.minutes * 60.0, chosen.pods))
        else:
            asyncio.run(soak_real(Path(name), chosen.runtime, chosen.minutes * 60.0))


if __name__ == "__main__":
    main()
