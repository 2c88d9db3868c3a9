"""Flags that `proreus up` and `proreus agent` share: which nodes there are, and who decides."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.model.errors import UsageError
from proreus.model.resources import GPU, parse_quantity

MOST_NODES = 5000
_MOST_MILLISECONDS = 10_000.0
SIGN_OF_LIFE_SECONDS = 10.0
"""Nodes renew their leases so often: who is waited for less is lost at once."""
_MOST_SECONDS = 86_400.0
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,230}[-a-z0-9])?")


@dataclass(frozen=True)
class Machine:
    """This machine as the node: what runs its pods, and what these may do."""

    runtime: Literal["auto", "process", "runc", "containerd"] = "auto"
    """auto: that of the pods which run already, else the first of containerd, runc and process that works."""
    socket: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where containerd answers; by default /run/containerd/containerd.sock."""
    allow_host_path: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = ()
    """Folders of this machine that pods may mount, with all that is in them; without it none."""
    allow_privileged: bool = False
    """Let pods ask for privileged containers, further capabilities, hostPID and hostIPC."""

    def __post_init__(self) -> None:
        for path in self.allow_host_path:
            if not path.is_dir():
                raise UsageError(f"--allow-host-path {path}: there is no such folder")


@dataclass(frozen=True)
class SimulatedNodeFlags:
    """Simulated nodes instead of this machine: pods run for a drawn time and use drawn resources."""

    nodes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many."""
    node_cpu: Annotated[str, tyro.conf.arg(metavar="CORES")] = "8"
    """What each has."""
    node_memory: Annotated[str, tyro.conf.arg(metavar="BYTES")] = "32Gi"
    """What each has, as 32Gi."""
    node_gpus: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """What each has (nvidia.com/gpu)."""

    def __post_init__(self) -> None:
        if self.nodes is not None and not 0 <= self.nodes <= MOST_NODES:
            raise UsageError(f"--nodes {self.nodes} is outside 0..{MOST_NODES}")
        if not 0 <= self.node_gpus <= 64:
            raise UsageError(f"--node-gpus {self.node_gpus} is outside 0..64")
        for flag, amount in (("--node-cpu", self.node_cpu), ("--node-memory", self.node_memory)):
            try:
                if parse_quantity(amount, scale=1000) <= 0:
                    raise ValueError(f"{amount!r} is nothing")
            except ValueError as error:
                raise UsageError(f"{flag}: {error}") from None

    def amounts(self) -> dict[str, str]:
        """What a node has, by the names of Kubernetes."""
        amounts = {"cpu": self.node_cpu, "memory": self.node_memory, "pods": "110"}
        return {**amounts, "nvidia.com/gpu": str(self.node_gpus)} if self.node_gpus else amounts


_OWN_FLAGS = {GPU: "--node-gpus"}


@dataclass(frozen=True)
class Offered:
    """What each node has besides CPU, memory and GPUs."""

    node_resources: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=AMOUNT")] = ()
    """Extended resources, as proreus.io/disk-mbps=80 (MB/s) proreus.io/network-mbps=1000 (Mbit/s)
    example.com/licence=3. Disk and network of this machine are measured at the first start unless they are
    named here; 0: it offers none."""

    def __post_init__(self) -> None:
        self.amounts()

    def amounts(self) -> dict[str, int]:
        """By name; raises `UsageError`."""
        amounts: dict[str, int] = {}
        for word in (word for words in self.node_resources for word in words.split(",")):
            name, equals, amount = word.partition("=")
            try:
                if not equals or not _RESOURCE.fullmatch(name):
                    raise ValueError(f"{word!r} is no resource such as proreus.io/disk-mbps=80")
                if name in _OWN_FLAGS:
                    raise ValueError(f"{name} has a flag of its own, {_OWN_FLAGS[name]}")
                if parse_quantity(amount, scale=1000) % 1000:
                    raise ValueError(f"{amount!r} of {name} is no whole number")
                if name in amounts:
                    raise ValueError(f"{name} stands there twice")
                amounts[name] = parse_quantity(amount)
            except ValueError as error:
                raise UsageError(f"--node-resources: {error}") from None
        return amounts

    def some(self) -> dict[str, str]:
        """Those of which there is something, as Kubernetes writes them."""
        return {name: str(amount) for name, amount in self.amounts().items() if amount}


NOTHING_OFFERED = Offered()


def check_together(machine: Machine, nodes: SimulatedNodeFlags) -> None:
    """Flags of simulated nodes and of this machine say different things: nobody can mean both."""
    if nodes.nodes is None:
        if nodes != SimulatedNodeFlags():
            raise UsageError(
                "--node-cpu, --node-memory, --node-gpus: only simulated nodes have them (--nodes N)"
            )
    elif machine != Machine():
        raise UsageError(
            "--nodes simulates; --runtime, --socket, --allow-host-path and --allow-privileged are of this "
            "machine as the node: leave one of them out"
        )


@dataclass(frozen=True)
class Deciding:
    """Who decides about pods that name no scheduler."""

    scheduler: Annotated[str, tyro.conf.arg(metavar="POLICY")] = "kube"
    """A rule, `learned`, the path of a run or checkpoint, or file.py:Class."""
    shadow: Annotated[str, tyro.conf.arg(metavar="POLICY")] = ""
    """Ask this policy beside it, and record where it would have decided otherwise."""
    deadline_ms: Annotated[float, tyro.conf.arg(metavar="MS")] = 100.0
    """How long it may take over one decision before the kube rules decide."""
    models: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """A folder of runs and checkpoints whose names pods may state as schedulerName; that of `up` is `models`
    in the folder of the cluster."""
    policy_folder: Annotated[tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(metavar="DIR")] = ()
    """A folder whose policies (file.py:Class, runs, checkpoints) may be named over the API; without it none
    is loaded by its path. It must be this user's, or root's, and nobody else may write in it. May be given
    more than once."""

    def __post_init__(self) -> None:
        if not 0 < self.deadline_ms <= _MOST_MILLISECONDS:
            raise UsageError(f"--deadline-ms {self.deadline_ms} is outside 0..{_MOST_MILLISECONDS:g}")
        if not self.scheduler:
            raise UsageError("--scheduler names no policy")
        if self.models is not None and not self.models.is_dir():
            raise UsageError(f"--models {self.models}: there is no such folder")
        for path in self.policy_folder:
            if not path.is_dir():
                raise UsageError(f"--policy-folder {path}: there is no such folder")


@dataclass(frozen=True)
class Judging:
    """When a candidate for the place of a policy is judged by what happened since it was put up."""

    judge_every: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 300.0
    """Between two judgements."""
    judge_pods: Annotated[int, tyro.conf.arg(metavar="PODS")] = 100
    """So many must have come since then."""

    def __post_init__(self) -> None:
        if not 1 <= self.judge_every < math.inf:
            raise UsageError(f"--judge-every {self.judge_every:g}: at least a second")
        if self.judge_pods < 1:
            raise UsageError(f"--judge-pods {self.judge_pods}: at least one")


@dataclass(frozen=True)
class Silence:
    """How long nodes that are not heard of are waited for."""

    node_grace: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 40.0
    """A node that is silent for so long counts as lost; nodes give a sign every 10 s."""
    evict_after: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 300.0
    """So long after that its pods go elsewhere, those that state no toleration of their own."""

    def __post_init__(self) -> None:
        if not SIGN_OF_LIFE_SECONDS < self.node_grace <= _MOST_SECONDS:
            raise UsageError(
                f"--node-grace {self.node_grace:g} is outside {SIGN_OF_LIFE_SECONDS:g}..{_MOST_SECONDS:g}"
            )
        if not 0 <= self.evict_after <= _MOST_SECONDS:
            raise UsageError(f"--evict-after {self.evict_after:g} is outside 0..{_MOST_SECONDS:g}")


def check_prefix(flag: str, prefix: str) -> None:
    """Names of nodes are names of hosts."""
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"{flag} {prefix!r}: nodes are named by small letters, digits, - and .")
