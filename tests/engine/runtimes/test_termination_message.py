"""What is told of a container's end beyond its code: the file that it wrote, or the end of its log."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.kubelet.termination_message import _end_of
from tests.engine.runtimes.benches import Place, container, pod_of

ROOT = '"$PROREUS_ROOT"'


@pytest.mark.parametrize(
    ("script", "fields", "message"),
    [
        (f"echo last words > {ROOT}/dev/termination-log; exit 3", {}, "last words\n"),
        (f"echo mine > {ROOT}/tmp/words", {"terminationMessagePath": "/tmp/words"}, "mine\n"),
        ("echo only said; exit 3", {}, ""),
        ("echo said; exit 3", {"terminationMessagePolicy": "FallbackToLogsOnError"}, "said\n"),
        ("echo said", {"terminationMessagePolicy": "FallbackToLogsOnError"}, ""),
        (
            f"exec > {ROOT}/dev/termination-log; for i in $(seq 500); do echo 0123456789abcdef; done",
            {},
            ("0123456789abcdef\n" * 500)[-4096:],
        ),
        (
            "for i in $(seq 500); do echo 0123456789abcdef; done; sleep 0.3; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
            ("0123456789abcdef\n" * 80)[-2048:],
        ),
    ],
)
def test_what_a_container_leaves_is_its_message(
    real_place: Place, script: str, fields: dict[str, Any], message: str
) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            end, _ = await bench.run(pod_of(container(script, **fields)))
            assert end.message == message

    asyncio.run(scene())


def test_each_attempt_has_a_message_of_its_own_and_a_new_agent_tells_it(real_place: Place) -> None:
    async def scene() -> None:
        file = f"{ROOT}/dev/termination-log"
        pod = pod_of(container(f"cat {file}; echo of this one >> {file}; sleep 1; exit 1"))
        uid = pod["metadata"]["uid"]
        async with real_place.open() as bench:
            assert (await bench.run(pod))[0].message == "of this one\n"
            bench.runtime.start_container(uid, "main", 1)
            await bench.until(uid, lambda one: one["main"].attempt == 1 and one["main"].started > 0)
        await asyncio.sleep(2)
        async with real_place.bench() as bench:
            for report in bench.runtime.adopt([pod]):
                bench.hear(report)
            assert (await bench.ended(uid, attempt=1)).message == "of this one\n"

    asyncio.run(scene())


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the machine")
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none", "."):
        assert _end_of(tmp_path / name, 4096) == b""
    assert _end_of(tmp_path / "secret", 7) == b"machine"


def test_without_a_limit_a_container_is_told_all_that_pods_may_have(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            fields = [{"resource": "limits.cpu"}, {"resource": "limits.memory"}, {"resource": "requests.cpu"}]
            env = [
                {"name": f"V{number}", "valueFrom": {"resourceFieldRef": field}}
                for number, field in enumerate(fields)
            ]
            items = [
                {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}}
            ]
            pod = pod_of(
                container(
                    f"echo $V0 $V1 $V2; cat {ROOT}/me/memory",
                    env=env,
                    volumeMounts=[{"name": "me", "mountPath": "/me"}],
                ),
                volumes=[{"name": "me", "downwardAPI": {"items": items}}],
            )
            _, text = await bench.run(pod)
            allocatable = bench.runtime.capacity().allocatable
            assert text.split() == [allocatable["cpu"], allocatable["memory"], "0", allocatable["memory"]]

    asyncio.run(scene())


def test_a_mount_where_the_machine_has_something_is_the_volume(tmp_path: Path, real_place: Place) -> None:
    """Plain processes see the machine's files: what they write at a mount's path is not the machine's."""
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "kept").write_text("of the machine")

    async def scene() -> None:
        async with real_place.bench() as bench:
            mounts = [{"name": "data", "mountPath": str(taken)}]
            volumes = [{"name": "data", "emptyDir": {}}]
            script = f"echo x > {taken}/file; ls {taken}; ls {ROOT}{taken}; sleep 300"
            pod = pod_of(container(script, volumeMounts=mounts), volumes=volumes)
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            if os.geteuid() != 0:
                report = (await bench.until(uid, lambda one: bool(one["main"].message)))["main"]
                assert report.reason == "CreateContainerConfigError"
                assert "is a path of this machine" in report.message
                return
            await bench.running(uid)
            while len((await bench.text(uid)).split()) < 2:
                await asyncio.sleep(0.05)
            assert await bench.text(uid) == "file\nfile\n"
            done = await bench.runtime.execute(uid, "main", ["/bin/sh", "-c", f"ls {taken}"])
            assert done.stdout == b"file\n"

    asyncio.run(scene())
    assert [entry.name for entry in taken.iterdir()] == ["kept"]


def test_a_mount_over_the_nodes_own_folder_is_refused_by_plain_processes(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            mounts = [{"name": "data", "mountPath": str(real_place.root.parent)}]
            pod = pod_of(container("true", volumeMounts=mounts), volumes=[{"name": "data", "emptyDir": {}}])
            bench.runtime.start(pod, ["main"])
            uid = pod["metadata"]["uid"]
            if not real_place.name.startswith("process"):
                assert (await bench.ended(uid)).exit_code == 0
                return
            report = (await bench.until(uid, lambda one: bool(one["main"].message)))["main"]
            assert report.reason == "CreateContainerConfigError"

    asyncio.run(scene())
