"""Every kind of runtime, for the tests that all must pass."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import image_store, open_runtime
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Capacity, PodRuntime
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.engine.runtimes.start_backoff import Pauses
from tests.engine.runtimes.archives import busybox_archive
from tests.engine.runtimes.benches import IMAGE, Bench, FixedReferences, Place
from tests.engine.runtimes.containerds import containerd
from tests.engine.runtimes.leftovers import assert_nothing_left

_PATHS = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
REAL = ("process", "process-rlimits", "runc", "containerd")


@pytest.fixture(params=["simulated", *REAL])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Any runtime."""
    yield from _place(request, tmp_path)


@pytest.fixture(params=REAL)
def real_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A runtime that runs something."""
    yield from _place(request, tmp_path)


@pytest.fixture(params=("runc", "containerd"))
def contained_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A runtime whose containers are kept from the machine."""
    yield from _place(request, tmp_path)


@pytest.fixture(scope="session")
def containerd_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One daemon for all tests."""
    busybox = found_busybox("containerd", "ctr", "runc")
    with containerd(tmp_path_factory.mktemp("containerd"), busybox) as daemon:
        yield daemon.socket


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    references, host = FixedReferences(), tmp_path / "host"
    host.mkdir()
    if request.param == "simulated":
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}

        async def pretend() -> PodRuntime:
            return SimulatedRuntime(Capacity(amounts, amounts), LoopTimers())

        yield Place("simulated", tmp_path, pretend, None, references, host)
        return
    root = tmp_path / "node"
    kind = str(request.param)
    options = MachineOptions(
        root,
        references=references,
        host_paths=(host,),
        log_bytes=64 * 1024,
        log_files=3,
        cgroups=kind != "process-rlimits",
        follow_seconds=0.1,
        devices=tmp_path / "machine",
        pauses=Pauses(first=0.2, image=0.4),
    )

    if kind == "containerd":
        options = replace(options, socket=request.getfixturevalue("containerd_socket"))
    if kind == "runc":
        _import_busybox(options, found_busybox("runc"))

    async def opener() -> PodRuntime:
        runtime = await open_runtime(kind.partition("-")[0], options)
        if kind == "containerd" and not any(IMAGE in image.names for image in runtime.images()):
            await runtime.import_image(busybox_archive(found_busybox(), tmp_path / "busybox.tar"))
        return runtime

    yield Place(kind, root, opener, options, references, host)
    assert_nothing_left(str(root), options.own_name)


async def containerd_bench(options: MachineOptions, folder: Path) -> tuple[MachineRuntime, Bench]:
    """A runtime over that containerd with an image in it, for tests that open it themselves."""
    runtime = await open_runtime("containerd", options)
    await runtime.import_image(busybox_archive(found_busybox(), folder / "busybox.tar"))
    bench = Bench(runtime, "containerd")
    runtime.subscribe(bench.hear)
    return runtime, bench


def found_busybox(*needed: str) -> Path:
    """A static busybox, of which images are made; skips where something that is needed is missing."""
    if os.geteuid() != 0:
        pytest.skip("real containers need root; plain processes do not, and are tested")
    for name in (*needed, "busybox"):
        if shutil.which(name, path=_PATHS) is None:
            pytest.skip(f"there is no {name} here: apt install containerd runc busybox-static")
    found = shutil.which("busybox", path=_PATHS)
    assert found is not None
    return Path(found)


def _import_busybox(options: MachineOptions, busybox: Path) -> None:
    options.root.mkdir(parents=True)
    archive = busybox_archive(busybox, options.root.parent / "busybox.tar")
    image_store(options).import_archive(archive)
