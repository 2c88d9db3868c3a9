"""Images that containerd pulls from a registry: what is told, and what is refused."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import open_runtime
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import PodRuntime
from proreus.engine.runtimes.start_backoff import Pauses
from tests.engine.runtimes.archives import Archive, busybox_archive, entry, tar_of
from tests.engine.runtimes.benches import FixedReferences, Place, container, happened, pod_of
from tests.engine.runtimes.conftest import found_busybox
from tests.engine.runtimes.leftovers import assert_nothing_left
from tests.engine.runtimes.registries import serving


@pytest.fixture
def place(containerd_socket: Path, tmp_path: Path) -> Iterator[Place]:
    options = MachineOptions(tmp_path / "node", socket=containerd_socket, pauses=Pauses(first=0.2, image=0.4))

    async def opener() -> PodRuntime:
        return await open_runtime("containerd", options)

    yield Place("containerd", options.root, opener, options, FixedReferences(), tmp_path)
    assert_nothing_left(str(options.root), options.own_name)


def test_an_image_is_pulled_told_and_there_the_next_time(place: Place, tmp_path: Path) -> None:
    archive = busybox_archive(found_busybox(), tmp_path / "app.tar")

    async def scene(address: str) -> None:
        async with place.bench() as bench:
            assert isinstance(bench.runtime, MachineRuntime)
            image = f"{address}/team/app:1"
            first, second = pod_of(container("true", image=image)), pod_of(container("true", image=image))
            end, _ = await bench.run(first)
            assert end.image.startswith(f"{address}/team/app@sha256:")
            messages = [message for _, _, message in happened(end)]
            assert messages[0] == f'Pulling image "{image}"'
            took = r"\d+(\.\d+)?s"
            words = (
                f'Successfully pulled image "{re.escape(image)}" in {took} \\({took} including waiting\\)\\.'
            )
            assert re.fullmatch(rf"{words} Image size: [1-9]\d* bytes\.", messages[1])
            assert messages[2:] == ["Created container: main", "Started container main"]
            end, _ = await bench.run(second)
            assert happened(end)[0][2] == f'Container image "{image}" already present on machine'
            for pod in (first, second):
                bench.runtime.remove(pod["metadata"]["uid"])
            await bench.runtime.settled()
            assert await bench.runtime.remove_image(image)

    with serving(archive) as (address, _):
        asyncio.run(scene(address))


def test_a_blob_that_is_not_what_its_digest_says_is_never_run(place: Place, tmp_path: Path) -> None:
    new = tar_of([(entry("marker"), os.urandom(4096))])  # what containerd has already it does not fetch
    archive = Archive([new]).write(tmp_path / "app.tar")

    async def scene(address: str) -> None:
        async with place.bench() as bench:
            pod = pod_of(container("true", image=f"{address}/team/false:1"))
            bench.runtime.start(pod, ["main"])
            found = await bench.until(pod["metadata"]["uid"], lambda one: bool(one["main"].message))
            assert found["main"].reason == "ErrImagePull"
            assert "Started" not in [reason for _, reason, _ in happened(found["main"])]

    with serving(archive) as (address, blobs):
        largest = max(blobs, key=lambda name: len(blobs[name]))
        blobs[largest] = blobs[largest][:-1] + bytes([blobs[largest][-1] ^ 1])
        asyncio.run(scene(address))
