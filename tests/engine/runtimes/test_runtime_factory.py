"""Runtimes by name: which one is opened, and what becomes of another's pods."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import clear_runtime, open_runtime, standing_runtime
from proreus.engine.runtimes.options import MachineOptions
from proreus.model.errors import UsageError
from proreus.version import __version__
from tests.engine.runtimes.benches import Bench, container, pod_of
from tests.engine.runtimes.conftest import found_busybox
from tests.engine.runtimes.leftovers import assert_nothing_left, processes


@pytest.fixture
def options(tmp_path: Path) -> Iterator[MachineOptions]:
    """Of a machine without containerd; nothing is left on it."""
    made = MachineOptions(tmp_path / "node", socket=tmp_path / "none.sock")
    yield made
    assert_nothing_left(str(made.root), made.own_name, patience=30.0)


def test_an_unknown_runtime_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'runc'"):
        asyncio.run(open_runtime("runcc", MachineOptions(tmp_path)))


def test_auto_is_the_best_that_works(options: MachineOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # runc needs root; there is no containerd

    async def scene() -> str:
        runtime = await open_runtime("auto", options)
        await runtime.close()
        return runtime.capacity().info["containerRuntimeVersion"]

    assert asyncio.run(scene()) == f"process://{__version__}"


def test_a_socket_that_is_root_s_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_for_you(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    options = MachineOptions(tmp_path / "node", socket=tmp_path / "root.sock")
    with pytest.raises(UsageError, match="there is no containerd"):
        asyncio.run(open_runtime("containerd", options))
    monkeypatch.setattr(Path, "is_socket", not_for_you)
    with pytest.raises(UsageError, match="does not answer this user"):
        asyncio.run(open_runtime("containerd", options))


def test_nobody_behind_a_socket_is_one_line(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(tmp_path / "x.sock"))
        with pytest.raises(UsageError, match=r"containerd does not answer at .*x\.sock"):
            asyncio.run(
                open_runtime("containerd", MachineOptions(tmp_path / "n", socket=tmp_path / "x.sock"))
            )


async def with_a_pod(name: str, options: MachineOptions) -> None:
    """A pod runs on when this is through."""
    runtime = await open_runtime(name, options)
    bench = Bench(runtime, name)
    runtime.subscribe(bench.hear)
    pod = pod_of(container("sleep 1000"))
    runtime.start(pod, ["main"])
    await bench.until(pod["metadata"]["uid"], lambda one: one["main"].started > 0)
    assert runtime.running() == 1
    await runtime.close()


def test_auto_goes_on_with_the_runtime_whose_pods_stand(options: MachineOptions) -> None:
    async def scene() -> None:
        await with_a_pod("process", options)
        assert standing_runtime(options.root) == "process"
        again = await open_runtime("auto", options)  # root has runc, too: the pod would run a second time
        assert (again.name, again.running()) == ("process", 1)
        await again.close()
        assert await clear_runtime(options) == 1
        assert standing_runtime(options.root) == "" and not list((options.root / "pods").iterdir())
        assert await clear_runtime(options) == 0

    asyncio.run(scene())


def test_the_pods_of_another_runtime_end_before_one_is_opened(options: MachineOptions) -> None:
    found_busybox("runc")

    async def scene() -> MachineRuntime:
        await with_a_pod("process", options)
        assert processes(str(options.root))
        other = await open_runtime("runc", options)
        assert (other.name, other.running(), list(other.adopt(()))) == ("runc", 0, [])
        assert not processes(str(options.root))
        await other.close()
        return other

    asyncio.run(scene())
