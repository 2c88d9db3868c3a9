"""A runtime under test: pods for it, what it reported, and what it must not leave behind."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proreus.engine.objects.kinds import Kind
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import ContainerReport, LogWanted, Phase, PodReport, PodRuntime
from proreus.kube.owners import DURATION

IMAGE = "localhost/busybox:1"
NODE = "node-1"
PATIENCE = 60.0
"""Seconds; whatever takes longer on two busy cores is wrong."""


class FixedReferences:
    """ConfigMaps and Secrets that stand in a dictionary."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}

    async def find(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """See `References`."""
        return self.objects.get((kind.kind, name))


@dataclass
class Bench:
    """An open runtime, and the last report of each pod."""

    runtime: PodRuntime
    name: str
    reports: dict[str, PodReport] = field(default_factory=dict)
    history: list[PodReport] = field(default_factory=list)
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, report: PodReport) -> None:
        """A report came."""
        self.reports[report.uid] = report
        self.history.append(report)
        self._heard.set()

    async def until(
        self, uid: str, true: Callable[[dict[str, ContainerReport]], bool], patience: float = PATIENCE
    ) -> dict[str, ContainerReport]:
        """The containers by name, once they are as wanted."""
        end = time.monotonic() + patience
        while True:
            report = self.reports.get(uid)
            containers = (
                {container.name: container for container in report.containers} if report is not None else {}
            )
            if report is not None and true(containers):
                return containers
            self._heard.clear()
            try:
                await asyncio.wait_for(self._heard.wait(), end - time.monotonic())
            except TimeoutError:
                raise AssertionError(f"after {patience:g} s the pod is {report}") from None

    async def running(self, uid: str, name: str = "main") -> ContainerReport:
        """Once it runs."""
        found = await self.until(uid, lambda one: name in one and one[name].phase is Phase.RUNNING)
        return found[name]

    async def ended(self, uid: str, name: str = "main", attempt: int = 0) -> ContainerReport:
        """Once it has ended."""

        def over(container_reports: dict[str, ContainerReport]) -> bool:
            return (
                name in container_reports
                and container_reports[name].phase is Phase.EXITED
                and container_reports[name].attempt == attempt
            )

        return (await self.until(uid, over))[name]

    async def run(self, pod: dict[str, Any], name: str = "main") -> tuple[ContainerReport, str]:
        """Start it, wait for its end; the end and what it wrote."""
        self.runtime.start(pod, [name])
        uid = pod["metadata"]["uid"]
        return await self.ended(uid, name), await self.text(uid, name)

    async def text(self, uid: str, name: str = "main", **wanted: Any) -> str:
        """What a container wrote."""
        lines = [line async for line in self.runtime.logs(uid, LogWanted(name, **wanted))]
        return b"".join(lines).decode()

    async def stop(self, uid: str, grace: float = 0.0) -> None:
        """Stop it and wait until nothing of it runs."""
        self.runtime.stop(uid, grace)
        await self.until(uid, lambda one: all(each.phase is Phase.EXITED for each in one.values()))


Opener = Callable[[], Awaitable[PodRuntime]]


@dataclass
class Place:
    """Where runtimes of one kind are opened, one after the other, on the same folder."""

    name: str
    root: Path
    opener: Opener
    options: MachineOptions | None
    references: FixedReferences
    host: Path
    """A folder of the machine that pods may mount."""

    @property
    def real(self) -> bool:
        """Whether anything is run at all."""
        return self.name != "simulated"

    @property
    def in_cgroups(self) -> bool:
        """Whether limits are the kernel's matter; without root, plain processes have rlimits alone."""
        return self.real and self.name != "process-rlimits" and os.geteuid() == 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Bench]:
        """A runtime on this folder; what runs at the end runs on."""
        runtime = await self.opener()
        bench = Bench(runtime, self.name)
        runtime.subscribe(bench.hear)
        try:
            yield bench
        finally:
            close = getattr(runtime, "close", None)
            if close is not None:
                await close()

    @asynccontextmanager
    async def bench(self) -> AsyncIterator[Bench]:
        """A runtime all of whose pods are removed at the end."""
        async with self.open() as bench:
            try:
                yield bench
            finally:
                for report in bench.runtime.adopt([]):
                    bench.runtime.remove(report.uid)
                leaving = getattr(bench.runtime, "settled", None)
                if leaving is not None:
                    await asyncio.wait_for(leaving(), PATIENCE)


def container(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script],
        **fields,
    }


def pod_of(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of these containers, bound to the node."""
    annotations = spec.pop("annotations", {})
    uid = str(uuid.uuid4())
    return {
        "metadata": {
            "name": f"pod-{uid[:8]}",
            "namespace": "default",
            "uid": uid,
            "labels": {"app": "test"},
            "annotations": {"proreus.io/start-latency": "0.01", **annotations},
        },
        "spec": {"restartPolicy": "Never", "nodeName": NODE, "containers": list(containers), **spec},
        "status": {},
    }


def happened(report: ContainerReport, *, since_start: bool = False) -> list[tuple[str, str, str]]:
    """What people are told of it: all, or what came after its start."""
    told = [(notice.type, notice.reason, notice.message) for notice in report.notices]
    started = [place for place, one in enumerate(told) if one[1] == "Started"]
    return told[started[-1] + 1 :] if since_start and started else told


def lasting(seconds: str) -> dict[str, str]:
    """Annotations by which a pretended container does what the script of a real one does."""
    return {DURATION: seconds}
