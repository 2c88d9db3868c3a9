"""The scaler in a cluster: reflectors, a Lease, a kill switch, and a controller."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from proreus.kubeagents.scaler.scale_controller import SCALED, ScaleController, Wanted
from proreus.kubeagents.scheduler.kill_switch import KillSwitch
from proreus.kubeclient.client import KubeClient, Selected
from proreus.kubeclient.leases import LeaseElection
from proreus.kubeclient.reflector import Reflector
from proreus.kubeclient.resources import CONFIG_MAPS
from proreus.serving.scaler.service import ScalerService


@dataclass(frozen=True)
class ScalerAgentOptions:
    """Where it works, and how."""

    identity: str
    """By which it is known in the Lease."""
    namespace: str = ""
    """Only objects of this one; "": of all."""
    lease: tuple[str, str] | None = ("kube-system", "proreus-scaler")
    """Namespace and name; None: this process is the only one."""
    switch: tuple[str, str] = ("kube-system", "proreus-scaler")
    """A ConfigMap whose key `stop` says true: nothing is written."""
    stop_file: Path | None = None
    dry_run: bool = False
    """Say what would be written, and write nothing."""
    interval: float = 5.0
    """Seconds between looks."""


class ScalerAgent:
    """Scales until told to end."""

    def __init__(self, client: KubeClient, wanted: Wanted, options: ScalerAgentOptions) -> None:
        self._client, self._options = client, options
        self._switch = KillSwitch(options.switch, options.stop_file)
        self._election = (
            None if options.lease is None else LeaseElection(client, options.lease, options.identity)
        )
        self.controller = ScaleController(client, wanted, self.forbidden)
        self._reflectors: list[Reflector] = []

    def forbidden(self) -> str:
        """Why nothing may be written just now; "": it may."""
        if self._options.dry_run:
            return "dry run"
        self._switch.look()
        if self._switch.on:
            return self._switch.told
        if self._election is not None and self._election.term is None:
            return f"{self._election.holder or 'nobody'} leads"
        return ""

    @property
    def synced(self) -> bool:
        """Whether everything was listed once."""
        return bool(self._reflectors) and all(one.synced.is_set() for one in self._reflectors)

    @property
    def trouble(self) -> str:
        """What cannot be followed just now; "": all is."""
        return next((one.trouble for one in self._reflectors if one.trouble), "")

    async def run(self, ended: threading.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Until `ended` is set."""
        async with asyncio.TaskGroup() as tasks:
            selected = Selected(self._options.namespace)
            for resource in SCALED:
                reflector = Reflector(self._client, resource, selected)
                reflector.subscribe(self.controller.hear)
                self._reflectors.append(reflector)
            namespace, name = self._options.switch
            switch = Reflector(self._client, CONFIG_MAPS, Selected(namespace, fields=f"metadata.name={name}"))
            switch.subscribe(self._switch.hear)
            self._reflectors.append(switch)
            running = [tasks.create_task(one.run()) for one in self._reflectors]
            if self._election is not None:
                running.append(tasks.create_task(self._election.run()))
            try:
                await self._look(ended, ready)
            finally:
                if self._election is not None:
                    await self._election.resign()
                for task in running:
                    task.cancel()

    async def _look(self, ended: threading.Event, ready: Callable[[], None]) -> None:
        for reflector in self._reflectors:
            while not reflector.synced.is_set() and not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await reflector.synced.wait()
        ready()
        loop = asyncio.get_running_loop()
        while not ended.is_set():
            began = loop.time()
            await self.controller.step()
            while not ended.is_set() and loop.time() - began < self._options.interval:
                await asyncio.sleep(min(0.2, self._options.interval))


async def scale(
    make_client: Callable[[], KubeClient],
    service: ScalerService,
    options: ScalerAgentOptions,
    ended: threading.Event,
    ready: Callable[[], None],
) -> None:
    """With a service that knows how many replicas are wanted, until `ended` is set."""

    def wanted(namespace: str, name: str, metadata: Mapping[str, str]) -> int:
        return service.objects.replicas(namespace, name, metadata)[1]

    client = make_client()
    try:
        agent = ScalerAgent(client, wanted, options)
        service.measurements.table(
            "proreus_kube_scaler_replicas",
            "Replicas of objects that ask to be scaled: there, and wanted.",
            ("object", "which"),
            agent.controller.figures,
        )
        await agent.run(ended, ready)
    finally:
        await client.close()
