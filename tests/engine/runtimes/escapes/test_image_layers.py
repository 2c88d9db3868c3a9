"""Hostile images, with real runc and containerd: layers that lead out are refused, links in them lead nowhere
but into the image, and what the runtime makes for a container stays within it."""

from __future__ import annotations

import asyncio
import tarfile
from pathlib import Path

import pytest

from proreus.engine.runtimes.images.checked_stream import BadArchive
from proreus.engine.runtimes.protocol import Phase, RuntimeRefused
from proreus.model.errors import ProreusError
from tests.engine.runtimes.archives import Archive, busybox_layer, entry, tar_of
from tests.engine.runtimes.benches import Place, container, pod_of
from tests.engine.runtimes.conftest import found_busybox

_SECRET = "of the machine"
_IMAGE = "localhost/hostile:1"
_UP = "../" * 12
_Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder of the machine that no image may read or change."""
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "file").write_text(_SECRET)
    (folder / "passwd").write_text("hostile:x:0:0::/:/bin/sh\n")
    return folder


def _files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def _members(attack: str, secret: Path) -> list[_Member]:
    inside = f"{_UP}{secret}".replace("//", "/")
    match attack:
        case "path upwards":
            return [(entry(f"{_UP}{str(secret)[1:]}/file"), b"hostile")]
        case "absolute path":
            return [(entry(f"{secret}/file"), b"hostile")]
        case "through a link":
            return [(entry("out", tarfile.SYMTYPE, linkname=inside), b""), (entry("out/file"), b"hostile")]
        case "hard link out":
            return [(entry("copy", tarfile.LNKTYPE, linkname=f"{secret}/file"), b"")]
        case "hard link upwards":
            return [(entry("copy", tarfile.LNKTYPE, linkname=f"{_UP}{str(secret)[1:]}/file"), b"")]
        case "hard link to a link":
            link = entry("link", tarfile.SYMTYPE, linkname=f"{secret}/file")
            return [(link, b""), (entry("copy", tarfile.LNKTYPE, linkname="link"), b"")]
        case "disk":
            return [(entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0), b"")]
        case "dev" | "proc" | "sys":  # runc makes links in what it takes for the container's /dev
            return [(entry(attack, tarfile.SYMTYPE, linkname=str(secret)), b"")]
        case "memory":
            return [(entry("mem", tarfile.CHRTYPE, devmajor=1, devminor=1), b"")]
        case _:
            raise AssertionError(attack)


@pytest.mark.parametrize(
    "attack",
    [
        *("path upwards", "absolute path", "through a link", "hard link out", "hard link upwards"),
        *("hard link to a link", "disk", "memory", "dev", "proc", "sys"),
    ],
)
def test_a_layer_that_leads_out_is_refused(
    contained_place: Place, tmp_path: Path, secret: Path, attack: str
) -> None:
    layers = [busybox_layer(found_busybox()), tar_of(_members(attack, secret))]
    archive = Archive(layers, name=_IMAGE).write(tmp_path / "hostile.tar")
    before = _files(secret)

    async def scene() -> None:
        async with contained_place.bench() as bench:
            with pytest.raises((BadArchive, RuntimeRefused, ProreusError)):
                await bench.runtime.import_image(archive)  # type: ignore[attr-defined]
            held = [name for image in bench.runtime.images() for name in image.names]
            assert _IMAGE not in held

    asyncio.run(scene())
    assert _files(secret) == before


def test_links_of_an_image_lead_into_it_alone(contained_place: Place, tmp_path: Path, secret: Path) -> None:
    """What is mounted, made, read and written for a container at places that are links to the machine's."""
    linked = tar_of(
        [
            (entry("etc/hosts", tarfile.SYMTYPE, linkname=f"{secret}/hosts"), b""),
            (entry("etc/resolv.conf", tarfile.SYMTYPE, linkname=f"{secret}/resolv.conf"), b""),
            (entry("etc/hostname", tarfile.SYMTYPE, linkname=f"{secret}/file"), b""),
            (entry("escape", tarfile.SYMTYPE, linkname=str(secret)), b""),
        ]
    )
    layers = [busybox_layer(found_busybox()), linked]
    archive = Archive(layers, {"WorkingDir": "/escape/work"}, name=_IMAGE).write(tmp_path / "linked.tar")
    before = _files(secret)

    async def scene() -> None:
        async with contained_place.bench() as bench:
            await bench.runtime.import_image(archive)  # type: ignore[attr-defined]
            script = (
                "cat /escape/file /etc/hostname; echo x > /escape/v/made; echo x > /escape/written; "
                "echo ended > /escape/message"
            )
            main = {
                "name": "main",
                "image": _IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", script],
                "terminationMessagePath": "/escape/message",
                "volumeMounts": [{"name": "v", "mountPath": "/escape/v"}],
            }
            pod = pod_of(main, volumes=[{"name": "v", "emptyDir": {}}])
            bench.runtime.start(pod, ["main"])
            uid = pod["metadata"]["uid"]
            found = await bench.until(
                uid, lambda one: one["main"].phase is Phase.EXITED or bool(one["main"].message)
            )
            text = await bench.text(uid) if found["main"].phase is Phase.EXITED else ""
            assert _SECRET not in text and _SECRET not in found["main"].message

    asyncio.run(scene())
    assert _files(secret) == before and sorted(path.name for path in secret.iterdir()) == ["file", "passwd"]


@pytest.mark.parametrize("linked", ["etc/passwd", "etc"])
def test_a_user_is_looked_up_in_the_image_alone(
    contained_place: Place, tmp_path: Path, secret: Path, linked: str
) -> None:
    """Its list of users is a link to one of the machine's: there, the name has a number."""
    target = f"{secret}/passwd" if linked == "etc/passwd" else str(secret)
    layers = [
        busybox_layer(found_busybox()),
        tar_of([(entry(linked, tarfile.SYMTYPE, linkname=target), b"")]),
    ]
    archive = Archive(layers, {"User": "hostile"}, name=_IMAGE).write(tmp_path / "user.tar")

    async def scene() -> None:
        async with contained_place.bench() as bench:
            await bench.runtime.import_image(archive)  # type: ignore[attr-defined]
            main = {
                "name": "main",
                "image": _IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "id -u"],
            }
            pod = pod_of(main)
            bench.runtime.start(pod, ["main"])
            found = await bench.until(
                pod["metadata"]["uid"], lambda one: one["main"].finished > 0 or bool(one["main"].message)
            )
            assert found["main"].message, "it ran, as a user of the machine or as root"

    asyncio.run(scene())


@pytest.mark.parametrize(("target", "tty"), [("/", False), ("/x/..", False), ("/dev", False), ("/dev", True)])
def test_a_volume_in_the_place_of_the_root_or_of_devices_makes_nothing_outside(
    contained_place: Place, secret: Path, target: str, tty: bool
) -> None:
    """Another container of the pod has put links there, where the runtime makes devices and links."""
    inner = "" if target == "/dev" else "dev"
    links = ("console", "ptmx", "pts", "fd", "stdin", "stdout", "stderr", "null", "core", "shm", "mqueue")
    make = (
        f"/bin/busybox ln -s {secret} /v/dev"
        if inner
        else "; ".join(f"/bin/busybox ln -s {secret}/{name} /v/{name}" for name in links)
    )

    async def scene() -> None:
        async with contained_place.bench() as bench:
            first = container(make + "; /bin/busybox cp /bin/busybox /v/", "first")
            first["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
            second = container("true", "main", tty=tty, stdin=tty)
            second["volumeMounts"] = [{"name": "v", "mountPath": target}]
            pod = pod_of(first, second, volumes=[{"name": "v", "emptyDir": {}}])
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["first"])
            await bench.ended(uid, "first")
            bench.runtime.start_container(uid, "main", 0)
            await bench.until(
                uid,
                lambda one: "main" in one and (one["main"].finished > 0 or bool(one["main"].message)),
            )

    asyncio.run(scene())
    assert sorted(path.name for path in secret.iterdir()) == ["file", "passwd"]
    assert (secret / "file").read_text() == _SECRET


@pytest.mark.parametrize("link", ["of a volume", "of the image"])
def test_a_link_to_the_root_is_no_place_for_a_volume_either(
    contained_place: Place, tmp_path: Path, secret: Path, link: str
) -> None:
    """A volume that is mounted at a link of another volume, or of the image, which leads to the root."""
    rooted = tar_of([(entry("x", tarfile.SYMTYPE, linkname="/"), b"")])
    archive = Archive([busybox_layer(found_busybox()), rooted], name=_IMAGE).write(tmp_path / "rooted.tar")
    busybox = "/bin/busybox"
    make = f"{busybox} ln -s / /a/x; {busybox} ln -s {secret} /b/dev; {busybox} cp -r /bin /b/bin"

    async def scene() -> None:
        async with contained_place.bench() as bench:
            await bench.runtime.import_image(archive)  # type: ignore[attr-defined]
            first = container(make, "first")
            first["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in ("a", "b")]
            second = container("true", image=_IMAGE)
            second["volumeMounts"] = [{"name": "b", "mountPath": "/x"}]
            if link == "of a volume":
                second["volumeMounts"] = [
                    {"name": "a", "mountPath": "/v"},
                    {"name": "b", "mountPath": "/v/x"},
                ]
            pod = pod_of(first, second, volumes=[{"name": name, "emptyDir": {}} for name in ("a", "b")])
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["first"])
            await bench.ended(uid, "first")
            bench.runtime.start_container(uid, "main", 0)
            await bench.until(
                uid,
                lambda one: "main" in one and (one["main"].finished > 0 or bool(one["main"].message)),
            )

    asyncio.run(scene())
    assert sorted(path.name for path in secret.iterdir()) == ["file", "passwd"]
