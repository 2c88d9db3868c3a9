"""`python -m tests.engine.faults.soak --minutes 10 --runtime runc`: pods begin and end as fast as it goes.

Every minute a line of JSON: how many pods have come and gone, and what the engine holds on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engine.faults.client import PATHS, Client
from tests.engine.faults.processes import EngineProcess
from tests.engine.faults.real_cluster import RealCluster, real_cluster
from tests.engine.faults.workloads import pod_of
from tests.engine.runtimes.leftovers import cgroups

_IN_FLIGHT = 16
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


async def soak(cluster: RealCluster, seconds: float, say: Callable[[dict[str, Any]], None]) -> int:
    """Pods come and go; how many did."""
    client, done, numbers = Client((cluster.server,)), 0, itertools.count()
    begun = looked = time.monotonic()
    asked: set[str] = set()
    try:
        while time.monotonic() - begun < seconds or asked:
            pods, _ = await client.list("pods")
            ended = [one["metadata"]["name"] for one in pods if one["status"]["phase"] == "Succeeded"]
            leaving = [name for name in ended if name in asked]
            await asyncio.gather(*(client.ask("DELETE", f"{PATHS['pods']}/{name}") for name in leaving))
            asked -= set(leaving)
            done += len(leaving)
            more = _IN_FLIGHT - len(asked) if time.monotonic() - begun < seconds else 0
            new = [f"short-{next(numbers)}" for _ in range(more)]
            await asyncio.gather(*(client.ask("POST", PATHS["pods"], short(cluster, name)) for name in new))
            asked |= set(new)
            if time.monotonic() - looked >= 60.0:
                looked = time.monotonic()
                say({"seconds": round(looked - begun), "pods": done, **held(cluster)})
            await asyncio.sleep(0.1)
        while (await client.list("pods"))[0]:
            await asyncio.sleep(0.2)
    finally:
        await client.close()
    say({"seconds": round(time.monotonic() - begun), "pods": done, **held(cluster)})
    return done


def short(cluster: RealCluster, name: str) -> dict[str, Any]:
    """A pod that ends at once."""
    template = cluster.work.template({"short": name}, cluster.work.container("echo done"))
    made = pod_of(name, template)
    made["spec"]["restartPolicy"] = "Never"
    return made


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--runtime", choices=("process", "runc", "containerd"), default="runc")
    chosen = parser.parse_args()

    def say(told: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()

    async def run(folder: Path) -> None:
        async with real_cluster(folder, chosen.runtime) as cluster:
            say({"seconds": 0, "pods": 0, **held(cluster)})
            await soak(cluster, chosen.minutes * 60.0, say)
            await cluster.end()

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(run(Path(name)))


if __name__ == "__main__":
    main()
