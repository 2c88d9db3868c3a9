"""containerd that is away, killed, or loses a shim."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.runtime_factory import noted_socket, open_runtime
from proreus.engine.runtimes.backend import ContainerPlan
from proreus.engine.runtimes.containerd import container_watch
from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.containerd.cri_client import CriCalls
from proreus.engine.runtimes.containerd.cri_config import OWN, UID, container_config
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Phase, PodRuntime, RuntimeAway
from proreus.model.errors import UsageError
from tests.engine.runtimes.archives import busybox_archive
from tests.engine.runtimes.benches import IMAGE, PATIENCE, FixedReferences, Place, container, pod_of
from tests.engine.runtimes.conftest import containerd_bench, found_busybox
from tests.engine.runtimes.containerds import Daemon, containerd
from tests.engine.runtimes.leftovers import assert_nothing_left, processes


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A containerd to be killed."""
    busybox = found_busybox("containerd", "ctr", "runc")
    with containerd(tmp_path_factory.mktemp("c"), busybox) as daemon:
        yield daemon


def test_there_is_no_containerd(tmp_path: Path) -> None:
    options = MachineOptions(tmp_path, socket=tmp_path / "none.sock")
    with pytest.raises(UsageError, match="there is no containerd at"):
        asyncio.run(open_runtime("containerd", options))


def test_containers_outlive_containerd_and_a_lost_shim_is_told(daemon: Daemon, tmp_path: Path) -> None:
    options = MachineOptions(tmp_path / "node", socket=daemon.socket)

    async def opener() -> PodRuntime:
        runtime: MachineRuntime = await open_runtime("containerd", options)
        await runtime.import_image(busybox_archive(found_busybox(), tmp_path / "busybox.tar"))
        return runtime

    place = Place("containerd", options.root, opener, options, FixedReferences(), tmp_path)

    async def scene() -> None:
        async with place.bench() as bench:
            pod = pod_of(container("sleep 300"))
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main"])
            before = await bench.running(uid)
            await asyncio.to_thread(daemon.kill)
            later = pod_of(container("echo later"))
            bench.runtime.start(later, ["main"])
            found = await bench.until(later["metadata"]["uid"], lambda one: bool(one["main"].message))
            assert found["main"].reason in ("ContainerCreating", "CreateContainerError")
            await asyncio.to_thread(daemon.start)
            await bench.ended(later["metadata"]["uid"])
            assert bench.reports[uid].containers == (before,)
            assert (await bench.runtime.execute(uid, "main", ["true"])).exit_code == 0
            for line in processes(str(daemon.socket)):
                if "containerd-shim" in line:
                    os.kill(int(line.partition(":")[0]), signal.SIGKILL)
            end = await bench.ended(uid)
            assert end.exit_code in (137, 255)

    asyncio.run(scene())
    assert_nothing_left(str(options.root), options.own_name)


def test_a_containerd_that_is_away_is_the_node_s_trouble_and_no_container_s(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_watch, "_AWAY_SECONDS", 0.5)
    options = MachineOptions(tmp_path / "node", socket=daemon.socket)

    async def scene() -> None:
        runtime, bench = await containerd_bench(options, tmp_path)
        probe = {
            "exec": {"command": ["true"]},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 1,
        }
        pod = pod_of(container("sleep 300", livenessProbe=probe))
        uid = pod["metadata"]["uid"]
        runtime.start(pod, ["main"])
        before = await bench.running(uid)
        with pytest.raises(UsageError, match="is in use by a container"):
            await runtime.remove_image(IMAGE)
        assert runtime.trouble() == ""
        await asyncio.to_thread(daemon.kill)
        while not runtime.trouble():
            await asyncio.sleep(0.05)
        assert runtime.trouble().startswith("container runtime is down: ")
        with pytest.raises(RuntimeAway):
            await runtime.execute(uid, "main", ["true"])
        await asyncio.sleep(2.5)  # the probe is tried twice meanwhile
        await asyncio.to_thread(daemon.start)
        while runtime.trouble():
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.5)
        assert [
            (container_report.id, container_report.phase)
            for container_report in bench.reports[uid].containers
        ] == [(before.id, Phase.RUNNING)]
        runtime.remove(uid)
        await asyncio.wait_for(runtime.settled(), PATIENCE)
        await runtime.close()
        assert noted_socket(options.root) == daemon.socket

    asyncio.run(scene())
    assert_nothing_left(str(options.root), options.own_name)


def test_a_task_that_containerd_lost_sight_of_is_ended(daemon: Daemon, tmp_path: Path) -> None:
    """As it leaves one whose start was called off at the wrong moment: begun, but not known to CRI."""
    options = MachineOptions(tmp_path / "node", socket=daemon.socket)

    async def scene() -> None:
        runtime, bench = await containerd_bench(options, tmp_path)
        pod = pod_of(container("sleep 300"))
        uid = pod["metadata"]["uid"]
        runtime.start(pod, ["main"])
        await bench.running(uid)
        calls = CriCalls(daemon.socket)
        (known,) = (await calls.call("ListPodSandbox", cri.ListPodSandboxRequest())).items
        plan = ContainerPlan(pod, container("", name="lost"), 0, ("/bin/sleep", "300"), (), {}, ())
        request = cri.CreateContainerRequest(
            pod_sandbox_id=known.id,
            config=container_config(plan, {OWN: options.own_name, UID: uid}),
            sandbox_config=cri.PodSandboxConfig(metadata=known.metadata),
        )
        lost = (await calls.call("CreateContainer", request)).container_id
        await calls.close()
        await asyncio.to_thread(daemon.ctr, "tasks", "start", "--null-io", "--detach", lost)
        runtime.remove(uid)
        await asyncio.wait_for(runtime.settled(), PATIENCE)
        await runtime.close()

    asyncio.run(scene())
    assert_nothing_left(str(options.root), options.own_name)
