"""A hostile container tries the kernel's doors, with real runc and containerd: nothing outside changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.runtimes.protocol import RuntimeRefused
from proreus.engine.runtimes.shim.backend import DEFAULT_CAPABILITIES
from tests.engine.runtimes.benches import Bench, Place, container, pod_of

_BUSYBOX = 'export PATH=/bin; b() { /bin/busybox "$@"; }; '


async def _tried(bench: Bench, script: str, **fields: Any) -> str:
    """What a container prints that tries it."""
    return (await bench.run(pod_of(container(_BUSYBOX + script, **fields))))[1]


def _run(place: Place, script: str, **fields: Any) -> str:
    async def scene() -> str:
        async with place.bench() as bench:
            return await _tried(bench, script, **fields)

    return asyncio.run(scene())


def _attempts(*commands: str) -> str:
    """Each is tried; `OPEN n` is printed where the n-th worked."""
    return "".join(
        f"({command}) 2>/dev/null && echo OPEN {number}; " for number, command in enumerate(commands)
    )


def _open(text: str, commands: tuple[str, ...]) -> list[str]:
    """Those that worked."""
    return [commands[int(line.split()[1])] for line in text.splitlines() if line.startswith("OPEN ")]


def _all_refused(place: Place, *commands: str, **fields: Any) -> None:
    assert _open(_run(place, _attempts("true", *commands), **fields), ("true", *commands)) == ["true"]


def test_no_limit_is_lifted_and_no_neighbour_frozen(contained_place: Place) -> None:
    """Of the cgroups a container sees its own, and writes none."""
    assert contained_place.options is not None
    own_name = contained_place.options.own_name

    async def scene() -> None:
        async with contained_place.bench() as bench:
            limits = {"limits": {"memory": "64Mi", "cpu": "500m"}}
            neighbour = container("while :; do echo alive; sleep 0.1; done", "neighbour")
            script = (
                "for file in $(b find /sys/fs/cgroup /sys -name memory.limit_in_bytes -o -name memory.max "
                "-o -name pids.max -o -name freezer.state -o -name cgroup.freeze -o -name cgroup.procs "
                "-o -name cpu.cfs_quota_us -o -name release_agent -o -name devices.allow 2>/dev/null); do "
                "for word in -1 max FROZEN 1 'a *:* rwm' $$; do "
                '(echo "$word" > "$file") 2>/dev/null && echo "OPEN $file"; done; done; '
                "b mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x 2>/dev/null && echo OPEN mkdir; "
                "b mount -o remount,rw /sys/fs/cgroup/memory 2>/dev/null && echo OPEN remount; "
                "b mount -t cgroup -o memory x /mnt 2>/dev/null && echo OPEN mount; "
                "b mount -t cgroup2 x /mnt 2>/dev/null && echo OPEN mount2; "
                f"b find /sys/fs/cgroup -name '*proreus*' -o -name '*{own_name}*'; "
                "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
            )
            pod = pod_of(neighbour, container(_BUSYBOX + script, resources=limits))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["neighbour", "main"])
            await bench.ended(uid)
            text = await bench.text(uid)
            assert text.split() == [str(64 << 20)], text
            counted = len(await bench.text(uid, "neighbour"))
            await asyncio.sleep(1)
            assert len(await bench.text(uid, "neighbour")) > counted, "the neighbour stands still"

    asyncio.run(scene())


def test_the_kernel_is_not_set_through_proc_and_sys(contained_place: Place) -> None:
    watched = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness")
    before = [Path(file).read_text() for file in watched]
    _all_refused(
        contained_place,
        "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
        "echo x > /proc/sys/kernel/modprobe",
        "echo 7 > /proc/sys/vm/swappiness",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        "echo h > /proc/sysrq-trigger",
        "echo x > /proc/irq/default_smp_affinity",
        "b head -c 1 /proc/kcore | b grep -q .",
        "b head -c 1 /proc/keys | b grep -q .",
        "b head -c 1 /proc/timer_list | b grep -q .",
        "b ls /sys/firmware | b grep -q .",
        "echo x > /sys/kernel/uevent_helper",
        "echo 0 > /sys/kernel/profiling",
        "echo 1 > /sys/kernel/rcu_expedited",
        "echo offline > /sys/devices/system/memory/memory0/state",
        "b mount -o remount,rw /proc/sys",
        "b mount -o remount,rw /sys",
        "b umount /proc/sys",
        "b umount /proc/kcore",
        "b mount -t proc proc /mnt",
        "b mount -t sysfs sysfs /mnt",
        "b mount -t tmpfs tmpfs /mnt",
        "b mount --bind /bin /mnt",
        "b ls /sys/kernel/debug | b grep .",
        "b ls /sys/kernel/tracing | b grep .",
        "b ls /sys/kernel/security | b grep .",
        "b ls /sys/fs/bpf | b grep .",
        'b hostname hostile-host && [ "$(b hostname)" = hostile-host ]',
        "b date -s 2001-01-01 && [ $(b date +%Y) = 2001 ]",
        "b swapoff -a",
        "b insmod /bin/busybox",
        "b dmesg -c",
        "b reboot -f",
        "b chroot /proc/1/root /bin/busybox true && [ $(b stat -c %i /proc/1/root/) != $(b stat -c %i /) ]",
        "b pivot_root /mnt /mnt",
        "b unshare -m true",
        "b unshare -U true && b unshare -Urm b mount -t tmpfs x /mnt",
        "b nsenter -t 1 -n true && [ $$ = 0 ]",
    )
    assert [Path(file).read_text() for file in watched] == before


def test_no_device_of_the_machine_is_reached(contained_place: Place) -> None:
    disks = [
        (os.major(about.st_rdev), os.minor(about.st_rdev))
        for about in (entry.stat() for entry in Path("/dev").iterdir() if entry.exists())
        if stat.S_ISBLK(about.st_mode)
    ]
    made = [
        f"b mknod /tmp/d{major}-{minor} b {major} {minor}; b head -c 1 /tmp/d{major}-{minor} | b grep -q ."
        for major, minor in disks[:4]
    ]
    tunnel = f"bad{os.getpid()}"
    _all_refused(
        contained_place,
        *made,
        "b mknod /tmp/mem c 1 1; b head -c 1 /tmp/mem | b grep -q .",
        "b mknod /tmp/port c 1 4; b head -c 1 /tmp/port | b grep -q .",
        "b mknod /tmp/kmsg c 1 11; echo x > /tmp/kmsg",
        "b mknod /tmp/fuse c 10 229; : < /tmp/fuse",
        f"b mknod /tmp/tun c 10 200; b tunctl -f /tmp/tun -t {tunnel}",  # runc itself lets it be opened
        "b mknod /tmp/loop c 10 237; : < /tmp/loop",
        "b ls /dev | b grep -E '^(mem|kmsg|port|sd|vd|nvme|loop|fuse|kvm|disk)'",
    )
    assert not Path("/sys/class/net", tunnel).exists()


def test_capabilities_are_the_usual_ones_at_most(contained_place: Place) -> None:
    text = _run(contained_place, "b grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    fields = dict(line.split() for line in text.splitlines())
    usual = sum(1 << number for number in DEFAULT_CAPABILITIES.values())
    for name in ("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"):
        assert int(fields[name], 16) & ~usual == 0, (name, fields[name])
    assert fields["CapAmb:"] == "0" * 16 and fields["NoNewPrivs:"] == "1"


def test_commands_in_a_container_have_no_more_than_it(contained_place: Place) -> None:
    async def scene() -> None:
        async with contained_place.bench() as bench:
            pod = pod_of(container("sleep 300"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            command = [
                "/bin/sh",
                "-c",
                "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status /proc/1/status",
            ]
            message = (await bench.runtime.execute(uid, "main", command)).stdout.decode()
            own = sorted(line.partition(":")[2] for line in message.splitlines() if "self" in line)
            first = sorted(line.partition(":")[2] for line in message.splitlines() if "/1/" in line)
            assert own == first and len(own) == 7

    asyncio.run(scene())


def test_no_descriptor_of_the_machine_is_left_open(contained_place: Place) -> None:
    """Neither in the first process nor in a command; a folder to work in is none of them either."""
    listing = "for f in /proc/self/fd/* /proc/1/fd/*; do b readlink $f; done"

    async def scene() -> None:
        async with contained_place.bench() as bench:
            pod = pod_of(container(_BUSYBOX + listing + "; sleep 300"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            await asyncio.sleep(0.5)
            done = await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", _BUSYBOX + listing])
            for text in (await bench.text(uid), done.stdout.decode()):
                strange = [
                    line
                    for line in text.splitlines()
                    if not line.startswith(("pipe:", "/dev/null", "/proc/", "/dev/pts"))
                ]
                assert strange == [] and text
            for number in range(3, 12):
                fields = {"workingDir": f"/proc/self/fd/{number}"}
                bad = pod_of(container(_BUSYBOX + "b ls ../../.. ../../../etc/shadow", **fields))
                bench.runtime.start(bad, ["main"])
                found = await bench.until(
                    bad["metadata"]["uid"], lambda one: one["main"].message != "" or one["main"].finished > 0
                )
                if found["main"].finished and found["main"].reason != "StartError":
                    assert "shadow" not in await bench.text(bad["metadata"]["uid"])
                bench.runtime.remove(bad["metadata"]["uid"])

    asyncio.run(scene())


def test_the_runtimes_own_program_is_not_overwritten(contained_place: Place) -> None:
    """CVE-2019-5736: a container whose shell is a link to /proc/self/exe, and who writes what runs it."""
    binaries = [Path("/usr/sbin/runc"), Path("/usr/bin/runc"), Path("/usr/bin/containerd-shim-runc-v2")]
    before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in binaries if file.exists()}

    async def scene() -> None:
        async with contained_place.bench() as bench:
            script = (
                "b ln -s /proc/self/exe /tmp/bad; b ln -sf /proc/self/exe /bin/trap; "
                "end=$(( $(b date +%s) + 4 )); while [ $(b date +%s) -lt $end ]; do "
                "for exe in /proc/[0-9]*/exe; do "
                "(exec 9<$exe; echo hostile > $exe; echo hostile > /proc/self/fd/9) 2>/dev/null; done; done"
            )
            pod = pod_of(container(_BUSYBOX + script))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            until = time.monotonic() + 3
            while time.monotonic() < until:
                with contextlib.suppress(RuntimeRefused):  # what is fooled may well fail
                    await bench.runtime.execute(uid, "main", ["/bin/trap", "--version"])
            await bench.ended(uid)

    asyncio.run(scene())
    assert before and {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in before} == before


def test_neighbours_are_neither_seen_nor_traced(contained_place: Place) -> None:
    mark = f"hostile{os.getpid()}"

    async def scene() -> None:
        async with contained_place.bench() as bench:
            other = pod_of(container(f"{mark}=1; touch /tmp/{mark}; sleep 300 # {mark}"))
            bench.runtime.start(other, ["main"])
            await bench.running(other["metadata"]["uid"])
            text = await _tried(
                bench,
                f"b ps | b grep -v grep | b grep -q 'sleep 300' && echo OPEN ps; "
                f"b ls /tmp/{mark} 2>/dev/null && echo OPEN tmp; "
                "b ps | b wc -l; b kill -9 -1; echo still",
            )
            assert "OPEN" not in text and int(text.split()[0]) < 10
            container_report = await bench.running(other["metadata"]["uid"])
            assert container_report.finished == 0.0

    asyncio.run(scene())


def test_shared_memory_and_messages_are_the_pods_own(contained_place: Place) -> None:
    name = f"proreus-{os.getpid()}"
    _run(
        contained_place, f"echo x > /dev/shm/{name}; echo x > /tmp/{name}; echo x > /dev/mqueue/{name}; true"
    )
    for folder in ("/dev/shm", "/tmp"):
        assert not (Path(folder) / name).exists()


def test_a_container_gets_at_no_host_path_that_was_not_allowed(contained_place: Place) -> None:
    async def scene() -> None:
        async with contained_place.bench() as bench:
            for path in (
                "/",
                "/etc",
                "/proc",
                "/sys",
                "/dev",
                "/var/run",
                "/run/containerd",
                str(contained_place.root),
            ):
                volumes = [{"name": "host", "hostPath": {"path": path}}]
                mounts = [{"name": "host", "mountPath": "/x"}]
                pod = pod_of(container("true", volumeMounts=mounts), volumes=volumes)
                bench.runtime.start(pod, ["main"])
                found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
                assert "is not allowed on this node" in found["main"].message
                bench.runtime.remove(pod["metadata"]["uid"])

    asyncio.run(scene())


@pytest.mark.parametrize("target", ["/proc", "/sys", "/sys/fs/cgroup", "/proc/sys"])
def test_a_mount_of_ones_own_does_not_open_the_kernels_doors(contained_place: Place, target: str) -> None:
    """An emptyDir over /proc or /sys: it is refused, or what is written there stays in it."""
    before = Path("/proc/sys/kernel/core_pattern").read_text()

    async def scene() -> None:
        async with contained_place.bench() as bench:
            script = "b mkdir -p /proc/sys/kernel; echo x > /proc/sys/kernel/core_pattern"
            mounts = [{"name": "data", "mountPath": target}]
            main = container(_BUSYBOX + script, volumeMounts=mounts)
            pod = pod_of(main, volumes=[{"name": "data", "emptyDir": {}}])
            bench.runtime.start(pod, ["main"])
            await bench.ended(pod["metadata"]["uid"])

    asyncio.run(scene())
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


@pytest.mark.parametrize("version", [1, 2])
def test_the_generated_configuration_is_as_containerds(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For machines with either version of cgroups, whichever this one has."""
    from proreus.engine.runtimes.backend import ContainerPlan
    from proreus.engine.runtimes.images.store import ImageStore, Unpacked
    from proreus.engine.runtimes.options import MachineOptions
    from proreus.engine.runtimes.runc import backend as runc
    from proreus.engine.runtimes.shim import backend as kept

    class Hierarchy:
        no_disk_limits = no_network_limits = ""

        def __init__(self, name: str, disks: Sequence[str] = ()) -> None:
            self.version = version

        def path(self, name: str) -> str:
            return f"/parent/{name}"

    monkeypatch.setattr(kept, "Cgroups", Hierarchy)
    monkeypatch.setattr(runc, "find_runc", lambda: "/bin/true")
    backend = runc.RuncBackend(MachineOptions(tmp_path), ImageStore(tmp_path / "images", 1, 1))
    folder = tmp_path / "pods" / "uid" / "containers" / "main" / "0"
    folder.mkdir(parents=True)
    main = container("true")
    plan = ContainerPlan(pod_of(main), main, 0, ("true",), (), {}, ())
    backend.specification(plan, folder, Unpacked("sha256:0", (), tmp_path, 0, 0.0, {}))
    config: Mapping[str, Any] = json.loads((folder / "bundle" / "config.json").read_text())
    mounts = {mount["destination"]: mount for mount in config["mounts"]}
    assert mounts["/sys"]["type"] == "sysfs" and "ro" in mounts["/sys"]["options"]
    assert mounts["/sys/fs/cgroup"]["type"] == "cgroup" and "ro" in mounts["/sys/fs/cgroup"]["options"]
    assert {"type": "cgroup"} in config["linux"]["namespaces"]
    assert not [
        mount for mount in config["mounts"] if "rbind" in mount["options"] and mount["source"] == "/sys"
    ]
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware"} <= set(config["linux"]["maskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger", "/sys/fs/cgroup"} <= set(config["linux"]["readonlyPaths"])
    assert config["process"]["noNewPrivileges"] is True
