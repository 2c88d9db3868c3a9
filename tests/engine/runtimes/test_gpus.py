"""GPUs of a node, with a listing of devices that is pretended in a folder."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proreus.engine.runtimes.gpus import list_gpus, shared_nodes
from proreus.engine.runtimes.pod_reports import is_over
from proreus.engine.runtimes.protocol import ContainerReport, Phase
from tests.engine.runtimes.benches import Bench, Place, container, pod_of
from tests.engine.runtimes.pretended_gpus import pretend_gpus, uuid_of

_SHOW = 'echo "$NVIDIA_VISIBLE_DEVICES;$CUDA_VISIBLE_DEVICES"'
_STAY = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


def _wants(count: int, script: str = f"{_SHOW}; {_STAY}", name: str = "main") -> dict[str, Any]:
    return container(script, name, resources={"limits": {"nvidia.com/gpu": str(count)}} if count else {})


async def _has(bench: Bench, uid: str, name: str = "main") -> set[str]:
    """The GPUs that a container that runs was told to have."""
    await bench.running(uid, name)
    async with asyncio.timeout(60):
        while not (text := await bench.text(uid, name)):
            await asyncio.sleep(0.02)
    return set(text.partition(";")[0].split(","))


async def _has_again(bench: Bench, uid: str) -> set[str]:
    """The same of one that an agent began which was killed: containerd may have called its start off when its
    command may have run already, and then it is run again, as its pod wants it."""
    found = await bench.until(uid, lambda one: "main" in one and one["main"].phase is not Phase.WAITING)
    if found["main"].phase is Phase.EXITED:
        assert (bench.name, found["main"].reason) == ("containerd", "StartError")
        bench.runtime.start_container(uid, "main", found["main"].attempt + 1)
    return await _has(bench, uid)


@pytest.fixture
def gpu_place(real_place: Place) -> Place:
    """A machine with two GPUs."""
    assert real_place.options is not None
    pretend_gpus(real_place.options.devices, 2)
    return real_place


def test_gpus_are_a_resource_of_the_node(gpu_place: Place) -> None:
    async def scene() -> None:
        async with gpu_place.bench() as bench:
            has = bench.runtime.capacity()
            assert has.amounts["nvidia.com/gpu"] == has.allocatable["nvidia.com/gpu"] == "2"

    asyncio.run(scene())


def test_a_node_without_gpus_has_none_and_gives_none(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            assert "nvidia.com/gpu" not in bench.runtime.capacity().amounts
            _, text = await bench.run(pod_of(container(_SHOW)))
            assert text == ";\n"

    asyncio.run(scene())


def test_containers_get_their_gpus_and_no_others(gpu_place: Place) -> None:
    async def scene() -> None:
        async with gpu_place.bench() as bench:
            look = f"{_SHOW}; ls /dev | grep nvidia | sort | tr '\\n' ' '; : > /dev/null"
            one, two, none = (pod_of(_wants(count, look), restartPolicy="Never") for count in (1, 2, 0))
            _, text = await bench.run(one)
            visible, devices = text.split("\n")[:2]
            cuda = uuid_of(0) if gpu_place.name.startswith("process") else ""
            assert visible == f"{uuid_of(0)};{cuda}"
            own = not gpu_place.name.startswith("process")
            assert not own or devices.split() == ["nvidia-uvm", "nvidia0", "nvidiactl"]
            _, text = await bench.run(two)
            assert text.partition(";")[0] == f"{uuid_of(0)},{uuid_of(1)}", "the pod before is over"
            _, text = await bench.run(none)
            assert text.split("\n")[0] == "void;"
            assert not own or text.split("\n")[1] == ""

    asyncio.run(scene())


def test_devices_in_a_container_can_be_used(gpu_place: Place) -> None:
    if gpu_place.name.startswith("process"):
        pytest.skip("plain processes see the machine's own devices")

    async def scene() -> None:
        async with gpu_place.bench() as bench:
            script = "echo x > /dev/nvidia0 && echo x > /dev/nvidiactl && test -c /dev/nvidia0 && echo well"
            _, text = await bench.run(pod_of(_wants(1, script)))
            assert text == "well\n"

    asyncio.run(scene())


def test_no_gpu_is_handed_out_twice(gpu_place: Place) -> None:
    """Not while a pod runs, nor while it ends, nor by a new agent."""

    async def scene() -> None:
        first, second, third = (pod_of(_wants(1), restartPolicy="Always") for _ in range(3))
        uids = [one["metadata"]["uid"] for one in (first, second, third)]
        async with gpu_place.open() as bench:
            for one in (first, second):
                bench.runtime.start(one, ["main"])
            had = [await _has(bench, uid) for uid in uids[:2]]
            assert had[0] | had[1] == {uuid_of(0), uuid_of(1)} and not had[0] & had[1]
        async with gpu_place.bench() as bench:
            bench.runtime.adopt([first, second])
            bench.runtime.start(third, ["main"])
            found = await bench.until(uids[2], lambda one: bool(one["main"].message))
            assert found["main"].reason == "UnexpectedAdmissionError"
            assert "Requested: 1, Available: 0" in found["main"].message
            bench.runtime.stop(uids[1], 30.0)
            assert await _has(bench, uids[2]) == had[1]
            bench.runtime.remove(uids[1])

    asyncio.run(scene())


_AGENT = """
import asyncio, sys
from pathlib import Path
import msgspec
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.kubelet.runtime_factory import open_runtime
name, root, devices, cgroups, socket, pods = sys.argv[1:]

async def main():
    options = MachineOptions(
        Path(root), devices=Path(devices), cgroups=cgroups == "True", socket=Path(socket)
    )
    runtime = await open_runtime(name, options)
    known = {report.uid: report for report in runtime.adopt([])}
    print("up", flush=True)
    for pod in msgspec.json.decode(Path(pods).read_bytes()):
        report = known.get(pod["metadata"]["uid"])
        if report is None:
            runtime.start(pod, ["main"])
        elif not report.containers:
            runtime.start_container(report.uid, "main", 0)
        await asyncio.sleep(0.01)
    await asyncio.sleep(300)

asyncio.run(main())
"""


def test_an_agent_that_is_killed_hands_no_gpu_out_twice(gpu_place: Place) -> None:
    """Killed at random moments while it hands them out; as many pods as there are GPUs all come to run."""
    assert gpu_place.options is not None
    options, draw = gpu_place.options, random.Random(20261116)
    pods = [pod_of(_wants(1), restartPolicy="Always") for _ in range(2)]
    written = gpu_place.host.parent / "pods.json"
    written.write_bytes(msgspec.json.encode(pods))

    async def prepared() -> None:
        async with gpu_place.open():
            pass

    asyncio.run(prepared())
    for pause in (0.0, draw.uniform(0.02, 0.1), draw.uniform(0.1, 0.3)):
        words = [gpu_place.name.partition("-")[0], gpu_place.root, options.devices, options.cgroups]
        argv = [sys.executable, "-c", _AGENT, *map(str, (*words, options.socket, written))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            time.sleep(pause)
            process.kill()

    async def scene() -> None:
        async with gpu_place.bench() as bench:
            known = {report.uid: report for report in bench.runtime.adopt(pods)}
            for report in known.values():
                bench.hear(report)
            had: set[str] = set()
            for pod in pods:
                uid = pod["metadata"]["uid"]
                if uid not in known:
                    bench.runtime.start(pod, ["main"])
                elif not known[uid].containers or known[uid].containers[0].phase is Phase.EXITED:
                    attempt = known[uid].containers[0].attempt + 1 if known[uid].containers else 0
                    bench.runtime.start_container(uid, "main", attempt)
                had |= await _has_again(bench, uid)
            assert had == {uuid_of(0), uuid_of(1)}

    asyncio.run(scene())


def test_a_container_has_the_same_gpus_at_every_attempt(gpu_place: Place) -> None:
    async def scene() -> None:
        async with gpu_place.bench() as bench:
            pod = pod_of(_wants(1, f"{_SHOW}; exit 1"), restartPolicy="Always")
            other = pod_of(_wants(1))
            uid = pod["metadata"]["uid"]
            _, before = await bench.run(pod)
            bench.runtime.start(other, ["main"])
            taken = await _has(bench, other["metadata"]["uid"])
            assert taken != {before.partition(";")[0]}
            bench.runtime.start_container(uid, "main", 1)
            await bench.ended(uid, attempt=1)
            assert await bench.text(uid) == before

    asyncio.run(scene())


def test_what_an_init_container_had_is_its_pods(gpu_place: Place) -> None:
    async def scene() -> None:
        async with gpu_place.bench() as bench:
            pod = pod_of(_wants(1, name="a"), _wants(1, name="b"), initContainers=[_wants(2, _SHOW, "init")])
            uid = pod["metadata"]["uid"]
            _, text = await bench.run(pod, "init")
            assert text.partition(";")[0] == f"{uuid_of(0)},{uuid_of(1)}"
            for name in ("a", "b"):
                bench.runtime.start_container(uid, name, 0)
            both = [await _has(bench, uid, name) for name in ("a", "b")]
            assert both[0] | both[1] == {uuid_of(0), uuid_of(1)} and not both[0] & both[1]

    asyncio.run(scene())


def test_listing(tmp_path: Path) -> None:
    assert list_gpus(tmp_path) == ()
    pretend_gpus(tmp_path, 11)
    assert [gpu.id for gpu in list_gpus(tmp_path)] == [uuid_of(number) for number in range(11)]
    assert [node.name for node in shared_nodes(tmp_path)] == ["nvidiactl", "nvidia-uvm"]
    (tmp_path / "dev" / "nvidia3").unlink()
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information").write_text("nonsense")
    ids = [gpu.id for gpu in list_gpus(tmp_path)]
    assert len(ids) == 10 and uuid_of(3) not in ids and ids[1] == "1"


@pytest.mark.parametrize(
    ("policy", "init", "main", "over"),
    [
        ("Never", 0, 1, True),
        ("Never", 1, None, True),
        ("Never", 0, None, False),
        ("OnFailure", 0, 0, True),
        ("OnFailure", 0, 1, False),
        ("OnFailure", 1, None, False),
        ("Always", 0, 0, False),
    ],
)
def test_when_a_pod_is_over(policy: str, init: int, main: int | None, over: bool) -> None:
    pod = pod_of(container("true"), initContainers=[container("true", "init")], restartPolicy=policy)
    reports = {"init": ContainerReport("init", Phase.EXITED, exit_code=init)}
    if main is not None:
        reports["main"] = ContainerReport("main", Phase.EXITED, exit_code=main)
    assert is_over(pod, reports) is over
    reports["main"] = ContainerReport("main", Phase.RUNNING)
    assert not is_over(pod, reports)
