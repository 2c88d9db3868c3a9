"""Disk and network of the machine: measured, noted, and containers held to their part of the disk.

Their part of the network: `test_network_limits`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.kubelet.bandwidth import NOTE, machine_bandwidth, measured_network, not_held
from proreus.engine.runtimes.block_devices import disks_of
from proreus.engine.runtimes.cgroups import CgroupLimits, Cgroups, Unwritable
from proreus.model.resources import BYTES_PER_MB, DISK, NETWORK
from tests.engine.runtimes.benches import Place, container, happened, pod_of

RATE = 4
"""MB/s."""
WRITTEN = 12
"""MiB that `dd` writes past the page cache."""


def asking(**amounts: str) -> dict[str, Any]:
    names = {"disk": DISK, "network": NETWORK}
    return {"resources": {"limits": {names[name]: amount for name, amount in amounts.items()}}}


def needs_throttling(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("cgroups need root")
    try:
        cgroups = Cgroups("proreus-probe", disks=disks_of((root,)))
    except Unwritable as error:
        pytest.skip(f"there are no cgroups to make: {error}")
    cgroups.close()
    if cgroups.no_disk_limits:
        pytest.skip(cgroups.no_disk_limits)


def test_dd_in_a_container_is_held_to_its_limit(contained_place: Place) -> None:
    needs_throttling(contained_place.root.parent)
    # With containerd the limit comes a moment after the start: CRI has no word for it.
    script = (
        f"sleep 2; t=$(cut -d. -f1 /proc/uptime); "
        f"dd if=/dev/zero of=/file bs=1M count={WRITTEN} oflag=direct 2>&1 "
        "&& echo $(( $(cut -d. -f1 /proc/uptime) - t ))"
    )

    async def seconds(rate: int | None) -> tuple[int, list[str]]:
        async with contained_place.bench() as bench:
            fields: dict[str, Any] = {} if rate is None else asking(disk=str(rate))
            end, text = await bench.run(pod_of(container(script, **fields)))
            assert end.exit_code == 0, text
            return int(text.split()[-1]), [reason for _, reason, _ in happened(end)]

    took, reasons = asyncio.run(seconds(RATE))
    least = WRITTEN * 1024 * 1024 / (RATE * BYTES_PER_MB)
    assert took >= int(least) - 1, f"{WRITTEN} MiB in {took} s is more than {RATE} MB/s"
    assert "BandwidthNotEnforced" not in reasons
    free, _ = asyncio.run(seconds(None))
    assert free < took, "without a limit it is faster"


def test_limits_of_disk_in_the_words_of_both_versions(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for controller in ("memory", "cpu", "cpuacct", "pids", "freezer", "blkio"):
        (old / controller).mkdir(parents=True)
        (old / controller / "cgroup.procs").touch()
    (old / "blkio" / "blkio.throttle.write_bps_device").touch()
    cgroups = Cgroups("parent", old, disks=("253:0",))
    assert cgroups.version == 1 and not cgroups.no_disk_limits
    cgroups.make("one", CgroupLimits(None, None, 0, 10, 40_000_000))
    folder = old / "blkio" / "parent" / "one"
    for way in ("read", "write"):
        assert (folder / f"blkio.throttle.{way}_bps_device").read_text() == "253:0 40000000"
    for place in (new, new / "parent"):
        place.mkdir()
        (place / "cgroup.controllers").write_text("cpu io memory pids\n")
        (place / "cgroup.subtree_control").write_text("cpu memory pids\n")
    cgroups = Cgroups("parent", new, disks=("253:0",))
    assert not cgroups.no_disk_limits and (new / "cgroup.subtree_control").read_text() == "+io"
    cgroups.make("one", CgroupLimits(None, None, 0, 10, 40_000_000))
    assert (new / "parent" / "one" / "io.max").read_text() == "253:0 rbps=40000000 wbps=40000000"


def test_a_machine_that_cannot_hold_says_so(tmp_path: Path) -> None:
    for controller in ("memory", "cpu", "cpuacct", "pids", "freezer"):
        (tmp_path / controller).mkdir()
        (tmp_path / controller / "cgroup.procs").touch()
    why = Cgroups("parent", tmp_path, disks=("253:0",)).no_disk_limits
    assert "no controller blkio" in why
    (notice,) = not_held(asking(disk="40", network="100"), {DISK: why, NETWORK: ""})
    assert notice.type == "Warning" and DISK in notice.message and why in notice.message
    assert not list(not_held(asking(disk="40"), {DISK: "", NETWORK: why}))
    assert not list(not_held({}, {DISK: why, NETWORK: why}))


def test_the_disk_is_measured_once(tmp_path: Path) -> None:
    first = machine_bandwidth(tmp_path / "node")
    if not disks_of((tmp_path,)):
        assert DISK not in first
    else:
        assert int(first[DISK]) > 0
    assert [path.name for path in (tmp_path / "node").iterdir()] == [NOTE], "nothing else is left"
    (tmp_path / "node" / NOTE).write_text(json.dumps({DISK: "17"}))
    assert machine_bandwidth(tmp_path / "node") == {DISK: "17"}
    (tmp_path / "node" / NOTE).write_text("no JSON")
    assert machine_bandwidth(tmp_path / "node").keys() == first.keys()


def test_the_network_is_what_the_driver_of_the_default_route_tells(tmp_path: Path) -> None:
    routes, interfaces = tmp_path / "route", tmp_path / "net"
    (interfaces / "eth7").mkdir(parents=True)
    routes.write_text("Iface\tDestination\tGateway\nlo\t0000007F\t0\neth7\t00000000\t0100000A\n")
    assert measured_network(routes, interfaces) is None
    (interfaces / "eth7" / "speed").write_text("-1\n")
    assert measured_network(routes, interfaces) is None
    (interfaces / "eth7" / "speed").write_text("10000\n")
    assert measured_network(routes, interfaces) == 10_000
    routes.write_text("Iface\tDestination\tGateway\n")
    assert measured_network(routes, interfaces) is None


def test_partitions_are_throttled_as_their_disk(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    numbers, disk = tmp_path / "numbers", tmp_path / "devices" / "sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "dev").write_text("8:0\n")
    (disk / "sda1" / "dev").write_text("8:1\n")
    (disk / "sda1" / "partition").write_text("1\n")
    numbers.mkdir()
    assert disks_of((tmp_path,), numbers) == ()
    (numbers / f"{os.major(device)}:{os.minor(device)}").symlink_to(disk / "sda1")
    assert disks_of((tmp_path, tmp_path / "not" / "there"), numbers) == ("8:0",)
