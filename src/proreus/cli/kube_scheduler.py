"""`proreus kube scheduler`: places the pods of a Kubernetes cluster that name it, or only says where."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.cluster.engine_process import new_loop
from proreus.cli.kube_arguments import ClusterArguments, client_maker
from proreus.cli.output import new_console, write_json
from proreus.cli.signals import StopEvent, end_at_last, told_to_end
from proreus.httpserver.sockets import listen
from proreus.model.errors import UsageError, WorkError, needs_extra
from proreus.worlds.pods.policies.catalogue import PolicyOptions

if TYPE_CHECKING:
    from proreus.engine.gc_tuning import GcTuning
    from proreus.kubeagents.scheduler.agent import KubeSchedulerOptions
    from proreus.kubeagents.scheduler.shadow_watcher import ShadowWatcher
    from proreus.kubeclient.client import KubeClient

_PORT = 10260
_LAST_SECONDS = 5.0
_CONTEST = "proreus.worlds.pods.training.duel:contest"
"""Who plays candidates against what decides: named, since agents know no simulator."""
_DESCRIPTION = """A scheduler for a Kubernetes cluster that is there already.

Pods choose it by schedulerName. Where the policy is slow, unsure, wrong or fails, the kube rules decide; no
decision goes where they forbid it. --mode shadow binds nothing, and compares with where pods really went.
kubectl -n kube-system create configmap proreus-scheduler --from-literal=stop=true stops it within a second.
More: docs/kube/scheduler.md.

Example: proreus kube scheduler --name proreus --policy learned --shadow kube"""


@dataclass(frozen=True)
class CanaryArguments:
    """Another policy for some of the pods."""

    canary: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = ""
    """Who decides for them; the policy of the rest is its shadow."""
    canary_share: float = 0.0
    """Of all pods, by their uids."""
    canary_namespaces: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAMESPACE")] = ()
    """All pods of these."""

    candidate: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = ""
    """To take the policy's place by and by, if it does better on the cluster's own record: in the shadow,
    then for --candidate-share of the pods, then for all. Needs --record."""
    candidate_share: float = 0.1
    """Of the pods, for which a candidate decides before it decides for all."""
    judge_every: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 300.0
    """Between two judgements of a candidate."""
    judge_pods: Annotated[int, tyro.conf.arg(metavar="PODS")] = 100
    """So many must have come since it was put up."""

    def __post_init__(self) -> None:
        if not 0.0 < self.candidate_share <= 0.5:
            raise UsageError(f"--candidate-share {self.candidate_share} is outside 0..0.5")
        if self.judge_every < 1 or self.judge_pods < 1:
            raise UsageError("--judge-every and --judge-pods are at least 1")
        if self.canary and self.candidate:
            raise UsageError("--canary is chosen by you, --candidate by the record: not both")
        if not 0.0 <= self.canary_share <= 1.0:
            raise UsageError(f"--canary-share {self.canary_share} is outside 0..1")
        if bool(self.canary) != bool(self.canary_share or self.canary_namespaces):
            raise UsageError("--canary comes with --canary-share or --canary-namespaces")


@dataclass(frozen=True)
class LeaseArguments:
    """Which of several replicas acts."""

    lease_namespace: str = "kube-system"
    """Of the Lease and of the ConfigMap that is the kill switch."""
    lease_name: str = "proreus-scheduler"
    """Of both."""
    lease_seconds: float = 15.0
    """After which a Lease that was not renewed is anybody's."""
    renew_seconds: float = 10.0
    """After which a leader that could not renew stops."""
    retry_seconds: float = 2.0
    """Between two attempts."""
    leader_elect: bool = True
    """Whether to stand for election; without it this one always leads."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.renew_seconds < self.lease_seconds:
            raise UsageError("--retry-seconds is below --renew-seconds, and that below --lease-seconds")


@dataclass(frozen=True)
class SchedulerArguments:
    """Flags of `proreus kube scheduler`."""

    name: str = "proreus"
    """The schedulerName whose pods it places."""
    policy: Annotated[str, tyro.conf.arg(metavar="NAME|PATH|FILE.py:NAME")] = "kube"
    """Who decides: a rule, learned, a checkpoint, a policy of your own."""
    mode: Literal["bind", "shadow"] = "bind"
    """bind: place pods. shadow: bind nothing, and write down where all pods would have gone."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SCHEDULER")] = ()
    """Shadow mode: pods of these schedulerNames; without any, all pods."""
    shadow: Annotated[str, tyro.conf.arg(metavar="NAME|PATH")] = ""
    """A policy that is asked beside the one that decides, and compared."""
    deadline_ms: float = 100.0
    """For one decision, before the kube rules decide."""
    record: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where what is decided, and what becomes of pods, is written down: for kube shadow-report, train and
    compare. Shadow mode needs it."""
    kill_switch: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """While this file exists nothing is written to the cluster."""
    host: str = "127.0.0.1"
    """Where /livez, /healthz, /readyz and /metrics are; by default only this machine can reach them."""
    port: int = _PORT
    """Of these. 0: any free one."""
    at_once: int = 32
    """Requests that write, under way at once."""
    some: CanaryArguments = field(default_factory=CanaryArguments)
    lease: LeaseArguments = field(default_factory=LeaseArguments)
    policies: PolicyOptions = field(default_factory=PolicyOptions)
    cluster: ClusterArguments = field(default_factory=lambda: ClusterArguments(qps=1000.0))
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"--port {self.port} is outside 0..65535")
        if not 1.0 <= self.deadline_ms <= 10_000.0:
            raise UsageError(f"--deadline_ms {self.deadline_ms} is outside 1..10000")
        if not 1 <= self.at_once <= 1024:
            raise UsageError(f"--at_once {self.at_once} is outside 1..1024")
        if not self.name:
            raise UsageError("--name is empty")
        if self.mode == "shadow" and self.record is None:
            raise UsageError("--mode shadow needs --record DIR: what it finds is written there")
        if self.mode == "shadow" and (self.shadow or self.some.canary or self.some.candidate):
            raise UsageError("--mode shadow asks --policy alone: no --shadow, --canary or --candidate")
        if self.some.candidate and self.record is None:
            raise UsageError("--candidate needs --record DIR: it is judged by what happened since")


def run(words: Sequence[str]) -> int:
    """Schedule until told to end."""
    arguments = parse(SchedulerArguments, "proreus kube scheduler", words, _DESCRIPTION)
    prepare(arguments.common)
    make_client = client_maker(arguments.cluster, "scheduler")
    try:
        import proreus.kubeagents.scheduler.agent  # noqa: F401 - whether it can be
    except ImportError as error:
        raise UsageError(f"kube scheduler {needs_extra('engine')} ({error})") from error
    from proreus.engine.gc_tuning import GcTuning

    searches = GcTuning()
    with (
        told_to_end() as ending,
        searches.kept_short(),
        asyncio.Runner(loop_factory=new_loop()) as runner,
    ):
        return runner.run(_run(arguments, make_client, ending, searches))


def _options(arguments: SchedulerArguments) -> KubeSchedulerOptions:
    from proreus.engine.controllers.promotion.controller import PromotionOptions
    from proreus.engine.controllers.promotion.core import GateOptions
    from proreus.engine.objects.scheduler_config import Chosen
    from proreus.kubeagents.scheduler.agent import KubeSchedulerOptions
    from proreus.kubeagents.scheduler.own_names import Canary
    from proreus.kubeclient.leases import LeaseDurations

    lease, some = arguments.lease, arguments.some
    canary = None
    if some.canary:
        canary = Canary(some.canary, some.canary_share, frozenset(some.canary_namespaces))
    return KubeSchedulerOptions(
        name=arguments.name,
        chosen=Chosen(
            arguments.policy,
            arguments.shadow,
            arguments.deadline_ms,
            some.candidate,
            some.candidate_share,
        ),
        record=arguments.record,
        promotion=PromotionOptions(_CONTEST, some.judge_every, GateOptions(least_pods=some.judge_pods)),
        canary=canary,
        policies=arguments.policies,
        seed=arguments.common.seed,
        lease=(lease.lease_namespace, lease.lease_name),
        elects=lease.leader_elect,
        durations=LeaseDurations(lease.lease_seconds, lease.renew_seconds, lease.retry_seconds),
        kill_file=arguments.kill_switch,
        at_once=arguments.at_once,
    )


def _watcher(client: KubeClient, arguments: SchedulerArguments) -> ShadowWatcher:
    from proreus.engine.objects.scheduler_config import Chosen
    from proreus.engine.scheduler.core import SchedulingOptions
    from proreus.kubeagents.scheduler.shadow_watcher import ShadowWatcher

    assert arguments.record is not None, "checked with the arguments"
    chosen = Chosen(arguments.policy, deadline_ms=arguments.deadline_ms)
    options = SchedulingOptions(
        chosen,
        policies=arguments.policies,
        seed=arguments.common.seed,
        follows_volumes=True,
        budgets_by_status=True,
    )
    return ShadowWatcher(client, options, arguments.record, frozenset(arguments.only))


def banner(arguments: SchedulerArguments) -> list[str]:
    """What it will do to the cluster, and how to stop it: the first thing that somebody reads."""
    if arguments.mode == "shadow":
        return [f"shadow of {arguments.policy}: binds nothing, writes to {arguments.record}"]
    lease, file = arguments.lease, arguments.kill_switch
    return [
        f"scheduler: policy {arguments.policy}, binds pods whose schedulerName is {arguments.name}",
        f"kill switch: ConfigMap {lease.lease_namespace}/{lease.lease_name}"
        + (f" or file {file}" if file else ""),
    ]


def _end_of(working: asyncio.Task[None], server: str) -> None:
    """Why it ended by itself, in one line where the server is the reason."""
    from proreus.kubeclient.errors import ApiError, explained

    try:
        working.result()
    except ApiError as error:
        raise WorkError(f"the cluster could not be followed: {explained(error, server)}") from error


async def _run(
    arguments: SchedulerArguments,
    make_client: Callable[[], KubeClient],
    ending: StopEvent,
    searches: GcTuning,
) -> int:
    from proreus.kubeagents.scheduler.agent import KubeScheduler
    from proreus.kubeagents.scheduler.metrics import SchedulerStatus
    from proreus.kubeagents.scheduler.status_server import StatusServer

    console = new_console(arguments.common)
    client = make_client()
    scheduler: KubeScheduler | ShadowWatcher
    if arguments.mode == "shadow":
        scheduler = _watcher(client, arguments)
        scheduler.tell = lambda line: console.print(line, soft_wrap=True, highlight=False)
        answers = scheduler.answers()
    else:
        scheduler = KubeScheduler(client, _options(arguments))
        answers = SchedulerStatus(scheduler).answers()
    scheduler.check_policies()
    server = StatusServer(answers)
    sock = listen(arguments.host, arguments.port, "the scheduler's status")
    port = sock.getsockname()[1]
    await server.start(sock)
    told = asyncio.Event()

    def end(number: int) -> None:
        if ending.is_set():
            os._exit(128 + number)
        ending.set()
        told.set()

    loop = asyncio.get_running_loop()
    ending.loaded()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    for line in (*banner(arguments), f"status: http://{arguments.host}:{port}/readyz"):
        console.print(line, soft_wrap=True, highlight=False)
    write_json(arguments.common, {"pid": os.getpid(), "status": {"host": arguments.host, "port": port}})
    searching = asyncio.create_task(searches.run())
    working = asyncio.create_task(scheduler.run())
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if working.done() and not told.is_set():
            _end_of(working, client.server)
    finally:
        end_at_last(_LAST_SECONDS)
        await scheduler.stop()
        for task in (waiting, working, searching):
            task.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await server.stop()
        await client.close()
        logging.shutdown()
    return 0
