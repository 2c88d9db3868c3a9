"""`PodRuntime` on the machine itself: keeps what is known of each pod, and has a backend do the rest.

One task follows each attempt at a container from its start to its end. Tasks that are cancelled leave the
containers running: a new runtime on the same folder takes them up again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from proreus.engine.kubelet.capacity import machine_capacity
from proreus.engine.kubelet.container_lifecycle import ContainerLifecycle
from proreus.engine.kubelet.container_plan import Planner
from proreus.engine.kubelet.exec import ContainerAccess
from proreus.engine.kubelet.gpu_allocation import GpuAllocation
from proreus.engine.kubelet.pod_record import PodRecord, ended_report
from proreus.engine.kubelet.probes import PROBES
from proreus.engine.kubelet.termination_message import Terminations
from proreus.engine.kubelet.usage.pods import PodUsage
from proreus.engine.kubelet.volumes.refresh import VolumeRefresh
from proreus.engine.runtimes.backend import Backend, Launched, LaunchRefused, RecoveredContainer
from proreus.engine.runtimes.folder_removal import remove_tree
from proreus.engine.runtimes.gpus import list_gpus
from proreus.engine.runtimes.images.pull import have_image
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.pod_reports import container_of, first_attempt
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    Capacity,
    CommandResult,
    CommandWanted,
    ContainerReport,
    ContainerSession,
    Image,
    LogWanted,
    NodeUse,
    Notice,
    Phase,
    Pod,
    PodReport,
    PodUse,
    Use,
)
from proreus.engine.wire.duplex import Connection

_log = logging.getLogger(__name__)


class MachineRuntime:
    """See the module; made by `opened`."""

    def __init__(self, backend: Backend, options: MachineOptions) -> None:
        self._backend, self._options = backend, options
        self.passed_over: tuple[str, ...] = ()
        """Why runtimes that are better were not taken, where the choice was left to this program."""
        self._folder = options.root / "pods"
        self._pods: dict[str, PodRecord] = {}
        self._hear: Callable[[PodReport], None] = lambda report: None
        self._chores: set[asyncio.Task[None]] = set()
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._making = asyncio.Lock()
        self._gpus = GpuAllocation(self._folder, options.devices, self._pods)
        self._planner = Planner(self._folder, options, self._gpus, own_files=backend.own_files)
        self._lives = ContainerLifecycle(backend, self._folder, self._launch, self._tell, options.pauses)
        self._inside = ContainerAccess(backend, self._pods)
        self._using = PodUsage(backend, self._folder, self._pods)
        self._following = VolumeRefresh(
            self._pods, self._folder, self._planner, self._using.looking, self._tell
        )

    @classmethod
    async def opened(cls, backend: Backend, options: MachineOptions) -> MachineRuntime:
        """A runtime that has taken up what an earlier one left running below its root."""
        runtime = cls(backend, options)
        runtime._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in runtime._folder.iterdir():
            with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                pod = msgspec.json.decode((folder / "pod.json").read_bytes())
                standing = runtime._pods[folder.name] = PodRecord(pod)
                runtime._gpus.take_up(standing)
                runtime._following.take_up(standing)
        found = await backend.recover(sorted(runtime._pods))
        for folder in list(runtime._folder.iterdir()):
            if folder.name not in runtime._pods:
                remove_tree(folder)
        for uid, standing in runtime._pods.items():
            runtime._take_up(
                standing,
                [
                    await runtime._told(standing, recovered_container)
                    for recovered_container in found.get(uid, ())
                ],
            )
        runtime._chore(runtime._using.looking.run(), "looking at disks and GPUs")
        following = runtime._following.run(options.follow_seconds, options.references)
        runtime._chore(following, "following volumes")
        return runtime

    async def close(self) -> None:
        """Let go; the containers run on."""
        for task in list(self._chores):
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._backend.close()

    async def settled(self) -> None:
        """Until all pods that were to be removed are gone."""
        while self._leaving:
            await asyncio.wait(set(self._leaving.values()))

    def subscribe(self, hear: Callable[[PodReport], None]) -> None:
        """Reports go there."""
        self._hear = hear

    def adopt(self, pods: Sequence[Pod]) -> Sequence[PodReport]:
        """What was found when this runtime was opened, as it is now."""
        for pod in pods:
            standing = self._pods.get(str(pod["metadata"]["uid"]))
            if standing is not None:
                standing.pod = pod
        return [_report(self._pods[uid]) for uid in sorted(self._pods)]

    def start(self, pod: Pod, containers: Sequence[str]) -> None:
        """A folder and a sandbox for the pod, then its containers."""
        standing = PodRecord(pod)
        if standing.uid in self._pods:
            return
        self._pods[standing.uid] = standing
        for name in containers:
            self._begin(standing, name, first_attempt(pod, name))

    def start_container(self, uid: str, container: str, attempt: int) -> None:
        """The attempt before becomes the earlier one, and the one before that goes."""
        standing = self._pods.get(uid)
        if standing is None or standing.stopping.is_set():
            return
        last = standing.reports.get(container)
        if last is not None and (last.attempt >= attempt or last.phase is not Phase.EXITED):
            return
        if last is not None and container in standing.ids:
            old = standing.earlier.get(container)
            if old is not None:
                self._chore(self._backend.discard(old[1]), f"discarding {old[1]}")
            standing.earlier[container] = (last.attempt, standing.ids.pop(container))
        self._begin(standing, container, attempt)

    def stop(self, uid: str, grace: float) -> None:
        """First the containers, then the sidecars that served them, all within the grace."""
        standing = self._pods.get(uid)
        if standing is None:
            return
        by = time.monotonic() + grace
        standing.stop_by = min(by, standing.stop_by) if standing.stopping.is_set() else by
        standing.stopping.set()
        self._chore(self._stop_all(standing), f"stopping pod {uid}")

    def stop_container(self, uid: str, container: str, grace: float) -> None:
        """As its agent orders it; the agent sees to what comes after."""
        standing = self._pods.get(uid)
        if standing is not None and container in standing.endings:
            self._lives.stop_container(standing, container, grace)

    def remove(self, uid: str) -> None:
        """Killed, and nothing of it left on the disk."""
        standing = self._pods.pop(uid, None)
        if standing is None:
            return
        standing.stopping.set()
        for task in standing.tasks.values():
            task.cancel()
        self._leaving[uid] = self._chore(self._leave(uid, standing), f"removing pod {uid}")

    def capacity(self) -> Capacity:
        """The machine's."""
        runtime = f"{self._backend.scheme}://{self._backend.version}"
        gpus = len(list_gpus(self._options.devices))
        return machine_capacity(self._options, runtime, gpus)

    async def unready(self) -> str:
        """Why pods could not run now though the runtime answers; "" where they can."""
        return await self._backend.unready()

    @property
    def name(self) -> str:
        """Which runtime it is: "process", "runc" or "containerd"."""
        return self._backend.scheme

    def running(self) -> int:
        """How many containers run now."""
        reports = (report for standing in self._pods.values() for report in standing.reports.values())
        return sum(report.phase is Phase.RUNNING for report in reports)

    def trouble(self) -> str:
        """The backend's."""
        return self._backend.trouble

    def images(self) -> Sequence[Image]:
        """The backend's."""
        return self._backend.images()

    async def import_image(self, path: Path, name: str = "") -> Sequence[Image]:
        """Hold the images of an OCI archive, under `name` or their own; raises `BadArchive`."""
        images = await self._backend.import_image(path, name)
        self._lives.image_arrived()
        return images

    async def pull_image(self, name: str) -> int:
        """Fetch an image from its registry; how many bytes it has. Raises `LaunchRefused`."""
        size = await self._backend.pull_image(name)
        self._lives.image_arrived()
        return size

    async def remove_image(self, name: str) -> bool:
        """Forget an image; whether it was there. Raises `UsageError` where it is in use."""
        return await self._backend.remove_image(name)

    def stats(self) -> Sequence[Use]:
        """What containers used since this was last asked."""
        return self._using.stats()

    def pod_stats(self) -> Sequence[PodUse]:
        return self._using.pod_stats()

    def node_stats(self) -> NodeUse:
        """The whole machine's."""
        return self._using.node_stats()

    async def measure_devices(self) -> None:
        """Look now at what GPUs and pods' own networks do, which is looked at from time to time anyway."""
        await self._using.looking.look_at_devices()

    async def measure_disks(self) -> None:
        """Look now how much pods have written, which is looked at from time to time anyway."""
        await self._using.looking.walk()

    def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """The container's log files."""
        return self._inside.logs(uid, wanted)

    async def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0
    ) -> CommandResult:
        """In the container that runs."""
        return await self._backend.execute(self._inside.running(uid, container), command, stdin, timeout)

    async def begin(self, uid: str, wanted: CommandWanted) -> ContainerSession:
        """In the container that runs."""
        return await self._backend.begin(self._inside.running(uid, wanted.container), wanted)

    async def attach(self, uid: str, wanted: AttachWanted) -> ContainerSession:
        """The container that runs, this attempt at it."""
        return await self._inside.attach(uid, wanted)

    async def connect(self, uid: str, port: int) -> Connection:
        """The pods' network is the machine's."""
        return await self._inside.connect(uid, port)

    def _begin(self, standing: PodRecord, name: str, attempt: int) -> None:
        standing.reports[name] = ContainerReport(name, Phase.WAITING, attempt, reason="ContainerCreating")
        life = self._lives.ordered(standing, name)
        standing.tasks[name] = self._chore(life, f"container {name} of pod {standing.uid}")

    async def _launch(self, standing: PodRecord, name: str, tell: Callable[[Notice], None]) -> Launched:
        async with standing.stand:
            if not standing.address:
                await self._stand(standing)
        plan = await self._planner.plan(standing, name)
        await have_image(self._backend, plan.container, tell, self._making)
        return await self._backend.launch(plan)

    async def _stand(self, standing: PodRecord) -> None:
        leaving = self._leaving.get(standing.uid)
        if leaving is not None:
            await asyncio.wait({leaving})
        folder = self._folder / standing.uid
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / "pod.json.draft"
        draft.touch(mode=0o600)
        draft.write_bytes(msgspec.json.encode(standing.pod))
        draft.replace(folder / "pod.json")
        try:
            standing.address = await self._backend.stand(standing.pod)
            standing.failure = ""
        except LaunchRefused as error:
            standing.failure = str(error)
            raise

    async def _stop_all(self, standing: PodRecord) -> None:
        """All hooks at once; then the containers are asked to end, then one sidecar after the other."""
        for ending in standing.endings.values():
            ending.order(standing.stop_by)
        helpers = [
            str(init_container["name"]) for init_container in standing.pod["spec"].get("initContainers") or ()
        ]
        turns = [set(standing.tasks).difference(helpers), *({name} for name in reversed(helpers))]
        for names in turns:
            for name in names.intersection(standing.endings):
                standing.endings[name].take_turn()
            tasks = [standing.tasks[name] for name in names if name in standing.tasks]
            if tasks:
                await asyncio.wait(tasks)
        self._tell(standing)

    async def _leave(self, uid: str, standing: PodRecord) -> None:
        await asyncio.gather(*standing.tasks.values(), return_exceptions=True)
        try:
            await self._backend.raze(uid)
            await asyncio.to_thread(remove_tree, self._folder / uid)
            self._gpus.release(uid)
        finally:  # what is left of one that cannot be removed goes when the node is started anew
            self._leaving.pop(uid, None)

    async def _told(self, standing: PodRecord, attempt: RecoveredContainer) -> RecoveredContainer:
        """One that has ended meanwhile, with what it left to be told of it."""
        launched = attempt.launched
        if launched.ended is None:
            return attempt
        terminations = Terminations(self._folder, self._backend)
        ended = await terminations.told(standing.pod, attempt.name, attempt.attempt, launched.ended)
        return replace(attempt, launched=replace(launched, ended=ended))

    def _take_up(self, standing: PodRecord, recovered_containers: Sequence[RecoveredContainer]) -> None:
        """Attempts that an earlier runtime began: those that run are followed on."""
        standing.address = self._options.address
        for recovered_container in sorted(recovered_containers, key=lambda one: (one.name, one.attempt)):
            last = standing.reports.get(recovered_container.name)
            if last is not None:
                older = standing.earlier.get(recovered_container.name)
                if older is not None:
                    self._chore(self._backend.discard(older[1]), f"discarding {older[1]}")
                standing.earlier[recovered_container.name] = (
                    last.attempt,
                    standing.ids[recovered_container.name],
                )
            standing.reports[recovered_container.name] = ContainerReport(
                recovered_container.name, Phase.WAITING, recovered_container.attempt
            )
            standing.ids[recovered_container.name] = recovered_container.launched.id
        last_found = {
            one.name: one.launched for one in sorted(recovered_containers, key=lambda one: one.attempt)
        }
        for name, launched in last_found.items():
            probeless = not any(container_of(standing.pod, name).get(one) for one in PROBES)
            greeted = self._lives.greeted(standing, name)
            standing.reports[name] = structs.replace(
                standing.reports[name],
                phase=Phase.RUNNING if greeted else Phase.WAITING,
                id=self._lives.public(launched.id),
                image=launched.image,
                started=launched.started,
                ready=probeless and greeted,
            )
            if launched.ended is not None:
                standing.reports[name] = ended_report(standing.reports[name], launched.ended)
            else:
                if not greeted:
                    standing.greetings[name] = asyncio.Event()
                follow = self._lives.follow(standing, name, launched)
                standing.tasks[name] = self._chore(follow, f"container {name} of pod {standing.uid}")

    def _tell(self, standing: PodRecord) -> None:
        if self._pods.get(standing.uid) is standing:
            self._hear(_report(standing))

    def _chore(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Runs beside everything else; what goes wrong in it is told, and is never fatal to the node."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._chores.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s failed", task.get_name(), exc_info=task.exception())


def _report(standing: PodRecord) -> PodReport:
    return PodReport(
        standing.uid,
        tuple(standing.reports.values()),
        standing.address,
        standing.failure,
        standing.overfull,
    )
