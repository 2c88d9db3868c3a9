"""The life of one attempt at a container, from its order to its end: launched, greeted, probed, ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from proreus.engine.kubelet.bandwidth import not_held
from proreus.engine.kubelet.handlers import Reached
from proreus.engine.kubelet.hooks import HookFailed, hook_of, run_hook
from proreus.engine.kubelet.pod_record import PodRecord, ended_report
from proreus.engine.kubelet.probes import PROBES, Probed, probe
from proreus.engine.kubelet.termination import Termination
from proreus.engine.kubelet.termination_message import Terminations
from proreus.engine.runtimes import container_events
from proreus.engine.runtimes.backend import (
    KILLED,
    UNKNOWN_END,
    Backend,
    ContainerExit,
    Launched,
    LaunchRefused,
    NotAllowed,
)
from proreus.engine.runtimes.config_refs import UNRESOLVED
from proreus.engine.runtimes.pod_reports import container_of
from proreus.engine.runtimes.protocol import CommandResult, ContainerReport, Notice, Phase
from proreus.engine.runtimes.shim.shim import CANNOT_START
from proreus.engine.runtimes.start_backoff import Pauses, StartBackoff
from proreus.model.resources import DISK, NETWORK

_log = logging.getLogger(__name__)
_KILL_GRACE = 30.0
_GREETED = "greeted"
"""The folder of a pod in which notes stand of the attempts whose `postStart` hook is through."""


class ContainerLifecycle:
    """See the module.

    folder: has a folder for each pod; tell: reports how a pod is now; launch: an attempt that is due, with
    where what happens meanwhile is told.
    """

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        launch: Callable[[PodRecord, str, Callable[[Notice], None]], Awaitable[Launched]],
        tell: Callable[[PodRecord], None],
        pauses: Pauses,
    ) -> None:
        self._backend, self._folder, self._launch, self._tell = backend, folder, launch, tell
        self._pauses, self._terminations = pauses, Terminations(folder, backend)
        self._arrival = asyncio.Event()

    def ordered(self, standing: PodRecord, name: str) -> Coroutine[Any, Any, None]:
        """One attempt that was ordered now; it waits for hooks of containers that are listed before it."""
        before: list[asyncio.Event] = []
        for container in standing.pod["spec"]["containers"]:
            if container["name"] == name:
                break
            if container["name"] in standing.greetings:
                before.append(standing.greetings[container["name"]])
        else:  # an init container: who comes after whom is the agent's matter
            before = []
        if hook_of(container_of(standing.pod, name), "postStart") is not None:
            standing.greetings[name] = asyncio.Event()
        return self._after(before, standing, name)

    async def _after(self, before: list[asyncio.Event], standing: PodRecord, name: str) -> None:
        try:
            for greeting in before:
                await greeting.wait()
            await self._live(standing, name)
        finally:
            self._greeting_is_over(standing, name)

    def _greeting_is_over(self, standing: PodRecord, name: str) -> None:
        greeting = standing.greetings.pop(name, None)
        if greeting is not None:
            greeting.set()

    async def _live(self, standing: PodRecord, name: str) -> None:
        """Tried until it can be launched, then followed."""
        waiting = StartBackoff(self._pauses, standing.stopping)
        while not standing.stopping.is_set():
            arrival = self._arrival
            try:
                launched = await self._launch(standing, name, partial(self._tell_of, standing, name))
                break
            except LaunchRefused as error:
                refused = error
            except Exception as error:  # noqa: BLE001 - a full disk, a fault of ours: tried again
                _log.warning("container %s of pod %s", name, standing.uid, exc_info=error)
                refused = LaunchRefused("CreateContainerError", str(error))
            self._waits(standing, name, refused)
            if isinstance(refused, NotAllowed) and standing.pod["spec"].get("restartPolicy") == "Never":
                # Nobody brings such a pod back, and somebody may wait for its end: `kubectl debug` does.
                never_began = ContainerExit(CANNOT_START, UNRESOLVED, str(refused), time.time())
                self._end(standing, name, never_began)
                return
            self._greeting_is_over(standing, name)  # the others do not wait for what may never come
            image = str(container_of(standing.pod, name).get("image") or "")
            async for later in waiting.after(refused, image, arrival):
                self._waits(standing, name, later)
        else:
            self._end(standing, name, ContainerExit(KILLED, UNKNOWN_END, "never started", time.time()))
            return
        standing.reports[name] = structs.replace(
            standing.reports[name], reason="ContainerCreating", message=""
        )
        self._tell_of(standing, name, container_events.created(name))
        unheld = {DISK: self._backend.no_disk_limits, NETWORK: self._backend.no_network_limits}
        for notice in not_held(container_of(standing.pod, name), unheld):
            self._tell_of(standing, name, notice)
        ended = launched.ended
        never = ended is not None and ended.reason == "StartError"
        notice = container_events.failed(ended.message) if ended and never else container_events.started(name)
        self._tell_of(standing, name, notice)
        await self.follow(standing, name, launched)

    def image_arrived(self) -> None:
        """Whoever waits for an image looks again."""
        self._arrival.set()
        self._arrival = asyncio.Event()

    def _waits(self, standing: PodRecord, name: str, refused: LaunchRefused) -> None:
        """It cannot be started as things are, and is tried again."""
        for notice in refused.notices:
            self._tell_of(standing, name, notice)
        self._note(standing, name, reason=refused.reason, message=str(refused))

    async def follow(self, standing: PodRecord, name: str, launched: Launched) -> None:
        """From its start to its end; its hook is run first, then it is probed."""
        standing.ids[name] = launched.id
        began: dict[str, Any] = {
            "id": self.public(launched.id),
            "started": launched.started,
            "image": launched.image,
        }
        if launched.ended is not None:
            standing.reports[name] = structs.replace(standing.reports[name], **began)
            self._end(standing, name, await self._told(standing, name, launched.ended))
            return
        ending = standing.endings[name] = self._ending(standing, name)
        over = asyncio.ensure_future(self._backend.wait(launched.id))
        beside: asyncio.Future[None] | None = None
        try:
            if not self.greeted(standing, name) and not standing.stopping.is_set():
                self._note(standing, name, **began)
                greeted = await self._greet(standing, name, over)
            else:
                greeted = True
            self._greeting_is_over(standing, name)
            if greeted:
                self._runs(standing, name, began)
                beside = asyncio.ensure_future(self._probe(standing, name))
            if standing.stopping.is_set():
                ending.order(standing.stop_by)
                ending.take_turn()
            ended = await over
        finally:
            ending.close()
            standing.endings.pop(name, None)
            for task in (over, beside):
                if task is not None:
                    task.cancel()
        if name in standing.doom:
            ended = replace(ended, message=standing.doom.pop(name))
        self._end(standing, name, await self._told(standing, name, ended))

    def greeted(self, standing: PodRecord, name: str) -> bool:
        """Whether its `postStart` hook is through, or there is none: only then it counts as running."""
        container = container_of(standing.pod, name)
        return hook_of(container, "postStart") is None or self._greeting(standing, name).exists()

    def public(self, id: str) -> str:
        """A container's id as others are told it."""
        return f"{self._backend.scheme}://{id.removeprefix(str(self._folder) + '/')}"

    def _runs(self, standing: PodRecord, name: str, began: Mapping[str, Any]) -> None:
        container = container_of(standing.pod, name)
        ready = not (container.get("readinessProbe") or container.get("startupProbe"))
        self._note(standing, name, **began, phase=Phase.RUNNING, reason="", message="", ready=ready)

    def _greeting(self, standing: PodRecord, name: str) -> Path:
        return self._folder / standing.uid / _GREETED / f"{name}-{standing.reports[name].attempt}"

    async def _greet(self, standing: PodRecord, name: str, over: asyncio.Future[ContainerExit]) -> bool:
        """Its `postStart` hook; whether it counts as running now. One that fails has the container killed."""
        handler = hook_of(container_of(standing.pod, name), "postStart")
        assert handler is not None
        hook = asyncio.ensure_future(run_hook(handler, self._reached(standing, name)))
        stopping = asyncio.ensure_future(standing.stopping.wait())
        news: set[asyncio.Future[Any]] = {hook, over, stopping}
        try:
            await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hook.cancel()
            stopping.cancel()
        await asyncio.wait({hook})
        if hook.cancelled():  # it has ended, or is to end: nobody waits for the hook any more
            return not over.done()
        try:
            hook.result()
        except HookFailed as failed:
            self._tell_of(standing, name, Notice("Warning", "FailedPostStartHook", "PostStartHook failed"))
            self._note(standing, name, reason="PostStartHookError", message=str(failed))
            self._kill(standing, name, f"PostStartHook failed: {failed}", "FailedPostStartHook")
            return False
        note = self._greeting(standing, name)
        note.parent.mkdir(exist_ok=True, mode=0o700)
        note.touch()
        return True

    async def _probe(self, standing: PodRecord, name: str) -> None:
        container = container_of(standing.pod, name)
        if not any(container.get(one) for one in PROBES):
            return

        async def fail(message: str, spec: Mapping[str, Any]) -> None:
            if standing.stopping.is_set():
                return  # it ends anyway, and in its own time
            kind = message.partition(" ")[0].lower()
            text = f"Container {name} failed {kind} probe, will be restarted"
            self._kill(standing, name, message, text, spec.get("terminationGracePeriodSeconds"))

        def ready(well: bool) -> None:
            self._note(standing, name, ready=well)

        def unwell(message: str) -> None:
            self._tell_of(standing, name, Notice("Warning", "Unhealthy", message))

        await probe(Probed(self._reached(standing, name), ready, unwell, fail))

    def _reached(self, standing: PodRecord, name: str) -> Reached:
        id = standing.ids[name]

        async def execute(command: list[str], limit: float) -> CommandResult:
            return await self._backend.execute(id, command, b"", limit)

        return Reached(container_of(standing.pod, name), standing.address, execute)

    def _ending(self, standing: PodRecord, name: str) -> Termination:
        id, handler = standing.ids[name], hook_of(container_of(standing.pod, name), "preStop")
        reached = self._reached(standing, name)

        async def stop(grace: float) -> None:
            await self._backend.stop(id, grace)

        async def farewell() -> None:
            assert handler is not None
            try:
                await run_hook(handler, reached)
            except HookFailed as failed:
                _log.info("preStop of container %s of pod %s: %s", name, standing.uid, failed)
                self._tell_of(standing, name, Notice("Warning", "FailedPreStopHook", "PreStopHook failed"))

        return Termination(stop, None if handler is None else farewell)

    def _kill(
        self, standing: PodRecord, name: str, message: str, text: str, grace: float | None = None
    ) -> None:
        """End an attempt that is not to go on as it is; the agent sees to the next one."""
        standing.doom[name] = message
        self._tell_of(standing, name, Notice("Normal", "Killing", text))
        if grace is None:
            grace = standing.pod["spec"].get("terminationGracePeriodSeconds")
        ending = standing.endings[name]
        ending.order(time.monotonic() + (_KILL_GRACE if grace is None else float(grace)))
        ending.take_turn()

    def stop_container(self, standing: PodRecord, name: str, grace: float) -> None:
        """End an attempt that runs; the others of its pod run on."""
        self._tell_of(standing, name, Notice("Normal", "Killing", f"Stopping container {name}"))
        standing.endings[name].order(time.monotonic() + grace)
        standing.endings[name].take_turn()

    def _tell_of(self, standing: PodRecord, name: str, notice: Notice) -> None:
        standing.reports[name] = standing.reports[name].with_notice(notice)
        self._tell(standing)

    async def _told(self, standing: PodRecord, name: str, ended: ContainerExit) -> ContainerExit:
        return await self._terminations.told(standing.pod, name, standing.reports[name].attempt, ended)

    def _end(self, standing: PodRecord, name: str, ended: ContainerExit) -> None:
        standing.reports[name] = ended_report(standing.reports[name], ended)
        self._tell(standing)

    def _note(self, standing: PodRecord, name: str, **changes: Any) -> None:
        before: ContainerReport = standing.reports[name]
        standing.reports[name] = structs.replace(before, **changes)
        if standing.reports[name] != before:
            self._tell(standing)
