"""Which shims containerd has forgotten, and that these alone are ended."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.containerd import orphaned_shims
from proreus.engine.runtimes.containerd.cri_client import CriCalls
from proreus.engine.runtimes.containerd.orphaned_shims import Shim, empty_shims, judge, shim_of
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.shim.shim import descendants, members, start_time
from tests.engine.runtimes.benches import PATIENCE, container, pod_of
from tests.engine.runtimes.conftest import containerd_bench, found_busybox
from tests.engine.runtimes.containerds import Daemon, containerd
from tests.engine.runtimes.leftovers import assert_nothing_left, cgroups, processes

PROGRAM = "/usr/bin/containerd-shim-runc-v2"
SHIM = Shim(7, 100, "a", "k8s.io", "/run/c.sock")


def test_a_shim_is_forgotten_once_it_was_unknown_long_enough() -> None:
    first = judge([SHIM], set(), {}, 50.0)
    assert (first.suspected, first.forgotten) == ({SHIM: 50.0}, ())
    soon = judge([SHIM], set(), first.suspected, 59.9)
    assert (soon.suspected, soon.forgotten) == ({SHIM: 50.0}, ())
    assert judge([SHIM], set(), soon.suspected, 60.0).forgotten == (SHIM,)


def test_a_shim_that_containerd_knows_is_none_of_them_however_long_it_was_suspected() -> None:
    verdict = judge([SHIM], {"a"}, {SHIM: 0.0}, 1000.0)
    assert (verdict.suspected, verdict.forgotten) == ({}, ())


def test_who_had_a_child_meanwhile_or_took_over_the_number_begins_anew() -> None:
    verdict = judge([], set(), {SHIM: 0.0}, 1000.0)
    assert (verdict.suspected, verdict.forgotten) == ({}, ())
    later = Shim(SHIM.pid, 200, "a", "k8s.io", "/run/c.sock")
    verdict = judge([later], set(), {SHIM: 0.0}, 1000.0)
    assert (verdict.suspected, verdict.forgotten) == ({later: 1000.0}, ())


@pytest.mark.parametrize(
    "words",
    [
        (PROGRAM, "-namespace", "k8s.io", "-id", "a", "-address", "/run/c.sock"),
        (PROGRAM, "-namespace", "k8s.io", "-id", "a", "-address", "/run/c.sock", "-debug"),
        (PROGRAM, "--address=/run/c.sock", "-debug", "--id=a", "-namespace=k8s.io"),
    ],
)
def test_a_shim_is_told_by_its_command_line(words: tuple[str, ...]) -> None:
    assert shim_of(7, 100, words) == SHIM


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("/usr/bin/containerd",),
        ("grep", PROGRAM, "-namespace", "k8s.io", "-id", "a", "-address", "/run/c.sock"),
        ("containerd-shim-wasm-v1", "-namespace", "k8s.io", "-id", "a", "-address", "/run/c.sock"),
        (PROGRAM, "-namespace", "k8s.io", "-id", "a", "-address", "/run/c.sock", "start"),
        (PROGRAM, "-namespace", "k8s.io", "-id", "a", "-address", "/run/c.sock", "-bundle", "/b", "delete"),
        (PROGRAM, "-namespace", "k8s.io", "-id", "a"),
    ],
)
def test_nothing_else_is_a_shim(words: tuple[str, ...]) -> None:
    assert shim_of(7, 100, words) is None


class SlowShims:
    """containerd's shims, which do not tell it where they answer as long as they are held."""

    def __init__(self, folder: Path, real: str) -> None:
        self._held = folder / "held"
        wrapper = folder / Path(real).name
        wrapper.write_text(
            f'#!/bin/sh\nsaid=$("{real}" "$@")\nended=$?\n'
            f'while [ -e "{self._held}" ]; do sleep 0.05; done\nprintf %s "$said"\nexit $ended\n'
        )
        wrapper.chmod(0o755)

    def hold(self) -> None:
        self._held.touch()

    def let_go(self) -> None:
        self._held.unlink()


@pytest.fixture
def slow_shims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowShims:
    found_busybox("containerd", "ctr", "runc")
    real = shutil.which("containerd-shim-runc-v2")
    if real is None:
        pytest.skip("containerd's shim is not on the path")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return SlowShims(tmp_path / "bin", real)


@pytest.fixture
def daemon(slow_shims: SlowShims, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A containerd to be killed while a shim begins."""
    with containerd(tmp_path_factory.mktemp("c"), found_busybox()) as daemon:
        yield daemon


def test_the_shim_that_a_killed_containerd_forgot_is_ended_and_no_other(
    slow_shims: SlowShims, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphaned_shims, "_LOOK_SECONDS", 0.3)
    monkeypatch.setattr(orphaned_shims, "_SUSPECT_SECONDS", 0.5)
    options = MachineOptions(tmp_path / "node", socket=daemon.socket)
    other = tmp_path / daemon.socket.name
    other.touch()

    async def scene() -> None:
        runtime, bench = await containerd_bench(options, tmp_path)
        standing, begun = pod_of(container("sleep 300")), pod_of(container("sleep 300"))
        uid, begun_uid = standing["metadata"]["uid"], begun["metadata"]["uid"]
        runtime.start(standing, ["main"])
        before = await bench.running(uid)
        busy = _busy_shims(daemon)
        assert len(busy) == 1
        slow_shims.hold()
        runtime.start(begun, ["main"])
        async with asyncio.timeout(PATIENCE):
            while not (empty := empty_shims(daemon.socket, "k8s.io")):
                await asyncio.sleep(0.02)
            await asyncio.to_thread(daemon.kill)
            slow_shims.let_go()
            await asyncio.to_thread(daemon.start)
            await bench.running(begun_uid)
            (forgotten,) = empty
            assert forgotten.id in daemon.ctr_says("containers", "ls", "-q").split()
            await asyncio.sleep(2.0)  # some looks
            assert empty_shims(daemon.socket, "k8s.io") == empty, "one whose sandbox containerd knows"
            assert not empty_shims(daemon.socket, "default")
            assert not empty_shims(other, "k8s.io")
            runtime.remove(begun_uid)
            while empty_shims(daemon.socket, "k8s.io"):
                await asyncio.sleep(0.05)
        assert busy <= _busy_shims(daemon)
        assert bench.reports[uid].containers == (before,)
        assert (await runtime.execute(uid, "main", ["true"])).exit_code == 0
        runtime.remove(uid)
        await asyncio.wait_for(runtime.settled(), PATIENCE)
        await runtime.close()

    asyncio.run(scene())
    assert_nothing_left(str(options.root), options.own_name)


def test_the_first_process_of_a_sandbox_that_containerd_forgot_ends_with_its_pod(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is left when containerd is killed while the process is made: no note of it stays."""
    monkeypatch.setattr(orphaned_shims, "_LOOK_SECONDS", 0.3)
    monkeypatch.setattr(orphaned_shims, "_SUSPECT_SECONDS", 0.5)
    options = MachineOptions(tmp_path / "node", socket=daemon.socket)

    async def scene() -> None:
        runtime, bench = await containerd_bench(options, tmp_path)
        uid = (pod := pod_of(container("sleep 300")))["metadata"]["uid"]
        runtime.start(pod, ["main"])
        await bench.running(uid)
        calls = CriCalls(daemon.socket)
        (sandbox,) = (await calls.call("ListPodSandbox", cri.ListPodSandboxRequest())).items
        await calls.close()
        (first,) = members([str(Path(folder, sandbox.id)) for folder in cgroups(options.own_name)])
        daemon.kill()
        _forget(daemon.folder / "state" / "io.containerd.runtime.v2.task" / "k8s.io" / sandbox.id)
        await asyncio.to_thread(daemon.start)
        runtime.remove(uid)
        await asyncio.wait_for(runtime.settled(), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while start_time(first):
                await asyncio.sleep(0.05)
            while any("shim-runc" in line for line in processes(str(daemon.socket))):
                await asyncio.sleep(0.05)
        await runtime.close()

    asyncio.run(scene())
    assert_nothing_left(str(options.root), options.own_name)


def _forget(bundle: Path) -> None:
    subprocess.run(["umount", "--lazy", str(bundle / "rootfs")], check=True)
    shutil.rmtree(bundle)


def _busy_shims(daemon: Daemon) -> set[int]:
    there = {int(line.partition(":")[0]) for line in processes(str(daemon.socket)) if "shim-runc" in line}
    return {pid for pid in there if descendants(pid)}
