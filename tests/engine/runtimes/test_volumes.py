"""Volumes while their pods run: they follow their objects, and may not hold more than they were given."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.volumes.atomic_writer import Given, publish
from proreus.engine.kubelet.volumes.storage_limits import is_bounded, overfull
from proreus.engine.runtimes.protocol import Phase
from tests.engine.runtimes.benches import PATIENCE, Bench, Place, container, pod_of

ROOT = '"$PROREUS_ROOT"'


async def _reads(bench: Bench, uid: str, script: str, wanted: str) -> None:
    """Once a command in the container prints this."""
    end = time.monotonic() + PATIENCE
    while True:
        done = await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", script])
        if done.stdout.decode() == wanted:
            return
        assert time.monotonic() < end, (done.stdout, done.stderr)
        await asyncio.sleep(0.1)


def _secret(**keys: str) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}}


def test_mounted_config_maps_and_secrets_follow_their_objects(real_place: Place) -> None:
    objects = real_place.references.objects
    objects[("ConfigMap", "settings")] = {"data": {"a": "1", "b": "1"}}
    objects[("Secret", "keys")] = _secret(key="old")
    projected = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "deep/a"}]}},
        {"secret": {"name": "later", "optional": True}},
    ]
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {"name": "all", "projected": {"sources": projected}},
        {"name": "late", "configMap": {"name": "late", "optional": True}},
    ]
    mounts = [
        {"name": "settings", "mountPath": "/etc/settings"},
        {"name": "settings", "mountPath": "/etc/one", "subPath": "a"},
        {"name": "keys", "mountPath": "/etc/keys"},
        {"name": "all", "mountPath": "/etc/all"},
        {"name": "late", "mountPath": "/etc/late"},
    ]
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]

    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of(container("sleep 300", volumeMounts=mounts, env=env), volumes=volumes)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            everything = (
                f"cd {ROOT}/etc; cat settings/* keys/* one; ls settings all late; cat all/deep/a; echo $A"
            )
            await _reads(bench, uid, everything, "11old1all:\ndeep\n\nlate:\n\nsettings:\na\nb\n11\n")
            objects[("ConfigMap", "settings")] = {"data": {"a": "2", "c": "2"}}
            objects[("Secret", "keys")] = _secret(key="new")
            objects[("ConfigMap", "late")] = {"data": {"here": "now"}}
            objects[("Secret", "later")] = _secret(too="yes")
            changed = "22new1all:\ndeep\ntoo\n\nlate:\nhere\n\nsettings:\na\nc\n21\n"
            await _reads(bench, uid, everything, changed)
            del objects[("ConfigMap", "settings")], objects[("ConfigMap", "late")]
            gone = changed.replace("here\n", "")
            await _reads(bench, uid, everything, gone)
            assert oct(next(real_place.root.glob("pods/*/volumes/keys/key")).stat().st_mode)[-3:] == "400"

    asyncio.run(scene())


def test_a_mounted_part_is_as_it_was_at_the_start_of_its_attempt(real_place: Place) -> None:
    objects = real_place.references.objects
    objects[("ConfigMap", "settings")] = {"data": {"a": "1"}}
    mounts = [{"name": "settings", "mountPath": "/one", "subPath": "a"}]

    async def scene() -> None:
        async with real_place.bench() as bench:
            volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
            pod = pod_of(container(f"cat {ROOT}/one", volumeMounts=mounts), volumes=volumes)
            uid = pod["metadata"]["uid"]
            assert (await bench.run(pod))[1] == "1"
            objects[("ConfigMap", "settings")] = {"data": {"a": "2"}}
            bench.runtime.start_container(uid, "main", 1)
            await bench.ended(uid, attempt=1)
            assert await bench.text(uid) == "2"
            missing = [{"name": "settings", "mountPath": "/one", "subPath": "none"}]
            pod = pod_of(container("true", volumeMounts=missing), volumes=volumes)
            bench.runtime.start(pod, ["main"])
            found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
            assert "failed to prepare subPath" in found["main"].message

    asyncio.run(scene())


def test_volumes_follow_after_the_agent_was_started_anew(real_place: Place) -> None:
    objects = real_place.references.objects
    objects[("ConfigMap", "settings")] = {"data": {"a": "1"}}
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    mounts = [{"name": "settings", "mountPath": "/etc/settings"}]

    async def scene() -> None:
        pod = pod_of(container("sleep 300", volumeMounts=mounts), volumes=volumes)
        uid = pod["metadata"]["uid"]
        async with real_place.open() as bench:
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
        objects[("ConfigMap", "settings")] = {"data": {"a": "2"}}
        async with real_place.bench() as bench:
            bench.runtime.adopt([pod])
            await _reads(bench, uid, f"cat {ROOT}/etc/settings/a", "2")

    asyncio.run(scene())


def test_a_volume_that_holds_too_much_is_told(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.open() as bench:
            volumes = [
                {"name": "small", "emptyDir": {"sizeLimit": "64Ki"}},
                {"name": "large", "emptyDir": {"sizeLimit": "1Gi"}},
            ]
            mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("small", "large")]
            script = "dd if=/dev/zero of={}/file bs=1024 count={} 2>/dev/null; sync {}/file"
            pod = pod_of(container("sleep 300", volumeMounts=mounts), volumes=volumes)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            for place, size in ((f"{ROOT}/large", 512), (f"{ROOT}/small", 16)):
                await bench.runtime.execute(uid, "main", ["sh", "-c", script.format(place, size, place)])
            await asyncio.sleep(0.5)
            assert bench.reports[uid].overfull == ""
            place = f"{ROOT}/small"
            await bench.runtime.execute(uid, "main", ["sh", "-c", script.format(place, 128, place)])
            await bench.until(uid, lambda one: bool(bench.reports[uid].overfull))
            message = 'Usage of EmptyDir volume "small" exceeds the limit "64Ki". '
            assert bench.reports[uid].overfull == message
            assert bench.reports[uid].containers[0].phase is Phase.RUNNING, "to end it is the agent's matter"
            await bench.runtime.execute(uid, "main", ["sh", "-c", f"rm {place}/file"])
            await bench.stop(uid)
        async with real_place.bench() as bench:
            assert [report.overfull for report in bench.runtime.adopt([pod])] == [message], "it stays evicted"

    asyncio.run(scene())


def test_a_container_that_writes_too_much_of_its_own_is_told(real_place: Place) -> None:
    if real_place.name == "containerd":
        pytest.skip("containerd counts its layers every ten seconds only")

    async def scene() -> None:
        async with real_place.bench() as bench:
            assert isinstance(bench.runtime, MachineRuntime)
            limits = {"limits": {"ephemeral-storage": "1Mi"}}
            script = f"dd if=/dev/zero of={ROOT}/file bs=65536 count=32 2>/dev/null; echo done; sleep 300"
            other = container("sleep 300", "other", resources={"limits": {"ephemeral-storage": "1Gi"}})
            pod = pod_of(container(script, resources=limits), other)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main", "other"])
            await bench.running(uid)
            async with asyncio.timeout(PATIENCE):
                while not bench.reports[uid].overfull:
                    await bench.runtime.measure_disks()
                    await asyncio.sleep(0.1)
            message = 'Container main exceeded its local ephemeral storage limit "1Mi". '
            assert bench.reports[uid].overfull == message

    asyncio.run(scene())


def test_what_a_pod_may_write_altogether(tmp_path: Path) -> None:
    def limited(name: str, limit: str) -> dict[str, Any]:
        return container("true", name, resources={"limits": {"ephemeral-storage": limit}})

    volumes = [{"name": "data", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}}]
    pod = pod_of(limited("a", "1Mi"), limited("b", "2Mi"), volumes=volumes)
    for volume in ("data", "fast"):
        (tmp_path / volume).mkdir()
        (tmp_path / volume / "file").write_bytes(b"x" * (1 << 20))
    assert is_bounded(pod) and not is_bounded(pod_of(container("true"), volumes=volumes))
    assert overfull(pod, tmp_path, {"a": 1 << 20, "b": 1 << 19}) == ""
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "
    assert overfull(pod, tmp_path, {"a": 1 << 20, "b": 1 << 20, "sidecar": 1 << 20}) == message


@pytest.mark.skipif(os.geteuid() != 0, reason="without root nobody can mount: it is a folder")
def test_volumes_in_memory_are_bounded_and_leave_nothing(real_place: Place) -> None:
    """The fixture looks for mounts that are left."""

    async def scene() -> None:
        async with real_place.bench() as bench:
            volumes = [{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
            mounts = [{"name": "fast", "mountPath": "/fast"}]
            script = (
                f"dd if=/dev/zero of={ROOT}/fast/file bs=65536 count=100 2>/dev/null && exit 3; "
                f"wc -c < {ROOT}/fast/file; stat -f -c %T {ROOT}/fast; sleep 300"
            )
            pod = pod_of(container(script, volumeMounts=mounts), volumes=volumes)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            async with asyncio.timeout(PATIENCE):
                while "tmpfs" not in await bench.text(uid):
                    await asyncio.sleep(0.05)
            assert (await bench.text(uid)).split()[0] == str(1 << 20)
        async with real_place.open() as bench:
            assert bench.runtime.adopt([]) == []

    asyncio.run(scene())


def test_limits_that_are_no_amounts_and_other_media_are_refused(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            for source, words in (
                ({"sizeLimit": "much"}, "'much'"),
                ({"medium": "HugePages"}, "'HugePages'"),
            ):
                mounts = [{"name": "data", "mountPath": "/data"}]
                volumes = [{"name": "data", "emptyDir": source}]
                pod = pod_of(container("true", volumeMounts=mounts), volumes=volumes)
                bench.runtime.start(pod, ["main"])
                found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
                assert found["main"].message.startswith("volume 'data': ")
                assert words in found["main"].message

    asyncio.run(scene())


def test_files_are_published_at_once_and_only_when_they_change(tmp_path: Path) -> None:
    place = tmp_path / "volume"
    assert publish(place, {"a": Given(b"1", 0o644), "deep/b": Given(b"1", 0o400)})
    first = (place / "..data").readlink()
    assert not publish(place, {"a": Given(b"1", 0o644), "deep/b": Given(b"1", 0o400)})
    assert (place / "..data").readlink() == first
    (place / "..2000_01_01_00_00_00.cut_off").mkdir()
    assert publish(place, {"a": Given(b"1", 0o640), "c": Given(b"2", 0o644)})
    assert (place / "a").readlink() == Path("..data/a")
    assert (place / "a").stat().st_mode & 0o777 == 0o640
    assert (place / "c").read_bytes() == b"2"
    names = sorted(entry.name for entry in place.iterdir())
    assert names == sorted(["..data", (place / "..data").readlink().name, "a", "c"])
    assert publish(place, {})
    assert [entry.name for entry in place.iterdir() if not entry.name.startswith("..")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts containers as somebody else")
def test_another_user_gets_at_its_own_folders_and_at_nothing_else(real_place: Place) -> None:
    """Where it works, its volumes, in memory and of the machine too, and its output opened by name."""
    shared = real_place.host / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "quick", "settings", "host")]
    volumes = [
        {"name": "data", "emptyDir": {}},
        {"name": "quick", "emptyDir": {"medium": "Memory"}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "host", "hostPath": {"path": str(shared)}},
    ]
    script = (
        'cd "$PROREUS_ROOT/work" || exit 1; id -u; for one in data quick host; do '
        'echo x > "$PROREUS_ROOT/$one/file" && cat "$PROREUS_ROOT/$one/file"; done; '
        f'cat "$PROREUS_ROOT/settings/a"; echo; ls {real_place.root} >/dev/null 2>&1 && echo "all is open"; '
        "echo by name > /dev/stdout; sleep 60"
    )

    async def scene() -> None:
        real_place.references.objects[("ConfigMap", "settings")] = {"data": {"a": "given"}}
        async with real_place.bench() as bench:
            security = {"runAsUser": 4711, "runAsGroup": 4712}
            main = container(script, volumeMounts=mounts, securityContext=security, workingDir="/work")
            if real_place.name in ("runc", "containerd"):  # a folder of the image's is the image's matter
                del main["workingDir"]
                main["command"][2] = script.replace("$PROREUS_ROOT/work", "/data", 1)
            pod = pod_of(main, volumes=volumes)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            await bench.running(uid)
            async with asyncio.timeout(PATIENCE):
                while "by name" not in (text := await bench.text(uid)):
                    assert bench.reports[uid].containers[0].phase is Phase.RUNNING, text
                    await asyncio.sleep(0.05)
            assert text == "4711\nx\nx\nx\ngiven\nby name\n"
            command_result = await bench.runtime.execute(
                uid, "main", ["sh", "-c", 'id -u; cat "$PROREUS_ROOT/quick/file"']
            )
            assert command_result.stdout == b"4711\nx\n", command_result.stderr
            assert (shared / "file").stat().st_uid == 4711

    asyncio.run(scene())
