"""A cluster of 5,000 nodes and 50,000 pods before a real browser: when it is painted, what updates cost.

    python -m tests.web.at_scale --nodes 5000 --pods 50000

The API runs in a process of its own over a store in memory that was filled before; nothing is scheduled and
no node beats, so that its CPU time is that of the dashboard and of the changes: 10 a second, pods that come
and go. The same changes are measured once without anybody who looks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, sync_playwright

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.gc_tuning import GcTuning
from proreus.engine.objects.kinds import NODE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore
from proreus.web.dashboard import Dashboard, DashboardOptions

_AMOUNTS = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "8"}
_READY = [{"type": "Ready", "status": "True"}]
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """What was found."""

    first_paint: float
    """Seconds from the request for the page to the frame that shows the nodes."""
    all_pods: float
    """Seconds until every pod is in the table."""
    update_mean: float
    """Milliseconds of CPU that the page's main thread takes for an update, which is one a second: all of its
    tasks, with layout and painting."""
    update_worst: float
    """Milliseconds on the clock that reading and drawing one took at most: longer on a busy machine."""
    longest_task: float
    """Milliseconds of the longest task of the main thread while it watched."""
    server_cpu: float
    """Share of a core, with one browser that looks."""
    server_alone: float
    """The same, with nobody."""


def node(number: int) -> dict[str, Any]:
    status = {"allocatable": _AMOUNTS, "capacity": _AMOUNTS, "conditions": _READY}
    return {"metadata": {"name": f"node-{number:05d}"}, "status": status}


def pod(number: int, nodes: int) -> dict[str, Any]:
    requests = {"cpu": f"{500 + number % 7 * 250}m", "memory": f"{1 + number % 5}Gi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"app-{number // 50}",
        "uid": "u",
        "controller": True,
    }
    return {
        "metadata": {
            "name": f"app-{number // 50}-{number:06d}",
            "namespace": "default",
            "ownerReferences": [owner],
        },
        "spec": {"containers": [container], "nodeName": f"node-{number % nodes:05d}"},
        "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    }


async def _serve(pipe: Connection, nodes: int, pods: int, rate: float) -> None:
    registry = Registry(MemoryStore())
    await registry.prepare()
    for kind, make, count in ((NODE, node, nodes), (POD, lambda at: pod(at, nodes), pods)):
        for start in range(0, count, 500):
            await asyncio.gather(
                *(registry.create(kind, make(at)) for at in range(start, min(start + 500, count)))
            )
    dashboard = Dashboard(DashboardOptions("cluster"))
    app = create_app(registry, ApiOptions(), ApiDependencies(pages=dashboard))
    server = ApiServer(app, ApiOptions())
    await server.start()
    searches = GcTuning()
    with searches.kept_short():
        searching = asyncio.create_task(searches.run())
        pipe.send(server.port)
        ending = asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        number = pods
        while not ending.done():
            await registry.create(POD, pod(number, nodes))
            await asyncio.sleep(1 / rate)
            if number - pods >= 20:
                await registry.delete(POD, "default", pod(number - 20, nodes)["metadata"]["name"], grace=0)
                await asyncio.sleep(1 / rate)
            number += 1
        searching.cancel()
    dashboard.close()
    await server.stop()


def _process(pipe: Connection, nodes: int, pods: int, rate: float) -> None:
    asyncio.run(_serve(pipe, nodes, pods, rate))


def cpu_seconds(pid: int) -> float:
    """That a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def used(pid: int, seconds: float) -> float:
    """Share of a core over so long."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


_WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ type: "longtask", buffered: true });
"""
_SPENT = """() => {
  const spent = performance.getEntriesByType("measure").map((one) => [one.name, one.startTime, one.duration]);
  const longest = window.longest;
  performance.clearMeasures(); performance.clearMarks(); window.longest = 0;
  return [spent, longest];
}"""


def _worked(counters: CDPSession) -> float:
    """Seconds of CPU that the main thread has spent in tasks."""
    metrics = counters.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def measure(nodes: int, pods: int, seconds: float, rate: float = 10.0) -> Figures:
    """Start, look, and say what was found."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_process, args=(theirs, nodes, pods, rate))
    server.start()
    assert server.pid is not None
    try:
        port = ours.recv()
        time.sleep(2.0)
        alone = used(server.pid, seconds / 2)
        browser = next(path for name in ("chromium", "google-chrome") if (path := shutil.which(name)))
        with sync_playwright() as playing:
            launched = playing.chromium.launch(
                executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
            )
            page = launched.new_page(viewport={"width": 1400, "height": 1000})
            page.add_init_script(_WATCH)
            began = time.monotonic()
            page.goto(f"http://127.0.0.1:{port}/", wait_until="commit")
            while page.evaluate("window.dashboard?.nodes ?? 0") < nodes:
                page.wait_for_timeout(10)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            painted = time.monotonic() - began
            while page.evaluate("window.dashboard?.pods ?? 0") < pods:
                page.wait_for_timeout(20)
            listed = time.monotonic() - began
            page.wait_for_timeout(4_000)
            counters = page.context.new_cdp_session(page)
            counters.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.evaluate(_SPENT)
            worked = _worked(counters)
            share = used(server.pid, seconds)
            worked = (_worked(counters) - worked) / seconds * 1e3
            spent, longest = page.evaluate(_SPENT)
            launched.close()
        # What is taken and drawn within the same second is one update.
        by_second: dict[int, float] = {}
        for _, start, lasted in spent:
            by_second[int(start // 1000)] = by_second.get(int(start // 1000), 0.0) + lasted
        updates = list(by_second.values())
        return Figures(painted, listed, worked, max(updates), float(longest), share, alone)
    finally:
        ours.send("end")
        threading.Thread(target=server.join, args=(10,), daemon=True).start()
        server.join(10)
        if server.is_alive():
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = measure(asked.nodes, asked.pods, asked.seconds)
    lines = (
        f"{asked.nodes:,} nodes, {asked.pods:,} pods, 10 changes a second",
        f"first paint of the nodes      {found.first_paint:6.2f} s   (goal 2)",
        f"every pod in the table        {found.all_pods:6.2f} s",
        f"main thread CPU an update      {found.update_mean:6.1f} ms  (goal 100)",
        f"an update on the clock, worst {found.update_worst:6.1f} ms",
        f"longest task while watching   {found.longest_task:6.1f} ms",
        f"server CPU with a browser     {100 * found.server_cpu:6.1f} %   (goal 10)",
        f"server CPU with nobody        {100 * found.server_alone:6.1f} %",
    )
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.json is not None:
        asked.json.write_text(json.dumps(asdict(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
