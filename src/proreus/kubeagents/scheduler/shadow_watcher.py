"""`proreus kube scheduler --mode shadow`: follows a cluster, and writes down where its pods would have gone.

It asks the API server for lists and watches alone, and writes nothing to it: a role that may only read does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from proreus.engine.scheduler.core import SchedulingOptions
from proreus.engine.scheduler.decision_loop import steady_from
from proreus.engine.scheduler.instructions import Event
from proreus.engine.scheduler.warm_up import warm_up_scheduling
from proreus.kubeagents.scheduler.followed import reflectors
from proreus.kubeagents.scheduler.recorder import ClusterRecorder
from proreus.kubeagents.scheduler.shadow_core import ShadowCore
from proreus.kubeagents.scheduler.shadow_log import ShadowLog
from proreus.kubeagents.scheduler.status_server import Answer, Answers, readiness
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.reflector import Reflector
from proreus.model.errors import WorkError
from proreus.worlds.pods.policies.wire_format import pod_strangers

_WRITE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class ShadowWatcher:
    """See the module."""

    def __init__(
        self,
        client: KubeClient,
        options: SchedulingOptions,
        folder: Path,
        names: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._steady = client, steady_from(clock)
        self._strangers = pod_strangers() if options.apart else None
        self.core = ShadowCore(options, self._strangers, names)
        self._log = ShadowLog(folder)
        self._recorder = ClusterRecorder(folder, clock)
        self.followed: list[Reflector] = []
        self.counts: Counter[str] = Counter()
        self.trouble = ""
        self.tell: Callable[[str], None] = _log.info
        """Told when it begins to compare: pods that were bound before are not counted."""

    def check_policies(self) -> None:
        """A UsageError or InputError where the policy is not known."""
        self.core.load(self.core.options.default).close()

    async def run(self) -> None:
        """Follow and compare, until cancelled."""
        await asyncio.to_thread(warm_up_scheduling)
        await asyncio.to_thread(self.core.prepare)
        await self._recorder.open()
        self.followed = await reflectors(self._client, self._hear)
        of_kind = {reflector.resource.kind: reflector for reflector in self.followed}
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self.followed:
                    group.create_task(reflector.run())
                    await reflector.synced.wait()
                nodes, pods = of_kind["Node"].objects, of_kind["Pod"].objects
                self._recorder.listed(nodes.values(), pods.values())
                self.core.listening = True
                self.tell(f"listening: {len(nodes):,} nodes, {len(pods):,} pods")
                group.create_task(self._recorder.run())
                group.create_task(self._write())
        finally:
            self.write_now()
            if self._strangers is not None:
                self._strangers.close()

    async def stop(self) -> None:
        """There is nothing to give back."""

    def _hear(self, event: Event) -> None:
        self.core.handle(event, self._steady())
        self._recorder.hear(event)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(_WRITE_SECONDS)
            self.write_now()

    def write_now(self) -> None:
        """What was found since; where it cannot be written it is counted, and the rest goes on."""
        found = self.core.take()
        for one in found:
            self.counts["same" if one.same else "differed"] += 1
            self.counts["forbidden"] += bool(one.forbidden)
            self.counts["fallback"] += bool(one.fallback)
        try:
            self._log.append(found)
            self.trouble = ""
        except WorkError as error:
            self.counts["lost"] += len(found)
            if not self.trouble:
                _log.error("%s", error)
            self.trouble = str(error)

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return bool(self.followed) and all(one.lists for one in self.followed)

    def answers(self) -> Answers:
        """For a status server."""
        return {
            "/livez": lambda: Answer("ok\n"),
            "/healthz": lambda: Answer("\n".join(["ok", *self._troubles()]) + "\n"),
            "/readyz": lambda: readiness(self._troubles(), synced=self.synced),
            "/metrics": lambda: Answer(self._metrics()),
        }

    def _troubles(self) -> list[str]:
        return [
            *(one.trouble for one in self.followed if one.trouble),
            *filter(None, [self.trouble, self._recorder.trouble]),
        ]

    def _metrics(self) -> str:
        name = "proreus_kube_scheduler_shadowed_total"
        lines = [f"# HELP {name} Decisions of others that were compared.", f"# TYPE {name} counter"]
        lines += [f'{name}{{result="{result}"}} {count}' for result, count in sorted(self.counts.items())]
        synced = "proreus_kube_scheduler_synced"
        lines += [f"# TYPE {synced} gauge", f"{synced} {int(self.synced)}"]
        return "\n".join(lines) + "\n"
