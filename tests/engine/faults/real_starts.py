"""`python -m tests.engine.faults.real_starts --pods 100`: from a request to a pod that runs, by the engine.

Each real runtime in turn; needs root and all of them. Told are the middle and the 99th of a hundred.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.engine.faults.client import PATHS, Client
from tests.engine.faults.real_cluster import RealCluster, real_cluster


async def starts(cluster: RealCluster, count: int) -> list[float]:
    """So many pods are asked for at once; seconds until each was told to run, in order."""
    client = Client((cluster.server,))
    begun, took = time.monotonic(), dict[str, float]()
    _, revision = await client.list("pods")
    address = f"{cluster.server}{PATHS['pods']}?watch=1&resourceVersion={revision}"

    async def follow() -> None:
        async with client.http.stream("GET", address, timeout=None) as stream:
            async for line in stream.aiter_lines():
                pod = json.loads(line)["object"]
                if pod["status"]["phase"] == "Running":
                    took.setdefault(pod["metadata"]["name"], time.monotonic() - begun)
                    if len(took) == count:
                        return

    following = asyncio.create_task(follow())
    names = [f"pod-{number}" for number in range(count)]
    try:
        await asyncio.gather(*(client.ask("POST", PATHS["pods"], cluster.work.pod(name)) for name in names))
        await asyncio.wait_for(following, 600.0)
        await asyncio.gather(*(client.ask("DELETE", f"{PATHS['pods']}/{name}") for name in names))
        while (await client.list("pods"))[0]:
            await asyncio.sleep(0.2)
    finally:
        following.cancel()
        await client.close()
    return sorted(took.values())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--runtime", nargs="*", default=("process", "runc", "containerd"))
    chosen = parser.parse_args()

    async def measured(folder: Path, runtime: str) -> list[float]:
        async with real_cluster(folder, runtime) as cluster:
            await starts(cluster, 1)
            took = await starts(cluster, chosen.pods)
            await cluster.end()
            return took

    for runtime in chosen.runtime:
        with tempfile.TemporaryDirectory() as name:
            took = asyncio.run(measured(Path(name), runtime))
        last = took[min(len(took) - 1, int(0.99 * len(took)))]
        middle = statistics.median(took)
        sys.stdout.write(f"{runtime:12} n={len(took)}  p50 {middle:5.1f} s  p99 {last:5.1f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
