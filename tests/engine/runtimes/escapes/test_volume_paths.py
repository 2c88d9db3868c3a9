"""Containers that swap what others mount, while they mount it: nothing of the machine's gets in."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.kubelet.usage.disk import folder_bytes
from proreus.engine.runtimes.folder_removal import remove_tree
from proreus.engine.runtimes.protocol import Phase
from proreus.engine.runtimes.safe_path import UnsafePath, open_beneath
from tests.engine.runtimes.benches import Bench, Place, container, pod_of
from tests.engine.runtimes.leftovers import mounts as mounts_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
_ROUNDS = 10
_RENAME_EXCHANGE = 2
_PATIENCE_WITH_REFUSALS = 2.0
_SECRET = "of the machine"


def _secret_folder(place: Path) -> Path:
    """What no container may get at."""
    folder = place / "secret"
    (folder / "deep").mkdir(parents=True)
    (folder / "file").write_text(_SECRET)
    return folder


def _files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text() if file.is_file() else ""
        for file in folder.rglob("*")
    }


@contextmanager
def _exchanging(folder: Path, target: Path) -> Iterator[threading.Event]:
    """`FOLDER/part` is a folder and a link to the target by turns, with no moment in between.

    Thousands of times a second, as any program in a container can do it to a volume of its pod. While the
    event that it yields is set, the exchange rests and `part` is the folder.
    """
    (folder / "part").mkdir()
    (folder / "part" / "own").touch()
    (folder / "swapped").symlink_to(target)
    libc, over, resting = ctypes.CDLL(None, use_errno=True), threading.Event(), threading.Event()

    def exchange() -> None:
        top = os.open(folder, os.O_RDONLY)
        while not over.is_set():
            if resting.is_set() and not (folder / "part").is_symlink():
                over.wait(0.01)
                continue
            libc.renameat2(top, b"part", top, b"swapped", _RENAME_EXCHANGE)
        os.close(top)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield resting
    finally:
        over.set()
        thread.join()


async def _look_often(bench: Bench, pod: dict[str, Any], resting: threading.Event) -> list[str]:
    """What the container sees at each of its attempts.

    An attempt that meets the link is refused and tried again, later each time: after a while the exchange
    rests, so that an unlucky row of refusals ends.
    """
    uid, seen = pod["metadata"]["uid"], []
    for attempt in range(1, _ROUNDS + 1):
        bench.runtime.start_container(uid, "main", attempt)
        truce = asyncio.get_running_loop().call_later(_PATIENCE_WITH_REFUSALS, resting.set)
        await bench.ended(uid, "main", attempt)
        truce.cancel()
        resting.clear()
        seen.append(await bench.text(uid, "main"))
    return seen


@pytest.mark.parametrize(("path", "content"), [("part", ["own"]), ("part/made", [])])
def test_a_part_that_is_swapped_while_it_is_mounted_is_never_the_machines(
    contained_place: Place, path: str, content: list[str]
) -> None:
    secret = _secret_folder(contained_place.host.parent)
    before = _files(secret)

    async def scene() -> list[str]:
        async with contained_place.bench() as bench:
            part = {"name": "data", "mountPath": "/part", "subPath": path}
            whole = {"name": "data", "mountPath": "/data"}
            script = "cat /part/file 2>/dev/null; ls /part"
            pod = pod_of(
                container("true", "first", volumeMounts=[whole]),
                container(script, volumeMounts=[part]),
                volumes=[{"name": "data", "emptyDir": {}}],
            )
            await bench.run(pod, "first")
            volume = contained_place.root / "pods" / pod["metadata"]["uid"] / "volumes" / "data"
            with _exchanging(volume, secret) as resting:
                return await _look_often(bench, pod, resting)

    seen = asyncio.run(scene())
    assert [text for text in seen if text.split() != content] == []
    assert _files(secret) == before, "something was made outside"


def test_a_path_of_the_machine_that_is_swapped_is_never_another(contained_place: Place) -> None:
    """A container that may write in an allowed folder, and one that mounts a folder in it."""
    secret = _secret_folder(contained_place.host.parent)
    shared = contained_place.host / "shared"
    shared.mkdir()

    async def scene() -> list[str]:
        async with contained_place.bench() as bench:
            part = {"name": "part", "mountPath": "/part"}
            volumes = [{"name": "part", "hostPath": {"path": str(shared / "part")}}]
            victim = container("cat /part/file 2>/dev/null; ls /part", volumeMounts=[part])
            pod = pod_of(container("true", "first"), victim, volumes=volumes)
            await bench.run(pod, "first")
            with _exchanging(shared, secret) as resting:
                return await _look_often(bench, pod, resting)

    assert [text for text in asyncio.run(scene()) if text.split() != ["own"]] == []


@pytest.mark.parametrize(
    ("link", "path", "words"),
    [
        ("SECRET", "part/made", "leads out of its volume"),
        ("SECRET/none", "part", "leads out of its volume"),
        ("../../../../../..", "part/tmp", "leads out of its volume"),
        ("nowhere", "part", "leads nowhere"),
        ("part", "part", "leads out of its volume"),
    ],
)
def test_a_link_out_is_told_in_one_event_and_nothing_is_made(
    contained_place: Place, caplog: pytest.LogCaptureFixture, link: str, path: str, words: str
) -> None:
    secret = _secret_folder(contained_place.host.parent)
    before = _files(secret)
    link = link.replace("SECRET", str(secret))

    async def scene() -> None:
        async with contained_place.bench() as bench:
            data = {"name": "data", "mountPath": "/data"}
            hostile = container(f"ln -s {link} /data/part", "hostile", volumeMounts=[data])
            part = {"name": "data", "mountPath": "/part", "subPath": path}
            pod = pod_of(
                hostile, container("true", volumeMounts=[part]), volumes=[{"name": "data", "emptyDir": {}}]
            )
            uid = pod["metadata"]["uid"]
            await bench.run(pod, "hostile")
            bench.runtime.start_container(uid, "main", 0)
            await bench.until(uid, lambda one: "main" in one and bool(one["main"].message))
            await asyncio.sleep(1.5)  # it is tried again and again
            report = (await bench.until(uid, lambda one: True))["main"]
            assert report.phase is Phase.WAITING
            assert report.reason == "CreateContainerConfigError"
            messages = {notice.message for notice in report.notices if notice.type == "Warning"}
            assert len(messages) == 1, messages
            assert "failed to prepare subPath" in report.message and words in report.message

    asyncio.run(scene())
    assert _files(secret) == before
    assert not [record for record in caplog.records if record.exc_info], "a traceback is no event"


def test_two_parts_with_names_alike_are_two(real_place: Place) -> None:
    real_place.references.objects[("ConfigMap", "settings")] = {"data": {"a": "1", "b": "2"}}

    async def scene() -> None:
        async with real_place.bench() as bench:
            parts = [
                {"name": "settings", "mountPath": "/x/y", "subPath": "a"},
                {"name": "settings", "mountPath": "/x_y", "subPath": "b"},
            ]
            root = '"$PROREUS_ROOT"'
            pod = pod_of(
                container(f"cat {root}/x/y {root}/x_y", volumeMounts=parts),
                volumes=[{"name": "settings", "configMap": {"name": "settings"}}],
            )
            assert (await bench.run(pod))[1] == "12"

    asyncio.run(scene())


def test_parts_are_the_volumes_own_and_go_with_the_pod(real_place: Place) -> None:
    """What is written in a part stands in the volume, read-only or not, by a name with variables, too."""
    (real_place.host / "kept").write_text("of the machine")
    root = '"$PROREUS_ROOT"'

    async def scene() -> None:
        async with real_place.bench() as bench:
            mounts = [
                {"name": "data", "mountPath": "/all"},
                {"name": "data", "mountPath": "/part", "subPathExpr": "of/$(WHO)"},
                {"name": "host", "mountPath": "/host", "subPath": "below"},
            ]
            script = f"echo x > {root}/part/file; cat {root}/all/of/me/file; echo y > {root}/host/new"
            env = [{"name": "WHO", "value": "me"}]
            volumes = [
                {"name": "data", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": str(real_place.host)}},
            ]
            pod = pod_of(container(script, volumeMounts=mounts, env=env), volumes=volumes)
            end, text = await bench.run(pod)
            assert (end.exit_code, text) == (0, "x\n")
            bench.runtime.remove(pod["metadata"]["uid"])

    asyncio.run(scene())
    assert _files(real_place.host) == {"kept": "of the machine", "below": "", "below/new": "y\n"}
    assert not mounts_of(str(real_place.root))


def test_what_a_killed_agent_had_bound_is_unbound(contained_place: Place) -> None:
    """The mount table is the record: between the bind and anything else nothing can be forgotten."""
    (contained_place.host / "below").mkdir()
    (contained_place.host / "below" / "kept").write_text("of the machine")
    volumes = [{"name": "host", "hostPath": {"path": str(contained_place.host)}}]
    mounts = [{"name": "host", "mountPath": "/host", "subPath": "below"}]

    async def scene() -> None:
        pod = pod_of(container("sleep 300", volumeMounts=mounts), volumes=volumes)
        async with contained_place.open() as bench:
            bench.runtime.start(pod, ["main"])
            await bench.running(pod["metadata"]["uid"])
        assert mounts_of(str(contained_place.root)), "nothing was bound: the test tries nothing"
        # As a kill before the pod was noted leaves it.
        (contained_place.root / "pods" / pod["metadata"]["uid"] / "pod.json").unlink()
        async with contained_place.bench() as bench:
            assert bench.runtime.adopt([]) == []

    asyncio.run(scene())
    assert not mounts_of(str(contained_place.root))
    assert (contained_place.host / "below" / "kept").read_text() == "of the machine"


def test_a_read_only_path_of_the_machine_is_so_with_all_that_is_mounted_below(contained_place: Place) -> None:
    below = contained_place.host / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(below)], check=True)

    async def scene() -> str:
        async with contained_place.bench() as bench:
            volumes = [{"name": "host", "hostPath": {"path": str(contained_place.host)}}]
            mounts = [{"name": "host", "mountPath": "/host", "readOnly": True}]
            script = "echo x > /host/file; echo x > /host/below/file; grep -c ' /host/below ' /proc/mounts"
            return (await bench.run(pod_of(container(script, volumeMounts=mounts), volumes=volumes)))[1]

    try:
        text = asyncio.run(scene())
        assert "1" in text.split(), "what is mounted below must be there, or nothing was tried"
        assert list(below.iterdir()) == [] and not (contained_place.host / "file").exists()
    finally:
        subprocess.run(["umount", str(below)], check=True)


def test_nothing_leads_out_of_a_folder(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "a" / "b").mkdir(parents=True)
    (volume / "a" / "up").symlink_to("../../volume")
    (volume / "a" / "same").symlink_to("../a/b")
    (volume / "absolute").symlink_to("/etc")
    (volume / "loop").symlink_to("loop")
    (volume / "file").write_text("x")
    top = os.open(volume, os.O_PATH)

    def reached(path: str, *, make: bool = False) -> str:
        fd = open_beneath(top, path, make=make)
        try:
            return str(Path(f"/proc/self/fd/{fd}").readlink())
        finally:
            os.close(fd)

    try:
        assert reached("a/same") == str(volume / "a" / "b")
        assert reached(".") == reached("") == str(volume)
        volume.chmod(0o777)
        assert reached("new/deep", make=True) == str(volume / "new" / "deep")
        assert (volume / "new" / "deep").stat().st_mode & 0o7777 == 0o777
        for path in ("../x", "/etc", "a/up", "absolute", "loop", "file/x", "a/same/none", "x/" * 200):
            with pytest.raises((UnsafePath, FileNotFoundError)):
                reached(path)
        with pytest.raises(UnsafePath):
            reached("a/same/made", make=True)
        assert not (volume / "a" / "b" / "made").exists()
    finally:
        os.close(top)


def test_a_tree_deeper_than_any_path_is_counted_and_goes(tmp_path: Path) -> None:
    """As a container makes it with ease: what is written there counts, and the pod can be removed."""
    top = tmp_path / "pod"
    top.mkdir()
    outside = _secret_folder(tmp_path)
    here = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("dddd", dir_fd=here)
        below = os.open("dddd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    fd = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(fd, bytes(1 << 22))
    os.close(fd)
    os.symlink(outside, "out", dir_fd=here)
    os.close(here)
    assert (folder_bytes(top) or 0) >= 1 << 22
    remove_tree(top)
    assert not top.exists()
    assert (outside / "file").read_text() == _SECRET
