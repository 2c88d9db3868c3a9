"""`proreus kube scheduler`: the core of the SchedulingAgent between reflectors and an API server."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from proreus.engine.controllers.promotion.controller import Promoter, PromotionOptions
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.clock import LoopTimers
from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.engine.scheduler.decision_loop import DecisionLoop, Surroundings, steady_from
from proreus.engine.scheduler.instructions import Event, InstructionFailed, ObjectDeleted, ObjectUpdated
from proreus.engine.scheduler.profiles import RULE
from proreus.kubeagents.scheduler.binder import BinderOptions, KubeBinder, Mandate
from proreus.kubeagents.scheduler.event_writer import EventWriter
from proreus.kubeagents.scheduler.followed import config_map, reflectors
from proreus.kubeagents.scheduler.kill_switch import KillSwitch
from proreus.kubeagents.scheduler.leadership import SwitchedLeadership
from proreus.kubeagents.scheduler.own_names import Canary, OwnName
from proreus.kubeagents.scheduler.promotion import ClusterRecords, heard_promotions
from proreus.kubeagents.scheduler.recorder import ClusterRecorder
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.leases import LeaseDurations, LeaseElection
from proreus.kubeclient.reflector import Change, Reflector
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from proreus.worlds.pods.policies.wire_format import pod_strangers

_REPORTER = "proreus-scheduler"
_FAREWELL_SECONDS = 2.0


@dataclass(frozen=True)
class KubeSchedulerOptions:
    """How a scheduler works in somebody else's cluster."""

    name: str = "proreus"
    """The schedulerName whose pods it places."""
    chosen: Chosen = field(default_factory=lambda: Chosen(RULE))
    canary: Canary | None = None
    policies: PolicyOptions = field(default_factory=PolicyOptions)
    seed: int = 0
    lease: tuple[str, str] = ("kube-system", _REPORTER)
    """Namespace and name of the Lease, and of the ConfigMap that is the kill switch."""
    elects: bool = True
    """Whether others may stand by; False: this one always leads."""
    durations: LeaseDurations = field(default_factory=LeaseDurations)
    identity: str = ""
    kill_file: Path | None = None
    at_once: int = 32
    """Requests that write, under way at once."""
    policy_folders: tuple[Path, ...] = ()
    record: Path | None = None
    """Where what becomes of pods and nodes is kept."""
    promotion: PromotionOptions | None = None
    """How a candidate of `chosen` is judged; None: it stays in the shadow."""


class KubeScheduler:
    """One replica; see `run`."""

    def __init__(
        self,
        client: KubeClient,
        options: KubeSchedulerOptions | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options = options or KubeSchedulerOptions()
        self.client, self._clock = client, clock
        opts = self.options
        self.identity = opts.identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self._strangers = pod_strangers()
        others = ("" if opts.canary is None else opts.canary.policy, opts.chosen.candidate)
        trusted = tuple(filter(None, others))
        scheduling = SchedulingOptions(
            opts.chosen,
            policies=opts.policies,
            seed=opts.seed,
            policy_folders=opts.policy_folders,
            trusted=trusted,
            follows_volumes=True,
            budgets_by_status=True,
        )
        self.core = SchedulingCore(scheduling, self._strangers, makes=False)
        self.core.schedulers = OwnName({}, opts.chosen, name=opts.name, canary=opts.canary)
        self.switch = KillSwitch(opts.lease, opts.kill_file)
        election = LeaseElection(client, opts.lease, self.identity, opts.durations) if opts.elects else None
        self.leadership = SwitchedLeadership(election, self.switch)
        self.events = EventWriter(client, opts.name, self.identity, clock)
        self.binder: KubeBinder | None = None
        self.followed: list[Reflector] = []
        self.loop: DecisionLoop[Mandate] | None = None
        self.recorder = None if opts.record is None else ClusterRecorder(opts.record, clock)
        self._promoter: Promoter | None = None
        self._counted: set[str] = set()
        """Pods that were told to the gate of candidates."""

    def check_policies(self) -> None:
        """A UsageError or InputError where a policy is not known, before anything is asked of the cluster."""
        assert isinstance(self.core.schedulers, OwnName)
        for way in self.core.schedulers.ways:
            self.core.load(way).close()

    async def run(self) -> None:
        """Follow, stand for election, and decide while leading, until cancelled."""
        version = await self.client.discovery.version()
        options = BinderOptions(self.options.at_once, version, self.options.name)
        self.binder = KubeBinder(
            self.client, self.events, lambda: self.leadership.mandate, options, self._hear_late
        )
        followed: list[Reflector] = []
        around: Surroundings[Mandate] = Surroundings(
            followed, self.leadership, self.binder, self._clock, steady_from(self._clock)
        )
        loop = DecisionLoop(self.core, around, self._strangers)
        switched = config_map(self.client, self.options.lease)
        switched.subscribe(self.switch.hear)
        if self.recorder is not None:
            await self.recorder.open()
        # The switch first: nothing is written before it has been looked at.
        by_kind = await reflectors(self.client, self._hear)
        followed.extend([switched, *by_kind])
        if self.options.chosen.candidate:
            promoted = config_map(self.client, self._promotions)
            promoted.subscribe(self._heard_promotions)
            followed.insert(0, promoted)
        self.followed, self.loop = followed, loop
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.events.run())
                group.create_task(loop.run())
                if self.recorder is not None:
                    group.create_task(self._record(self.recorder, by_kind))
        finally:
            loop.close()

    @property
    def _promotions(self) -> tuple[str, str]:
        """The ConfigMap in which it stands how far a candidate has come."""
        namespace, name = self.options.lease
        return namespace, f"{name}-promotion"

    def _hear(self, event: Event) -> None:
        assert self.loop is not None, "made before anybody follows"
        self.loop.hear(event)
        if self.recorder is not None:
            self.recorder.hear(event)
        if self._promoter is not None and isinstance(event, ObjectUpdated) and event.kind == "Pod":
            uid = event.object["metadata"].get("uid", "")
            if uid not in self._counted:
                self._counted.add(uid)
                self._promoter.pod_came(event.object)
        elif isinstance(event, ObjectDeleted) and event.kind == "Pod":
            self._counted.discard(event.object["metadata"].get("uid", ""))

    def _may_write(self) -> bool:
        return self.leadership.mandate is not None

    def _heard_promotions(self, change: Change) -> None:
        self.core.schedulers = replace(self.core.schedulers, promotions=heard_promotions(change))

    async def _record(self, recorder: ClusterRecorder, by_kind: list[Reflector]) -> None:
        of_kind = {reflector.resource.kind: reflector for reflector in by_kind}
        for reflector in by_kind:
            await reflector.synced.wait()
        recorder.listed(of_kind["Node"].objects.values(), of_kind["Pod"].objects.values())
        async with asyncio.TaskGroup() as group:
            group.create_task(recorder.run())
            if self.options.promotion is not None and self.options.chosen.candidate:
                chosen = (self.options.name, self.options.chosen)
                records = ClusterRecords(
                    self.client,
                    self._promotions,
                    chosen,
                    recorder,
                    lambda: self.leadership.mandate is not None,
                )
                options = replace(self.options.promotion, folders=self.core.options.folders)
                self._promoter = Promoter(records, LoopTimers(self._clock), options)
                group.create_task(self._promoter.run())

    async def stop(self) -> None:
        """Let another lead at once, and tell what is left to tell; call it before `run` is cancelled."""
        await self.leadership.resign()
        await self.events.drain(_FAREWELL_SECONDS)

    def _hear_late(self, failure: InstructionFailed) -> None:
        if self.loop is not None:
            self.loop.hear(failure)

    def troubles(self) -> list[str]:
        """What is wrong just now."""
        election = self.leadership.election
        lease = [f"lease: {election.trouble}"] if election is not None and election.trouble else []
        kept = [self.recorder.trouble] if self.recorder is not None and self.recorder.trouble else []
        return [*(one.trouble for one in self.followed if one.trouble), *lease, *kept]

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return bool(self.followed) and all(one.lists for one in self.followed)
