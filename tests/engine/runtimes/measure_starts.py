"""From the order to a running container, for each real runtime, beside `ctr run`; needs root and all of them.

python -m tests.engine.runtimes.measure_starts
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import open_runtime
from proreus.engine.runtimes.options import MachineOptions
from tests.engine.runtimes.archives import busybox_archive
from tests.engine.runtimes.benches import IMAGE, Bench, container, pod_of
from tests.engine.runtimes.containerds import Daemon, containerd

BUSYBOX = Path("/usr/bin/busybox")
ALONE, TOGETHER = 40, 100


def _say(what: str, times: list[float]) -> None:
    times.sort()
    last = times[min(len(times) - 1, int(0.99 * len(times)))]
    middle = statistics.median(times)
    sys.stdout.write(f"{what:26} n={len(times):3}  p50 {middle * 1000:5.0f} ms  p99 {last * 1000:5.0f} ms\n")


async def _measure(name: str, options: MachineOptions, archive: Path) -> None:
    runtime: MachineRuntime = await open_runtime(name, options)
    if name != "process":
        await runtime.import_image(archive)
    bench = Bench(runtime, name)
    runtime.subscribe(bench.hear)
    times = []
    for _ in range(ALONE):
        times.append(await _started(bench))
        await runtime.settled()
    _say(f"{name}, alone", times)
    began = time.monotonic()
    uids = [_start(bench) for _ in range(TOGETHER)]

    async def one(uid: str) -> float:
        await bench.running(uid)
        return time.monotonic() - began

    _say(f"{name}, {TOGETHER} at once", await asyncio.gather(*(one(uid) for uid in uids)))
    for uid in uids:
        runtime.remove(uid)
    await runtime.settled()
    await runtime.close()


def _start(bench: Bench) -> str:
    pod = pod_of(container("sleep 300"))
    bench.runtime.start(pod, ["main"])
    return str(pod["metadata"]["uid"])


async def _started(bench: Bench) -> float:
    began = time.monotonic()
    uid = _start(bench)
    await bench.running(uid)
    took = time.monotonic() - began
    bench.runtime.remove(uid)
    return took


def _by_ctr(daemon: Daemon) -> list[float]:
    times = []
    for number in range(ALONE):
        began = time.monotonic()
        daemon.ctr("run", "-d", IMAGE, f"plain-{number}", "/bin/sleep", "300")
        times.append(time.monotonic() - began)
        daemon.ctr("task", "rm", "--force", f"plain-{number}", check=False)
        daemon.ctr("container", "rm", f"plain-{number}", check=False)
    return times


def main() -> None:
    """All of them in one run, so that they share the machine's mood."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        archive = busybox_archive(BUSYBOX, folder / "busybox.tar")
        (folder / "daemon").mkdir()
        with containerd(folder / "daemon", BUSYBOX) as daemon:
            asyncio.run(_measure("process", MachineOptions(folder / "process"), archive))
            asyncio.run(_measure("runc", MachineOptions(folder / "runc"), archive))
            options = MachineOptions(folder / "containerd", socket=daemon.socket)
            asyncio.run(_measure("containerd", options, archive))
            _say("ctr run", _by_ctr(daemon))


if __name__ == "__main__":
    main()
