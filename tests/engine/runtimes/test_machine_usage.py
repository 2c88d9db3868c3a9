"""What is measured of the machine: the kernel's counters, GPUs, and files that pods have written."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.usage.disk import DiskMeter, folder_bytes
from proreus.engine.kubelet.usage.node_meter import (
    KernelCounters,
    NodeMeter,
    busy_ticks,
    disk_bytes,
    network_bytes,
    rates,
    used_memory,
)
from proreus.engine.runtimes.gpus import read_gpus
from proreus.engine.runtimes.protocol import GpuUse, NetworkUse
from tests.engine.runtimes.benches import PATIENCE, Place, container, lasting, pod_of

MIB = 1024 * 1024
STAT = """cpu  1200 10 300 9000 400 5 15 20 0 0
cpu0 600 5 150 4500 200 2 8 10 0 0
cpu1 600 5 150 4500 200 3 7 10 0 0
intr 12345 0 9
ctxt 99
"""
MEMINFO = """MemTotal:       16384000 kB
MemFree:         1000000 kB
MemAvailable:   12288000 kB
Buffers:          200000 kB
HugePages_Total:       0
"""
DISKSTATS = """   7       0 loop0 50 0 400 10 0 0 0 0 0 20 10 0 0 0 0 0 0
 259       0 nvme0n1 1000 20 80000 500 2000 30 160000 900 0 700 1400 0 0 0 0 0 0
 259       1 nvme0n1p1 900 20 79000 490 1900 30 159000 880 0 690 1370 0 0 0 0 0 0
   8       0 sda 10 0 2048 5 20 0 4096 8 0 9 13
"""
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo: 5000000 10000 0 0 0 0 0 0 5000000 10000 0 0 0 0 0 0
  eth0: 7000000 8000 0 0 0 0 0 12 1500000 4000 0 0 0 0 0 0
vethab12: 300000 700 0 0 0 0 0 0 400000 900 0 0 0 0 0 0
 wlan0:     100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0
"""
NVIDIA_SMI = """GPU-6f1d2f5e-1c1b-0e0c-9f5d-2b8f3f0a7c11, NVIDIA H200, 87, 71236, 143771
GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9, NVIDIA A100-SXM4-40GB, [N/A], 4096, 40960
"""


def test_the_kernels_counters_are_read_as_it_writes_them() -> None:
    assert busy_ticks(STAT, {0, 1}) == 1200 + 10 + 300 + 5 + 15 + 20
    assert busy_ticks(STAT, {1}) == 600 + 5 + 150 + 3 + 7 + 10
    assert used_memory(MEMINFO) == (16384000 - 12288000) * 1024
    assert used_memory("MemTotal: 10 kB\nMemFree: 4 kB\n") == 6 * 1024  # kernels before 3.14
    assert disk_bytes(DISKSTATS, {"nvme0n1", "sda"}) == ((80000 + 2048) * 512, (160000 + 4096) * 512)
    assert network_bytes(NET_DEV) == (7000100, 1500200)
    assert network_bytes("") == (0, 0)


def test_rates_are_what_was_counted_in_between() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    before = KernelCounters(cpu=100, read=1000, written=0, received=5000, sent=9000)
    after = KernelCounters(cpu=100 + 3 * ticks, read=3000, written=800, received=25000, sent=8000)
    node_use = rates(before, after, 2.0)
    assert (node_use.cpu, node_use.read, node_use.written) == (1500, 1000, 400)
    assert node_use.traffic == NetworkUse(10000, 0), "a counter that was set back stands still"


def test_a_busy_machine_is_seen_to_be_busy(tmp_path: Path) -> None:
    meter = NodeMeter(tmp_path)
    first = meter.read()
    assert first.cpu == 0 and first.memory > 0 and first.disk > 0
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    cores = len(os.sched_getaffinity(0))
    assert 0 < meter.read().cpu <= 1100 * cores


@pytest.mark.parametrize("output", ["", "NVIDIA-SMI has failed because it couldn't communicate", "a,b,c,d,e"])
def test_no_gpus_are_no_error(output: str) -> None:
    assert read_gpus(output) == ()


def test_gpus_are_read_as_nvidia_smi_writes_them() -> None:
    assert read_gpus(NVIDIA_SMI) == (
        GpuUse("GPU-6f1d2f5e-1c1b-0e0c-9f5d-2b8f3f0a7c11", "NVIDIA H200", 87, 71236 * MIB, 143771 * MIB),
        GpuUse(
            "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "NVIDIA A100-SXM4-40GB",
            None,
            4096 * MIB,
            40960 * MIB,
        ),
    )


def test_files_count_once_and_links_lead_nowhere(tmp_path: Path) -> None:
    elsewhere, place = tmp_path / "elsewhere", tmp_path / "place"
    (place / "deep" / "er").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(b"x" * 5 * MIB)
    empty = folder_bytes(place)
    assert empty is not None
    (place / "deep" / "er" / "file").write_bytes(b"x" * MIB)
    (place / "again").hardlink_to(place / "deep" / "er" / "file")
    (place / "out").symlink_to(elsewhere)
    with (place / "hole").open("wb") as file:
        file.truncate(100 * MIB)
    found = folder_bytes(place)
    assert found is not None and MIB <= found - empty < 2 * MIB
    assert folder_bytes(tmp_path / "nowhere") == 0


def test_a_walk_ends(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"x" * 8192)
    some, every = folder_bytes(tmp_path, most=5), folder_bytes(tmp_path)
    assert some is not None and every is not None and 0 < some < every
    assert folder_bytes(tmp_path, until=0.0) is None
    meter: DiskMeter[str] = DiskMeter()
    meter.look({"a": (tmp_path,)}, seconds=-1.0)
    assert meter.bytes == {}, "what was not reached is not known"
    meter.look({"a": (tmp_path,), "b": (tmp_path / "none",)})
    assert meter.bytes == {"a": every, "b": 0}
    meter.look({"a": (tmp_path,), "c": (tmp_path,)}, seconds=-1.0)
    assert meter.bytes == {"a": every}, "what was seen before stays, what went goes"


def test_a_busy_loop_is_measured_at_its_limit(real_place: Place) -> None:
    """Half a core, by the kernel's own hand; without cgroups there is no limit to be kept."""
    if not real_place.in_cgroups:
        pytest.skip("this runtime has no cgroups here, so the CPU has no limit")

    async def scene() -> None:
        async with real_place.bench() as bench:
            limits = {"limits": {"cpu": "400m", "memory": "64Mi"}}
            pod = pod_of(container("while :; do :; done", resources=limits), annotations=lasting("60"))
            bench.runtime.start(pod, ["main"])
            await bench.running(pod["metadata"]["uid"])
            bench.runtime.stats()
            bench.runtime.node_stats()
            await asyncio.sleep(1.5)
            (use,) = bench.runtime.stats()
            assert 40 < use.cpu < 520, "about its limit; less only where others keep it from its share"
            assert 0 < use.memory < 64 * MIB
            assert bench.runtime.node_stats().cpu > 40

    asyncio.run(scene())


def test_what_a_container_writes_is_counted(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            where = "$PROREUS_ROOT" if real_place.name.startswith("process") else ""
            script = (
                f"dd if=/dev/zero of={where}/scratch/file bs=65536 count=48 2>/dev/null; "
                f"dd if=/dev/zero of={where}/own bs=65536 count=32 2>/dev/null; sync; echo done; sleep 60"
            )
            mounts = [{"name": "scratch", "mountPath": "/scratch"}]
            pod = pod_of(
                container(script, volumeMounts=mounts),
                volumes=[{"name": "scratch", "emptyDir": {}}],
            )
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            assert isinstance(bench.runtime, MachineRuntime)
            end = time.monotonic() + 3 * PATIENCE  # containerd looks at its layers every 10 s
            while time.monotonic() < end:
                await bench.runtime.measure_disks()
                (use,), pods = bench.runtime.stats(), bench.runtime.pod_stats()
                if use.disk >= 2 * MIB and pods and pods[0].volumes >= 3 * MIB:
                    break
                await asyncio.sleep(0.2)
            assert 2 * MIB <= use.disk < 4 * MIB, "its own files, and not its volume's"
            assert [(pod_use.uid, pod_use.traffic) for pod_use in pods] == [(uid, None)]
            assert 3 * MIB <= pods[0].volumes < 5 * MIB

    asyncio.run(scene())
