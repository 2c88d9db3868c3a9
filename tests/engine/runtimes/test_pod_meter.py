"""What is found by a pod's processes: its own network, and what it does with GPUs."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.usage.pod_meter import NetworkMeter, gpu_shares
from proreus.engine.runtimes import gpus as machine_gpus
from proreus.engine.runtimes.gpus import GpuProcess, read_gpu_processes
from proreus.engine.runtimes.protocol import GpuUse, NetworkUse
from tests.engine.runtimes.benches import PATIENCE, Place, container, pod_of
from tests.engine.runtimes.pretended_gpus import pretend_gpus, uuid_of

MIB = 1024 * 1024
_SENDER = """
import socket, subprocess, time
for words in ("link add v0 type veth peer name v1", "addr add 10.9.9.1/24 dev v0", "link set v0 up",
              "link set v1 up"):
    subprocess.run(["ip", *words.split()], check=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    print("up", flush=True)
    while True:
        sender.sendto(bytes(1000), ("10.9.9.255", 9))
        time.sleep(0.001)
"""


@contextmanager
def _apart() -> Iterator[int]:
    """A process with a network of its own, over which it sends."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("a network of one's own needs root, unshare and ip")
    words = ["unshare", "-n", sys.executable, "-c", _SENDER]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"up\n":
            pytest.skip(
                f"there are no networks of one's own here: {process.communicate()[1].decode()[-200:]}"
            )
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_network_of_its_own_is_measured_and_the_machine_s_is_not_told_as_a_pod_s() -> None:
    with _apart() as pid:
        meter = NetworkMeter()
        pods = {"apart": {pid}, "shares": {os.getpid()}, "mixed": {pid, os.getpid()}, "over": {2**22 + 1}}
        assert meter.look(pods) == {}, "a rate needs two looks"
        end = time.monotonic() + PATIENCE
        network_uses: dict[str, NetworkUse] = {}
        while not network_uses or not (network_uses["apart"].sent and network_uses["apart"].received):
            assert time.monotonic() < end
            time.sleep(0.3)
            network_uses = meter.look(pods)
        assert set(network_uses) == {"apart"}, "absent, not 0"
        assert meter.look({}) == {} and meter.look(pods) == {}, "who comes back begins anew"


def test_processes_on_gpus_are_read_as_nvidia_smi_writes_them() -> None:
    text = f"4242, {uuid_of(0)}, 1024\n77, {uuid_of(1)}, [N/A]\nNo running processes found\n\n"
    assert read_gpu_processes(text) == (
        GpuProcess(4242, uuid_of(0), 1024 * MIB),
        GpuProcess(77, uuid_of(1), None),
    )


def test_gpus_are_whose_processes_run_on_them() -> None:
    gpus = [GpuUse(uuid_of(number), "H200", 50 + number, 9, 100) for number in range(3)]
    child = subprocess.Popen(["sleep", "60"])
    try:
        using = [
            GpuProcess(10, uuid_of(0), 5),
            GpuProcess(11, uuid_of(0), 6),
            GpuProcess(child.pid, uuid_of(1), 7),
            GpuProcess(12, uuid_of(2), None),
            GpuProcess(1, uuid_of(2), 1),
        ]
        pods = {"a": {10, 11}, "b": {os.getpid()}, "c": {12}, "d": {13}}
        found = gpu_shares(gpus, using, pods, {"a": [uuid_of(0)], "d": [uuid_of(1)], "gone": [uuid_of(2)]})
    finally:
        child.kill()
        child.wait()
    assert found == {
        "a": (GpuUse(uuid_of(0), "H200", 50, 11, 100),),
        "b": (GpuUse(uuid_of(1), "H200", None, 7, 100),),
        "c": (GpuUse(uuid_of(2), "H200", None, None, 100),),
        "d": (GpuUse(uuid_of(1), "H200", 51, 0, 100),),
    }


def test_a_pod_that_computes_on_a_gpu_is_told(
    real_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an `nvidia-smi` that is pretended: it names every process of the machine that sleeps so long."""
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f'--query-gpu=*) echo "{uuid_of(0)}, Pretended, 42, 2048, 81920" ;;\n'
        "*) for one in /proc/[0-9]*; do\n"
        '  case "$(tr "\\0" " " < $one/cmdline 2>/dev/null)" in\n'
        f'  "sleep 4321 ") echo "${{one#/proc/}}, {uuid_of(0)}, 512" ;;\n'
        "  esac; done ;;\n"
        "esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(machine_gpus, "_PATHS", str(tmp_path / "bin"))
    pretend_gpus(tmp_path / "machine", 1)

    async def scene() -> None:
        async with real_place.bench() as bench:
            assert isinstance(bench.runtime, MachineRuntime)
            limits = {"limits": {"nvidia.com/gpu": "1"}}
            pod, other = pod_of(container("exec sleep 4321", resources=limits)), pod_of(container("sleep 60"))
            for one in (pod, other):
                bench.runtime.start(one, ["main"])
                await bench.running(one["metadata"]["uid"])
            used = GpuUse(uuid_of(0), "Pretended", 42, 512 * MIB, 81920 * MIB)
            async with asyncio.timeout(PATIENCE):
                while True:
                    await bench.runtime.measure_devices()
                    pod_stats = {pod_stat.uid: pod_stat for pod_stat in bench.runtime.pod_stats()}
                    if pod["metadata"]["uid"] in pod_stats and pod_stats[pod["metadata"]["uid"]].gpus == (
                        used,
                    ):
                        break
                    await asyncio.sleep(0.1)
            assert pod_stats[pod["metadata"]["uid"]].traffic is None, "it shares the machine's network"
            assert other["metadata"]["uid"] not in pod_stats

    asyncio.run(scene())
