"""kill -9 of the agent and of keepers, at any moment: no container is lost, none is doubled, none is left."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.runtimes.protocol import Phase
from proreus.engine.runtimes.shim import shim
from tests.engine.runtimes.benches import PATIENCE, Bench, Place, container, pod_of

_AGENT = """
import asyncio, json, sys
from pathlib import Path
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.kubelet.runtime_factory import open_runtime
name, root, host, cgroups, socket, pods = sys.argv[1:]

async def main():
    options = MachineOptions(
        Path(root), host_paths=(Path(host),), cgroups=cgroups == "True", socket=Path(socket)
    )
    runtime = await open_runtime(name, options)
    print("up", flush=True)
    for pod in json.loads(Path(pods).read_text()):
        runtime.start(pod, ["main"])
        await asyncio.sleep(0.01)
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.fixture
def kept_place(real_place: Place) -> Place:
    """A runtime whose containers have keepers."""
    if real_place.name == "containerd":
        pytest.skip("containerd's own shims keep its containers")
    return real_place


def test_an_agent_that_is_killed_neither_loses_nor_doubles_containers(real_place: Place) -> None:
    """Three kills a round, at random moments; PROREUS_KILL_ROUNDS makes it a long run."""
    asyncio.run(_prepared(real_place))
    draw = random.Random(20261116)
    for _ in range(int(os.environ.get("PROREUS_KILL_ROUNDS", "1"))):
        pauses = (0.0, draw.uniform(0.02, 0.1), draw.uniform(0.1, 0.3))
        _killed_and_taken_up(real_place, pauses)


def _killed_and_taken_up(place: Place, pauses: Sequence[float]) -> None:
    starts, written = place.host / "starts", place.host.parent / "pods.json"
    starts.unlink(missing_ok=True)
    pods = [_noting(place, number) for number in range(6)]
    written.write_text(json.dumps(pods))
    for pause in pauses:
        _killed_after(place, written, pause)
    earlier = _noted(starts)

    async def scene() -> None:
        async with place.bench() as bench:
            reports = {report.uid: report for report in bench.runtime.adopt(pods)}
            for report in reports.values():
                bench.hear(report)
            for pod in pods:  # as the agent does: what is not there is begun, what ran is left alone
                uid = pod["metadata"]["uid"]
                if uid not in reports:
                    bench.runtime.start(pod, ["main"])
                elif not reports[uid].containers:
                    bench.runtime.start_container(uid, "main", 0)
            ran = {number for number, pod in enumerate(pods) if await _runs(bench, pod["metadata"]["uid"])}
            await _until_noted(starts, ran)
            noted = _noted(starts)
            assert len(noted) == len(set(noted)), "their restart policy is Never"
            assert ran <= set(noted)
            assert noted[: len(earlier)] == earlier

    asyncio.run(scene())


def test_a_keeper_that_is_killed_takes_its_container_along(kept_place: Place) -> None:
    async def scene() -> None:
        async with kept_place.bench() as bench:
            pod = pod_of(container("(setsid sleep 300 &); echo up; sleep 300"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            (note,) = kept_place.root.glob(f"pods/{uid}/containers/main/0/{shim.KEEPER}")
            os.kill(json.loads(note.read_text())["pid"], signal.SIGKILL)
            end = await bench.ended(uid)
            assert (end.exit_code, end.reason) == (137, "ContainerStatusUnknown")
            bench.runtime.start_container(uid, "main", 1)
            await bench.until(uid, lambda one: (one["main"].attempt, one["main"].phase) == (1, Phase.RUNNING))

    asyncio.run(scene())


def test_a_keeper_that_was_killed_meanwhile_is_noticed_at_the_start(kept_place: Place) -> None:
    async def scene() -> None:
        pod = pod_of(container("(setsid sleep 300 &); sleep 300"))
        uid = pod["metadata"]["uid"]
        async with kept_place.open() as bench:
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
        (note,) = kept_place.root.glob(f"pods/{uid}/containers/main/0/{shim.KEEPER}")
        os.kill(json.loads(note.read_text())["pid"], signal.SIGKILL)
        async with kept_place.bench() as bench:
            assert [report.uid for report in bench.runtime.adopt([pod])] == [uid]
            end = await bench.ended(uid)
            assert (end.exit_code, end.reason) == (137, "ContainerStatusUnknown")

    asyncio.run(scene())


async def _prepared(place: Place) -> None:
    """With the image that pods are made of."""
    async with place.open():
        pass


def _noting(place: Place, number: int) -> dict[str, Any]:
    """A pod that notes each of its starts."""
    main = container(
        f"echo {number} >> $HOST/starts; sleep 300".replace("$HOST", '"$PROREUS_ROOT"/mnt/host'),
        volumeMounts=[{"name": "host", "mountPath": "/mnt/host"}],
    )
    volumes = [{"name": "host", "hostPath": {"path": str(place.host), "type": "Directory"}}]
    return pod_of(main, volumes=volumes)


def _killed_after(place: Place, pods: Path, pause: float) -> None:
    """An agent of its own process, killed so long after it was up."""
    assert place.options is not None
    name = place.name.partition("-")[0]
    options = place.options
    words = [name, str(place.root), str(place.host), str(options.cgroups), str(options.socket), str(pods)]
    process = subprocess.Popen([sys.executable, "-c", _AGENT, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    time.sleep(pause)
    process.kill()
    process.wait()
    process.stdout.close()


async def _runs(bench: Bench, uid: str) -> bool:
    """Whether it runs; else its start was called off when its command may have run, and that is told."""
    found = await bench.until(uid, lambda one: "main" in one and one["main"].phase is not Phase.WAITING)
    main = found["main"]
    if main.phase is Phase.EXITED:
        assert bench.name == "containerd", "our own keepers finish what they began"
        assert (main.exit_code, main.reason) == (128, "StartError")
    return main.phase is Phase.RUNNING


async def _until_noted(starts: Path, numbers: set[int]) -> None:
    end = time.monotonic() + PATIENCE
    while not numbers <= set(_noted(starts)) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)  # a second start would come now


def _noted(starts: Path) -> list[int]:
    return [int(line) for line in starts.read_text().split()] if starts.exists() else []
