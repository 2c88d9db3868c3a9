"""Containers by containerd, through the Container Runtime Interface on its socket.

Sandboxes share the machine's network, so that no network plugin is needed. Logs are written by containerd and
turned over here about once a second, as a kubelet does every ten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from proreus.engine.runtimes.backend import (
    ContainerExit,
    ContainerPlan,
    Launched,
    LaunchRefused,
    RecoveredContainer,
    Written,
)
from proreus.engine.runtimes.block_devices import disks_of
from proreus.engine.runtimes.cgroups import Cgroups, CgroupUsage, Unwritable
from proreus.engine.runtimes.commands import collected, not_started
from proreus.engine.runtimes.container_events import sandbox_failed
from proreus.engine.runtimes.containerd import cri_pb2 as cri
from proreus.engine.runtimes.containerd.container_status import came_to_nothing, launched
from proreus.engine.runtimes.containerd.container_watch import ContainerWatch
from proreus.engine.runtimes.containerd.cri_client import CriCalls
from proreus.engine.runtimes.containerd.cri_client import details as _details
from proreus.engine.runtimes.containerd.cri_config import OWN, UID, container_config, sandbox_config
from proreus.engine.runtimes.containerd.ctr import Ctr
from proreus.engine.runtimes.containerd.exec_streams import ExecStreams, open_session
from proreus.engine.runtimes.containerd.images import CriImages
from proreus.engine.runtimes.containerd.orphaned_shims import ForgottenShims
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    CommandResult,
    CommandWanted,
    ContainerSession,
    Image,
    Pod,
    RuntimeAway,
    RuntimeRefused,
)
from proreus.engine.runtimes.shim.backend import limits_of, refuse_privileges
from proreus.engine.runtimes.shim.shim import kill_container, members
from proreus.model.errors import UsageError

_USUAL_ROOT = Path("/var/lib/containerd")
"""Where containerd keeps the files of containers unless it is told otherwise."""
_LOOK_SECONDS = 1.0
_PROBE_SECONDS = 10.0
"""So long the sandbox may take that is made to see whether one can be."""
_CAP_SYS_RESOURCE = 24
_CURE = " (root lacks CAP_SYS_RESOURCE: `restrict_oom_score_adj = true` in its configuration may cure it)"
_UNCLEAR = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""Nobody knows whether it was done."""
_log = logging.getLogger(__name__)


class ContainerdBackend:
    scheme = "containerd"
    version = ""
    needs_images = own_files = True

    def __init__(self, options: MachineOptions) -> None:
        self._options = options
        self._cri = CriCalls(options.socket)
        self._ctr = Ctr(options.socket, options.namespace)
        self._sandboxes: dict[str, str] = {}
        """The sandbox of each pod."""
        self._configs: dict[str, cri.PodSandboxConfig] = {}
        self._tries: dict[str, int] = {}
        """How often a sandbox could not be made: its name may stay taken by one that came to nothing."""
        self._images = CriImages(self._cri, self._ctr, options)
        self._shims = ForgottenShims(options, self._cri, self._ctr)
        self._watch = ContainerWatch(self._cri, options, self._shims.look_soon)
        self._tasks: set[asyncio.Task[Any]] = set()
        try:
            disks = disks_of((options.root, *options.host_paths, _USUAL_ROOT))
            self._cgroups: Cgroups | None = Cgroups(options.own_name, disks=disks)
            self.no_disk_limits = self._cgroups.no_disk_limits
            self.no_network_limits = self._cgroups.no_network_limits
        except Unwritable as error:
            self._cgroups, self.no_disk_limits, self.no_network_limits = None, str(error), str(error)

    @property
    def trouble(self) -> str:
        """As the watch has it."""
        return self._watch.trouble

    async def recover(self, uids: Sequence[str]) -> Mapping[str, Sequence[RecoveredContainer]]:
        """Sandboxes and containers by the labels that were given to them."""
        try:
            told = await self._cri.call("Version", cri.VersionRequest(), 10.0)
            self.version = str(told.runtime_version)
        except grpc.aio.AioRpcError as error:
            place = self._options.socket
            raise UsageError(f"containerd does not answer at {place}: {_details(error)}") from error
        own = {OWN: self._options.own_name}
        for sandbox in (await self._list_sandboxes(own)).items:
            uid = sandbox.labels.get(UID, "")
            if uid not in uids:
                await self._raze(sandbox.id)
            elif sandbox.state == cri.SANDBOX_READY:
                self._sandboxes[uid] = sandbox.id
        found: dict[str, list[RecoveredContainer]] = {}
        for container in (await self._list_containers()).containers:
            uid, name, attempt = (
                container.labels.get(UID, ""),
                container.metadata.name,
                container.metadata.attempt,
            )
            if container.state == cri.CONTAINER_CREATED or uid not in uids:
                await self._remove(container.id)
                continue
            status = (await self._status(container.id)).status
            if came_to_nothing(status):
                await self._remove(container.id)
                continue
            self._watch.logs[container.id] = self.log(uid, name, attempt)
            found.setdefault(uid, []).append(RecoveredContainer(name, attempt, launched(status)))
        await self._look_at_images()
        self._task(self._watch.run())
        self._task(self._shims.run())
        return found

    async def unready(self) -> str:
        """The image of its sandboxes may be missing, and nowhere to be had; or a sandbox may fail to start.

        One is made and removed, within bounds: only so it shows that root lacks CAP_SYS_RESOURCE, for which
        containerd has `restrict_oom_score_adj`.
        """
        missing = await self._images.missing_sandbox_image()
        return missing or await self._failing_sandbox()

    async def _failing_sandbox(self) -> str:
        """Why a sandbox cannot be made; "" where it can. What stays is removed by the next `recover`."""
        uid = f"probe-{uuid.uuid4()}"
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self.stand({"metadata": {"name": "proreus-probe", "uid": uid}})
            return ""
        except LaunchRefused as refused:
            cure = "" if _has_capability(_CAP_SYS_RESOURCE) else _CURE
            return f"containerd cannot make a sandbox: {refused}{cure}"
        except TimeoutError:
            return f"containerd did not make a sandbox within {_PROBE_SECONDS:g} s"
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_SECONDS):
                    await self.raze(uid)

    async def stand(self, pod: Pod) -> str:
        """A sandbox that is ready; one that is not is left to `raze`."""
        uid = str(pod["metadata"]["uid"])
        own = {OWN: self._options.own_name, UID: uid}
        try:
            known = (await self._list_sandboxes(own)).items
            ready = next((one for one in known if one.state == cri.SANDBOX_READY), None)
            attempt = max((one.metadata.attempt + 1 for one in known), default=self._tries.get(uid, 0))
            attempt = attempt if ready is None else ready.metadata.attempt
            config = sandbox_config(pod, own, self._logs_of(uid), attempt)
            if ready is None:
                answer = await self._cri.call("RunPodSandbox", cri.RunPodSandboxRequest(config=config))
            self._sandboxes[uid] = answer.pod_sandbox_id if ready is None else ready.id
            self._configs[uid] = config
        except grpc.aio.AioRpcError as error:
            self._tries[uid] = self._tries.get(uid, 0) + 1
            details = _details(error)
            raise LaunchRefused("ContainerCreating", details, sandbox_failed(details)) from error
        return self._options.address

    async def launch(self, plan: ContainerPlan) -> Launched:
        """Its image, then the container, then its start."""
        refuse_privileges(plan, allowed=self._options.allow_privileged)
        if plan.uid not in self._configs:
            await self.stand(plan.pod)
        begun = await self._begun(plan)
        if begun is not None:
            return begun
        labels = {OWN: self._options.own_name, UID: plan.uid}
        request = cri.CreateContainerRequest(
            pod_sandbox_id=self._sandboxes[plan.uid],
            config=container_config(plan, labels),
            sandbox_config=self._configs[plan.uid],
        )
        log = self.log(plan.uid, plan.name, plan.attempt)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            id = (await self._cri.call("CreateContainer", request)).container_id
        except grpc.aio.AioRpcError as error:
            self._configs.pop(plan.uid, None)  # its sandbox may be gone: the next attempt looks
            raise LaunchRefused("CreateContainerError", _details(error)) from error
        self._watch.logs[id] = log
        try:
            self._hold_network(plan, id)
            await self._cri.call("StartContainer", cri.StartContainerRequest(container_id=id))
            self._hold_disk(plan, id)
            return replace(launched((await self._status(id)).status), ended=None)
        except grpc.aio.AioRpcError as error:
            if error.code() in _UNCLEAR:  # it may run: the next attempt looks, and begins nothing twice
                raise LaunchRefused("RunContainerError", _details(error)) from error
            await self._remove(id)
            now = time.time()
            return Launched(id, now, ContainerExit(128, "StartError", _details(error), now))

    def _hold_network(self, plan: ContainerPlan, id: str) -> None:
        """Before the start, in the cgroup that the container will be in: a socket belongs to its maker's."""
        rate = limits_of(plan, 0).network
        if rate is not None and self._cgroups is not None:
            self._cgroups.hold_network(id, rate)

    def _hold_disk(self, plan: ContainerPlan, id: str) -> None:
        """CRI has no word for it: the cgroup that containerd has made is held directly."""
        rate = limits_of(plan, 0).disk
        if rate is not None and self._cgroups is not None:
            with contextlib.suppress(FileNotFoundError):  # it has ended already
                self._cgroups.hold_disk(id, rate)

    async def _begun(self, plan: ContainerPlan) -> Launched | None:
        """What an agent that was killed had under way: it is not begun a second time."""
        try:
            for container in (await self._list_containers()).containers:
                who = (container.labels.get(UID), container.metadata.name, container.metadata.attempt)
                if who != (plan.uid, plan.name, plan.attempt):
                    continue
                status = (await self._status(container.id)).status
                if container.state == cri.CONTAINER_CREATED or came_to_nothing(status):
                    await self._remove(container.id)
                    continue
                self._watch.logs[container.id] = self.log(*who)
                return launched(status)
        except grpc.aio.AioRpcError as error:
            raise LaunchRefused("CreateContainerError", _details(error)) from error
        return None

    async def wait(self, id: str) -> ContainerExit:
        """Looked for a few times a second, all containers together."""
        return await self._watch.wait(id)

    async def stop(self, id: str, grace: float) -> None:
        """containerd does it, and kills after the grace."""
        self._task(self._stop(id, time.monotonic() + grace))

    async def _stop(self, id: str, by: float) -> None:
        """Asked until it is done: a containerd that is killed meanwhile has forgotten it."""
        while True:
            grace = max(0.0, by - time.monotonic())
            request = cri.StopContainerRequest(container_id=id, timeout=math.ceil(grace))
            try:
                await self._cri.call("StopContainer", request, grace + 60.0)
                return
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    return
            await asyncio.sleep(_LOOK_SECONDS)

    async def discard(self, id: str) -> None:
        """The container and its log."""
        await self._remove(id)
        log = self._watch.logs.pop(id, None)
        if log is not None:
            for file in log.parent.glob(log.name + "*"):
                file.unlink(missing_ok=True)

    async def raze(self, uid: str) -> None:
        """All sandboxes of the pod; containerd takes their containers along."""
        while True:
            try:
                for sandbox in (await self._list_sandboxes({OWN: self._options.own_name, UID: uid})).items:
                    await self._raze(sandbox.id)
                break
            except grpc.aio.AioRpcError:  # it must be gone in the end, whenever containerd is back
                await asyncio.sleep(_LOOK_SECONDS)
        self._sandboxes.pop(uid, None)
        self._configs.pop(uid, None)
        self._tries.pop(uid, None)
        folder = self._logs_of(uid)
        for id in [id for id, log in self._watch.logs.items() if folder in log.parents]:
            del self._watch.logs[id]

    async def execute(self, id: str, command: Sequence[str], stdin: bytes, timeout: float) -> CommandResult:
        """`ExecSync`, which ends what takes too long but has no input; with input, as `begin`."""
        if stdin:
            wanted = CommandWanted("", tuple(command), stdin=True)
            return await collected(await self.begin(id, wanted), stdin, timeout)
        request = cri.ExecSyncRequest(container_id=id, cmd=list(command), timeout=math.ceil(timeout))
        try:
            answer = await self._cri.call("ExecSync", request, timeout + 10.0)
        except grpc.aio.AioRpcError as error:
            details = _details(error)
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED or "timeout" in details:
                raise RuntimeRefused(f"the command did not end within {timeout:g} s") from error
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise RuntimeAway(details) from error
            result = not_started(details)
            if result is None:
                raise RuntimeRefused(details) from error
            return result
        return CommandResult(answer.exit_code, answer.stdout, answer.stderr)

    async def begin(self, id: str, wanted: CommandWanted) -> ContainerSession:
        """By containerd's own server of streams, whose address CRI tells."""
        streams = ExecStreams(wanted.stdin, wanted.tty)
        request = cri.ExecRequest(
            container_id=id,
            cmd=list(wanted.command),
            tty=wanted.tty,
            stdin=wanted.stdin,
            stdout=True,
            stderr=not wanted.tty,
        )
        return await self._stream("Exec", request, streams)

    async def attach(self, id: str, wanted: AttachWanted, written: Written) -> ContainerSession:
        """The same way."""
        request = cri.AttachRequest(
            container_id=id, stdin=wanted.stdin, tty=wanted.tty, stdout=True, stderr=not wanted.tty
        )
        return await self._stream("Attach", request, ExecStreams(wanted.stdin, wanted.tty))

    async def _stream(self, name: str, request: Any, streams: ExecStreams) -> ContainerSession:
        try:
            answer = await self._cri.call(name, request, 10.0)
        except grpc.aio.AioRpcError as error:
            raise RuntimeRefused(_details(error)) from error
        return await open_session(answer.url, streams)

    def log(self, uid: str, container: str, attempt: int) -> Path:
        """In the pod's folder of logs."""
        return self._logs_of(uid) / container / f"{attempt}.log"

    def spent(self, id: str) -> CgroupUsage | None:
        """As its cgroup counts."""
        return None if self._cgroups is None else self._cgroups.spent(id)

    def processes(self, id: str) -> set[int]:
        """As its cgroup has them."""
        return set() if self._cgroups is None else members(self._cgroups.folders(id))

    async def layers(self) -> Mapping[str, int]:
        """As containerd's snapshots count."""
        wanted = cri.ContainerStatsFilter(label_selector={OWN: self._options.own_name})
        try:
            answer = await self._cri.call("ListContainerStats", cri.ListContainerStatsRequest(filter=wanted))
        except grpc.aio.AioRpcError:  # away: the next look will tell
            return {}
        return {one.attributes.id: one.writable_layer.used_bytes.value for one in answer.stats}

    async def has_image(self, name: str) -> bool:
        return await self._images.has(name)

    async def pull_image(self, name: str) -> int:
        return await self._images.pull(name)

    def images(self) -> Sequence[Image]:
        """As of the last look."""
        return self._images.held

    async def import_image(self, path: Path, name: str) -> Sequence[Image]:
        return await self._images.import_archive(path, name)

    async def remove_image(self, name: str) -> bool:
        return await self._images.remove(name)

    async def close(self) -> None:
        """Hang up; containerd and its containers go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cri.close()
        if self._cgroups is not None:
            self._cgroups.close()

    async def _look_at_images(self) -> None:
        await self._images.look()

    async def _list_sandboxes(self, labels: Mapping[str, str]) -> Any:
        wanted = cri.PodSandboxFilter(label_selector=dict(labels))
        return await self._cri.call("ListPodSandbox", cri.ListPodSandboxRequest(filter=wanted))

    async def _list_containers(self) -> Any:
        wanted = cri.ContainerFilter(label_selector={OWN: self._options.own_name})
        return await self._cri.call("ListContainers", cri.ListContainersRequest(filter=wanted))

    async def _status(self, id: str) -> Any:
        return await self._cri.call("ContainerStatus", cri.ContainerStatusRequest(container_id=id))

    async def _remove(self, id: str) -> None:
        """Also one with a task that containerd began when the agent was killed, and then lost sight of."""
        await self._remove_container(id)
        if self._cgroups is not None:
            self._cgroups.release_network(id)

    async def _remove_container(self, id: str) -> None:
        request = cri.RemoveContainerRequest(container_id=id)
        try:
            await self._cri.call("RemoveContainer", request)
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                return  # it is done again anyway
            message = await self._ctr.end_task(id)
            if message:
                _log.warning("container %s has a task that containerd does not end: %s", id, message)
            await self._quietly("RemoveContainer", request)

    async def _raze(self, sandbox: str) -> None:
        """Also what containerd had begun of it when it was killed, and does not know to be there."""
        await self._cri.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        if self._cgroups is not None and (left := kill_container(self._cgroups.folders(sandbox), 0)):
            _log.warning("ended %d processes that containerd left of sandbox %s", left, sandbox)
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
        try:
            await self._cri.call("RemovePodSandbox", request)
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                raise
            for container in (await self._list_containers()).containers:
                if container.pod_sandbox_id == sandbox:
                    await self._remove(container.id)
            await self._cri.call("RemovePodSandbox", request)

    async def _quietly(self, name: str, request: Any, seconds: float = 60.0) -> None:
        """For what is done again anyway where it fails."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            await self._cri.call(name, request, seconds)

    def _task(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _logs_of(self, uid: str) -> Path:
        return (self._options.root / "pods" / uid / "logs").resolve()


def _has_capability(number: int) -> bool:
    """Whether this process has it, and so most likely a containerd beside it."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)
