"""What is told of a container and its image, as a kubelet tells it, with every runtime."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.runtimes.backend import LaunchRefused
from proreus.engine.runtimes.start_backoff import Pauses, StartBackoff
from proreus.model.errors import UsageError
from tests.engine.controllers.virtual_time import loop_now, play
from tests.engine.runtimes.archives import busybox_archive
from tests.engine.runtimes.benches import IMAGE, Place, container, happened, pod_of
from tests.engine.runtimes.conftest import found_busybox

_NOWHERE = "localhost:1/team/late:2"
"""Port 1: nobody answers there, and at once."""


def test_a_start_is_told_step_by_step(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of(container("sleep 60"))
            bench.runtime.start(pod, ["main"])
            report = await bench.running(pod["metadata"]["uid"])
            steps = [
                ("Normal", "Created", "Created container: main"),
                ("Normal", "Started", "Started container main"),
            ]
            there = ("Normal", "Pulled", f'Container image "{IMAGE}" already present on machine')
            has_image = not real_place.name.startswith("process")
            assert happened(report) == ([there, *steps] if has_image else steps)
            assert report.image.partition("sha256:")[1] == ("sha256:" if has_image else "")
            if real_place.name == "runc":
                assert report.image.startswith("localhost/busybox@sha256:")
            await bench.stop(pod["metadata"]["uid"])
        async with real_place.bench() as bench:
            pod = pod_of(container("sleep 60"))
            bench.runtime.start(pod, ["main"])
            before = await bench.running(pod["metadata"]["uid"])
            async with real_place.open() as other:
                (again,) = next(
                    pod_report
                    for pod_report in other.runtime.adopt([])
                    if pod_report.uid == pod["metadata"]["uid"]
                ).containers
                assert (again.image, again.notices) == (before.image, ()), "what was told is not told again"

    asyncio.run(scene())


def test_an_image_that_cannot_be_had_is_waited_for_and_its_import_ends_the_wait(
    real_place: Place, tmp_path: Path
) -> None:
    if real_place.name.startswith("process"):
        pytest.skip("plain processes need no image")

    async def scene() -> None:
        async with real_place.bench() as bench:
            assert isinstance(bench.runtime, MachineRuntime)
            image = f"localhost:1/team/late:{tmp_path.name}"  # one containerd serves all tests
            pod = pod_of(container("true", image=image))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"):
                found = await bench.until(uid, lambda one, reason=reason: one["main"].reason == reason)  # type: ignore[misc]
            assert found["main"].message.startswith(f'Back-off pulling image "{image}": ErrImagePull: ')
            told = happened(found["main"])
            assert told[0] == ("Normal", "Pulling", f'Pulling image "{image}"')
            assert told[1][:2] == ("Warning", "Failed")
            assert told[1][2].startswith(f'Failed to pull image "{image}": ')
            assert told[2:5] == [
                ("Warning", "Failed", "Error: ErrImagePull"),
                ("Normal", "BackOff", f'Back-off pulling image "{image}"'),
                ("Warning", "Failed", "Error: ImagePullBackOff"),
            ]
            archive = busybox_archive(found_busybox(), tmp_path / "late.tar")
            await bench.runtime.import_image(archive, image)
            end = await bench.ended(uid)
            assert (end.exit_code, end.reason) == (0, "Completed")
            assert [reason for _, reason, _ in happened(end)][-3:] == ["Pulled", "Created", "Started"]
            if real_place.name == "containerd":  # one daemon serves all tests
                bench.runtime.remove(uid)
                await bench.runtime.settled()
                assert await bench.runtime.remove_image(image)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("fields", "reason", "told"),
    [
        (
            {"image": _NOWHERE, "imagePullPolicy": "Never"},
            "ErrImageNeverPull",
            f'Container image "{_NOWHERE}" is not present with pull policy of Never',
        ),
        (
            {"image": "Not/A Name"},
            "InvalidImageName",
            'Failed to apply default image tag "Not/A Name": couldn\'t parse image name "Not/A Name": '
            "invalid reference format",
        ),
    ],
)
def test_images_that_nobody_looks_for(
    real_place: Place, fields: dict[str, str], reason: str, told: str
) -> None:
    if real_place.name.startswith("process") and reason == "ErrImageNeverPull":
        pytest.skip("plain processes need no image")

    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of(container("true", **fields))
            bench.runtime.start(pod, ["main"])
            found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
            assert (found["main"].reason, found["main"].message) == (reason, told)
            first = "InspectFailed" if reason == "InvalidImageName" else reason
            assert happened(found["main"])[:2] == [
                ("Warning", first, told),
                ("Warning", "Failed", f"Error: {reason}"),
            ]

    asyncio.run(scene())


def test_a_volume_that_does_not_stand_is_told(real_place: Place) -> None:
    async def scene() -> None:
        async with real_place.bench() as bench:
            mounts = [{"name": "settings", "mountPath": "/settings"}]
            volumes = [{"name": "settings", "configMap": {"name": "late"}}]
            pod = pod_of(
                container("cat /settings/a || cat $PROREUS_ROOT/settings/a", volumeMounts=mounts),
                volumes=volumes,
            )
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            found = await bench.until(uid, lambda one: bool(one["main"].message))
            message = 'MountVolume.SetUp failed for volume "settings" : configmap "late" not found'
            assert found["main"].reason == "ContainerCreating"
            assert happened(found["main"])[0] == ("Warning", "FailedMount", message)
            real_place.references.objects[("ConfigMap", "late")] = {"data": {"a": "here"}}
            end = await bench.ended(uid)
            assert (end.exit_code, end.message) == (0, ""), "nothing is left of the trouble"

    asyncio.run(scene())


def test_pauses_double_and_whoever_waits_for_an_image_is_told_so() -> None:
    async def scene() -> None:
        waiting, never = StartBackoff(Pauses(), asyncio.Event()), asyncio.Event()
        lasted = []
        for _ in range(7):
            began = loop_now().time()
            told = [one async for one in waiting.after(LaunchRefused("ErrImagePull", "no"), "late", never)]
            assert [(one.reason, str(one)) for one in told] == [
                ("ImagePullBackOff", 'Back-off pulling image "late": ErrImagePull: no')
            ]
            lasted.append(round(loop_now().time() - began, 3))
        assert lasted == [10, 20, 40, 80, 160, 300, 300]
        began = loop_now().time()
        assert [
            one async for one in waiting.after(LaunchRefused("CreateContainerError", "no"), "", never)
        ] == []
        assert round(loop_now().time() - began, 3) == 1
        loop_now().call_later(3.0, never.set)
        began = loop_now().time()
        assert (
            len([one async for one in waiting.after(LaunchRefused("ErrImagePull", "no"), "late", never)]) == 1
        )
        assert round(loop_now().time() - began, 3) == 3

    play(scene())


def test_one_of_an_image_s_names_goes_and_the_others_stay(real_place: Place, tmp_path: Path) -> None:
    if real_place.name.startswith("process"):
        pytest.skip("the same store as runc's")

    async def scene() -> None:
        async with real_place.bench() as bench:
            runtime = bench.runtime
            assert isinstance(runtime, MachineRuntime)
            archive = busybox_archive(found_busybox(), tmp_path / "named.tar")
            name = f"localhost/named:{tmp_path.name}"
            await runtime.import_image(archive)
            await runtime.import_image(archive, name)

            def held() -> set[str]:
                return {one for image in runtime.images() for one in image.names} & {name, IMAGE}

            assert held() == {name, IMAGE}
            pod = pod_of(container("sleep 60"))
            bench.runtime.start(pod, ["main"])
            await bench.running(pod["metadata"]["uid"])
            assert await runtime.remove_image(name), "the container does not need this name"
            assert held() == {IMAGE}
            assert not await runtime.remove_image(name)
            with pytest.raises(UsageError, match="in use"):
                await runtime.remove_image(IMAGE)

    asyncio.run(scene())


def test_what_is_missing_is_told_with_what_helps(real_place: Place) -> None:
    """`kubectl run t --image=nginx`: without an image there is no command, and nobody pulls one."""
    if real_place.name == "containerd":
        pytest.skip("containerd pulls images, and tells of that in its own words")

    async def scene() -> None:
        async with real_place.bench() as bench:
            pod = pod_of({"name": "main", "image": "nginx"})
            bench.runtime.start(pod, ["main"])
            found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
            helps = "proreus images import" if real_place.name == "runc" else "give the pod a command"
            assert helps in found["main"].message

    asyncio.run(scene())
