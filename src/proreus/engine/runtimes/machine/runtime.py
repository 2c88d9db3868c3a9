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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from proreus.engine.runtimes.containers import container_of, last_report
from proreus.engine.runtimes.machine import logs
from proreus.engine.runtimes.machine.backend import (
    KILLED,
    UNKNOWN_END,
    Backend,
    Ended,
    Found,
    Launched,
    LaunchRefused,
    Plan,
    Written,
)
from proreus.engine.runtimes.machine.capacity import machine_capacity
from proreus.engine.runtimes.machine.environment import environment, expanded_all
from proreus.engine.runtimes.machine.looking import VOLUMES, Looking, Place
from proreus.engine.runtimes.machine.node_use import NodeMeter
from proreus.engine.runtimes.machine.options import MachineOptions
from proreus.engine.runtimes.machine.ports import reach
from proreus.engine.runtimes.machine.probes import Probed, probe
from proreus.engine.runtimes.machine.rates import Rates
from proreus.engine.runtimes.machine.volumes import Volumes, remove_tree
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    Capacity,
    CommandWanted,
    ContainerReport,
    Executed,
    Image,
    LogWanted,
    NodeUse,
    Phase,
    Pod,
    PodReport,
    PodUse,
    RuntimeRefused,
    Session,
    Use,
)
from proreus.engine.streaming.duplex import Connection

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
"""Between attempts to start what could not be started: an image or a ConfigMap may come."""
_KILL_GRACE = 30.0
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass
class _Standing:
    """A pod in this runtime."""

    pod: Pod
    address: str = ""
    failure: str = ""
    reports: dict[str, ContainerReport] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """The backend's words for the last attempts that were launched."""
    earlier: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Attempt and id before the last, for `logs --previous`."""
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    doom: dict[str, str] = field(default_factory=dict)
    """Why a container is being killed: the message of a probe."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    stop_by: float = 0.0
    stand: asyncio.Lock = field(default_factory=asyncio.Lock)


class MachineRuntime:
    """See the module; made by `opened`."""

    def __init__(self, backend: Backend, options: MachineOptions) -> None:
        self._backend, self._options = backend, options
        self._folder = options.root / "pods"
        self._pods: dict[str, _Standing] = {}
        self._hear: Callable[[PodReport], None] = lambda report: None
        self._chores: set[asyncio.Task[None]] = set()
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._rates = Rates(backend.spent)
        self._node = NodeMeter(options.root)
        self._looking = Looking(self._written_to, self._layers)

    @classmethod
    async def opened(cls, backend: Backend, options: MachineOptions) -> MachineRuntime:
        """A runtime that has taken up what an earlier one left running below its root."""
        runtime = cls(backend, options)
        runtime._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in runtime._folder.iterdir():
            with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                pod = msgspec.json.decode((folder / "pod.json").read_bytes())
                runtime._pods[folder.name] = _Standing(pod)
        found = await backend.recover(sorted(runtime._pods))
        for folder in list(runtime._folder.iterdir()):
            if folder.name not in runtime._pods:
                remove_tree(folder)
        for uid, standing in runtime._pods.items():
            runtime._take_up(uid, standing, found.get(uid, ()))
        runtime._chore(runtime._looking.run(), "looking at disks and GPUs")
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
        return [self._report(uid) for uid in sorted(self._pods)]

    def start(self, pod: Pod, containers: Sequence[str]) -> None:
        """A folder and a sandbox for the pod, then its containers."""
        uid = str(pod["metadata"]["uid"])
        if uid in self._pods:
            return
        standing = self._pods[uid] = _Standing(pod)
        for name in containers:
            self._begin(uid, standing, name, 0)

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
        self._begin(uid, standing, container, attempt)

    def stop(self, uid: str, grace: float) -> None:
        """First the containers, then the sidecars that served them, all within the grace."""
        standing = self._pods.get(uid)
        if standing is None:
            return
        by = time.monotonic() + grace
        standing.stop_by = min(by, standing.stop_by) if standing.stopping.is_set() else by
        standing.stopping.set()
        self._chore(self._stop_all(uid, standing), f"stopping pod {uid}")

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
        return machine_capacity(self._options.root, self._options.reserved, runtime)

    @property
    def name(self) -> str:
        """Which runtime it is: "process", "runc" or "containerd"."""
        return self._backend.scheme

    def running(self) -> int:
        """How many containers run now."""
        reports = (report for standing in self._pods.values() for report in standing.reports.values())
        return sum(report.phase is Phase.RUNNING for report in reports)

    def images(self) -> Sequence[Image]:
        """The backend's."""
        return self._backend.images()

    async def import_image(self, path: Path, name: str = "") -> Sequence[Image]:
        """Hold the images of an OCI archive, under `name` or their own; raises `BadArchive`."""
        return await self._backend.import_image(path, name)

    async def remove_image(self, name: str) -> bool:
        """Forget an image; whether it was there. Raises `UsageError` where it is in use."""
        return await self._backend.remove_image(name)

    def stats(self) -> Sequence[Use]:
        """What containers used since this was last asked."""
        return self._rates.of(self._ids(), self._looking.disk)

    def pod_stats(self) -> Sequence[PodUse]:
        """Their volumes; the network is the machine's."""
        sizes = self._looking.disk
        return [PodUse(uid, sizes[uid, VOLUMES]) for uid in sorted(self._pods) if sizes.get((uid, VOLUMES))]

    def node_stats(self) -> NodeUse:
        """The whole machine's."""
        return replace(self._node.read(), gpus=self._looking.gpus)

    def _ids(self) -> dict[Place, str]:
        return {
            (uid, name): standing.ids[name]
            for uid, standing in sorted(self._pods.items())
            for name, report in standing.reports.items()
            if report.phase is Phase.RUNNING and name in standing.ids
        }

    def _written_to(self) -> dict[Place, tuple[Path, ...]]:
        """Where what pods write comes to stand."""
        found: dict[Place, tuple[Path, ...]] = {}
        for uid, standing in self._pods.items():
            folder = self._folder / uid
            found[uid, VOLUMES] = (folder / "volumes",)
            for name in standing.ids:
                found[uid, name] = (folder / "containers" / name, folder / "logs" / name)
        return found

    async def _layers(self) -> dict[Place, int]:
        sizes = await self._backend.layers()
        return {place: sizes[id] for place, id in self._ids().items() if id in sizes}

    def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """The container's log files."""
        standing, report = self._last(uid, wanted.container)
        attempt = report.attempt
        if wanted.previous:
            if wanted.container not in standing.earlier:
                raise RuntimeRefused(f"previous terminated container {wanted.container} not found")
            attempt = standing.earlier[wanted.container][0]
        elif report.phase is Phase.WAITING:
            raise RuntimeRefused(f"container {wanted.container} is waiting to start: {report.reason}")

        ended = self._over(uid, standing, wanted.container, attempt)
        return logs.read(self._backend.log(uid, wanted.container, attempt), wanted, ended)

    async def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0
    ) -> Executed:
        """In the container that runs."""
        return await self._backend.execute(self._running(uid, container), command, stdin, timeout)

    async def begin(self, uid: str, wanted: CommandWanted) -> Session:
        """In the container that runs."""
        return await self._backend.begin(self._running(uid, wanted.container), wanted)

    async def attach(self, uid: str, wanted: AttachWanted) -> Session:
        """The container that runs, this attempt at it."""
        id = self._running(uid, wanted.container)
        standing, report = self._last(uid, wanted.container)
        spec = container_of(standing.pod, wanted.container)
        if wanted.stdin and not spec.get("stdin"):
            raise RuntimeRefused(f"container {wanted.container} takes no input: its spec has no stdin")
        log = self._backend.log(uid, wanted.container, report.attempt)
        over = self._over(uid, standing, wanted.container, report.attempt)
        return await self._backend.attach(id, wanted, Written(log, over, bool(spec.get("stdinOnce"))))

    async def connect(self, uid: str, port: int) -> Connection:
        """The pods' network is the machine's."""
        standing = self._pods.get(uid)
        if standing is None or not any(one.phase is Phase.RUNNING for one in standing.reports.values()):
            raise RuntimeRefused("the pod is not running")
        return await reach(port)

    def _running(self, uid: str, container: str) -> str:
        """The backend's word for the container that runs."""
        standing, report = self._last(uid, container)
        if report.phase is not Phase.RUNNING:
            raise RuntimeRefused(f"container {container} is not running")
        return standing.ids[container]

    def _over(self, uid: str, standing: _Standing, name: str, attempt: int) -> Callable[[], bool]:
        """Whether an attempt has ended."""

        def ended() -> bool:
            now = standing.reports[name]
            return self._pods.get(uid) is not standing or now.attempt != attempt or now.phase is Phase.EXITED

        return ended

    def _begin(self, uid: str, standing: _Standing, name: str, attempt: int) -> None:
        standing.reports[name] = ContainerReport(name, Phase.WAITING, attempt, reason="ContainerCreating")
        task = self._chore(self._live(uid, standing, name), f"container {name} of pod {uid}")
        standing.tasks[name] = task

    async def _live(self, uid: str, standing: _Standing, name: str) -> None:
        """One attempt, from its order to its end."""
        pause = _FIRST_PAUSE
        while not standing.stopping.is_set():
            try:
                launched = await self._launch(uid, standing, name)
                break
            except LaunchRefused as error:
                self._note(uid, standing, name, reason=error.reason, message=str(error))
            except Exception as error:  # noqa: BLE001 - a full disk, a fault of ours: tried again
                _log.warning("container %s of pod %s", name, uid, exc_info=error)
                self._note(uid, standing, name, reason="CreateContainerError", message=str(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(standing.stopping.wait(), pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            self._end(uid, standing, name, Ended(KILLED, UNKNOWN_END, "never started", time.time()))
            return
        await self._follow(uid, standing, name, launched)

    async def _launch(self, uid: str, standing: _Standing, name: str) -> Launched:
        async with standing.stand:
            if not standing.address:
                await self._stand(uid, standing)
        container = container_of(standing.pod, name)
        facts = {"status.podIP": standing.address, "status.hostIP": self._options.address}
        variables = await environment(standing.pod, container, self._options.references, facts)
        volumes = Volumes(
            self._folder / uid / "volumes",
            standing.pod,
            self._options.references,
            facts,
            self._options.host_paths,
        )
        plan = Plan(
            standing.pod,
            container,
            standing.reports[name].attempt,
            expanded_all(container.get("command"), variables),
            expanded_all(container.get("args"), variables),
            variables,
            await volumes.mounts(container, variables),
        )
        return await self._backend.launch(plan)

    async def _stand(self, uid: str, standing: _Standing) -> None:
        leaving = self._leaving.get(uid)
        if leaving is not None:
            await asyncio.wait({leaving})
        folder = self._folder / uid
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / "pod.json.draft"
        draft.write_bytes(msgspec.json.encode(standing.pod))
        draft.replace(folder / "pod.json")
        try:
            standing.address = await self._backend.stand(standing.pod)
            standing.failure = ""
        except LaunchRefused as error:
            standing.failure = str(error)
            raise

    async def _follow(self, uid: str, standing: _Standing, name: str, launched: Launched) -> None:
        """From its start to its end; probed meanwhile."""
        standing.ids[name] = launched.id
        if launched.ended is not None:
            began: dict[str, Any] = {"id": self._public(launched.id), "started": launched.started}
            standing.reports[name] = replace(standing.reports[name], **began)
            self._end(uid, standing, name, launched.ended)
            return
        container = container_of(standing.pod, name)
        probed = any(container.get(one) for one in _PROBES)
        self._note(
            uid,
            standing,
            name,
            phase=Phase.RUNNING,
            id=self._public(launched.id),
            started=launched.started,
            reason="",
            message="",
            ready=not (container.get("readinessProbe") or container.get("startupProbe")),
        )
        probes = self._probe(uid, standing, name) if probed else None
        probing = self._chore(probes, f"probing {name} of {uid}") if probes is not None else None
        try:
            if standing.stopping.is_set():
                await self._backend.stop(launched.id, max(0.0, standing.stop_by - time.monotonic()))
            ended = await self._backend.wait(launched.id)
        finally:
            if probing is not None:
                probing.cancel()
        if name in standing.doom:
            ended = replace(ended, message=standing.doom.pop(name))
        self._end(uid, standing, name, ended)

    async def _probe(self, uid: str, standing: _Standing, name: str) -> None:
        id = standing.ids[name]
        container = container_of(standing.pod, name)

        async def execute(command: list[str], limit: float) -> Executed:
            return await self._backend.execute(id, command, b"", limit)

        async def fail(message: str) -> None:
            standing.doom[name] = message
            grace = standing.pod["spec"].get("terminationGracePeriodSeconds")
            await self._backend.stop(id, _KILL_GRACE if grace is None else float(grace))

        def ready(well: bool) -> None:
            self._note(uid, standing, name, ready=well)

        await probe(Probed(container, standing.address, execute, ready, fail))

    async def _stop_all(self, uid: str, standing: _Standing) -> None:
        spec = standing.pod["spec"]
        helpers = {one["name"] for one in spec.get("initContainers") or ()}
        for names in (set(standing.tasks) - helpers, helpers):
            for name in names:
                report = standing.reports.get(name)
                if report is not None and report.phase is Phase.RUNNING:
                    left = max(0.0, standing.stop_by - time.monotonic())
                    await self._backend.stop(standing.ids[name], left)
            tasks = [standing.tasks[name] for name in names if name in standing.tasks]
            if tasks:
                await asyncio.wait(tasks)
        self._tell(uid, standing)

    async def _leave(self, uid: str, standing: _Standing) -> None:
        await asyncio.gather(*standing.tasks.values(), return_exceptions=True)
        await self._backend.raze(uid)
        await asyncio.to_thread(remove_tree, self._folder / uid)
        self._leaving.pop(uid, None)

    def _take_up(self, uid: str, standing: _Standing, found: Sequence[Found]) -> None:
        """Attempts that an earlier runtime began: those that run are followed on."""
        standing.address = self._options.address
        for one in sorted(found, key=lambda one: (one.name, one.attempt)):
            last = standing.reports.get(one.name)
            if last is not None:
                older = standing.earlier.get(one.name)
                if older is not None:
                    self._chore(self._backend.discard(older[1]), f"discarding {older[1]}")
                standing.earlier[one.name] = (last.attempt, standing.ids[one.name])
            standing.reports[one.name] = ContainerReport(one.name, Phase.WAITING, one.attempt)
            standing.ids[one.name] = one.launched.id
        last_found = {one.name: one.launched for one in sorted(found, key=lambda one: one.attempt)}
        for name, launched in last_found.items():
            probeless = not any(container_of(standing.pod, name).get(one) for one in _PROBES)
            standing.reports[name] = replace(
                standing.reports[name],
                phase=Phase.RUNNING,
                id=self._public(launched.id),
                started=launched.started,
                ready=probeless,
            )
            if launched.ended is not None:
                standing.reports[name] = _ended(standing.reports[name], launched.ended)
            else:
                follow = self._follow(uid, standing, name, launched)
                standing.tasks[name] = self._chore(follow, f"container {name} of pod {uid}")

    def _public(self, id: str) -> str:
        return f"{self._backend.scheme}://{id.removeprefix(str(self._folder) + '/')}"

    def _end(self, uid: str, standing: _Standing, name: str, ended: Ended) -> None:
        standing.reports[name] = _ended(standing.reports[name], ended)
        self._tell(uid, standing)

    def _note(self, uid: str, standing: _Standing, name: str, **changes: Any) -> None:
        before = standing.reports[name]
        standing.reports[name] = replace(before, **changes)
        if standing.reports[name] != before:
            self._tell(uid, standing)

    def _tell(self, uid: str, standing: _Standing) -> None:
        if self._pods.get(uid) is standing:
            self._hear(self._report(uid))

    def _report(self, uid: str) -> PodReport:
        standing = self._pods[uid]
        return PodReport(uid, tuple(standing.reports.values()), standing.address, standing.failure)

    def _last(self, uid: str, container: str) -> tuple[_Standing, ContainerReport]:
        standing = self._pods.get(uid)
        if standing is None:
            raise RuntimeRefused("this node does not run that pod")
        return standing, last_report(standing.pod, standing.reports, container)

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


def _ended(report: ContainerReport, ended: Ended) -> ContainerReport:
    started = report.started or ended.finished
    return replace(
        report,
        phase=Phase.EXITED,
        started=started,
        finished=max(started, ended.finished),  # containerd notes the start of what ends at once too late
        exit_code=ended.code,
        reason=ended.reason,
        message=ended.message,
        ready=False,
    )
