"""Runtimes by name: which one is opened, and what becomes of another's pods."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import (
    check_runtime,
    clear_runtime,
    open_runtime,
    standing_runtime,
)
from proreus.engine.runtimes.containerd import backend as containerd_backend
from proreus.engine.runtimes.options import MachineOptions
from proreus.model.errors import UsageError
from proreus.version import __version__
from tests.engine.runtimes.benches import Bench, container, pod_of
from tests.engine.runtimes.conftest import found_busybox
from tests.engine.runtimes.containerds import containerd
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

    async def scene() -> tuple[str, tuple[str, ...]]:
        runtime = await open_runtime("auto", options)
        await runtime.close()
        return runtime.capacity().info["containerRuntimeVersion"], runtime.passed_over

    version, (no_containerd, no_runc) = asyncio.run(scene())
    assert version == f"process://{__version__}"
    assert f"there is no containerd at {options.socket}" in no_containerd and "runc" in no_runc


@pytest.mark.parametrize(("installed", "says"), [(True, "; it is installed but does not run"), (False, "")])
def test_a_containerd_that_is_installed_and_does_not_run_is_told_as_that(
    installed: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if installed else None)
    place = tmp_path / "none.sock"
    with pytest.raises(UsageError) as refused:
        check_runtime("containerd", MachineOptions(tmp_path, socket=place))
    assert str(refused.value) == f"there is no containerd at {place}{says}"


@pytest.mark.parametrize("runtime", ["runc", "/bin/false"])
def test_auto_takes_a_containerd_that_can_make_a_sandbox(
    runtime: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containerd_backend, "_has_capability", lambda number: False)
    busybox = found_busybox("containerd", "ctr", "runc")
    with containerd(tmp_path_factory.mktemp("c"), busybox, runtime) as daemon:
        options = MachineOptions(tmp_path / "node", socket=daemon.socket)

        async def scene() -> MachineRuntime:
            opened = await open_runtime("auto", options)
            await opened.close()
            return opened

        opened = asyncio.run(scene())
        assert not daemon.ctr_says("containers", "list", "--quiet")
        assert not standing_runtime(options.root)
    if runtime == "runc":
        assert (opened.name, opened.passed_over) == ("containerd", ())
    else:
        assert opened.name == "runc"
        (why,) = opened.passed_over
        assert why.startswith("containerd cannot make a sandbox: ") and "restrict_oom_score_adj" in why
    assert_nothing_left(str(options.root), options.own_name)


def test_a_socket_that_is_root_s_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_for_you(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    options = MachineOptions(tmp_path / "node", socket=tmp_path / "root.sock")
    with pytest.raises(UsageError, match="there is no containerd"):
        asyncio.run(open_runtime("containerd", options))
    monkeypatch.setattr(Path, "is_socket", not_for_you)
    with pytest.raises(UsageError, match="this user may not see whether containerd answers at"):
        asyncio.run(open_runtime("containerd", options))


def test_a_socket_that_takes_nothing_of_this_user_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(tmp_path / "x.sock"))
        options = MachineOptions(tmp_path / "n", socket=tmp_path / "x.sock")
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
