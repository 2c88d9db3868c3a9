"""What a runtime promises to the agent of a node: it runs pods, tells what becomes of them, and hides how.

A pod is a sandbox (its network, its place on the disk) and containers in it. The agent decides what is to run
and when something is tried again; the runtime does it. Orders (`start`, `start_container`, `stop`, `remove`)
return at once, may be given twice, and are answered by reports: the whole state of the pod each time, so that
a report that was missed does no harm. Everything is called in the event loop of the agent's host; a runtime
that must block does so elsewhere and reports back in the loop.

Processes, runc, and containerd through its CRI fit behind this as the simulated runtime does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import msgspec

from proreus.engine.wire.duplex import Connection
from proreus.model.errors import ProreusError

Pod = Mapping[str, Any]
"""A v1 Pod in Kubernetes' JSON shape; read only."""

_MOST_NOTICES = 16
"""Of one attempt: a probe may fail for days."""


class Phase(Enum):
    """Where a container is in its one life."""

    WAITING = "waiting"
    RUNNING = "running"
    EXITED = "terminated"


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Something that people are to be told of a container: an event, as Kubernetes words it."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


class ContainerReport(msgspec.Struct, frozen=True, gc=False):
    """One attempt at running a container."""

    name: str
    phase: Phase
    attempt: int = 0
    """How often it had been started before."""
    id: str = ""
    started: float = 0.0
    """Seconds of the wall clock; 0: not yet. One that has started waits on while its hook runs."""
    finished: float = 0.0
    exit_code: int = 0
    reason: str = ""
    """Why it waits (ContainerCreating, ErrImagePull) or ended (Completed, Error, OOMKilled)."""
    message: str = ""
    ready: bool = False
    """Whether it serves; meant only while it runs."""
    image: str = ""
    """What it is made of, by digest: `docker.io/library/busybox@sha256:...`; "" where that is not known."""
    notices: tuple[Notice, ...] = ()
    """What has happened to this attempt, the last of it, the oldest first."""
    forgotten: int = 0
    """How many notices there were before those."""

    def with_notice(self, notice: Notice) -> ContainerReport:
        """One thing more has happened."""
        kept = (*self.notices, notice)[-_MOST_NOTICES:]
        forgotten = self.forgotten + len(self.notices) + 1 - len(kept)
        return msgspec.structs.replace(self, notices=kept, forgotten=forgotten)


class PodReport(msgspec.Struct, frozen=True, gc=False):
    """Everything that a runtime knows of a pod that it was given."""

    uid: str
    containers: tuple[ContainerReport, ...] = ()
    """The last attempt at each container that was ordered."""
    address: str = ""
    """The sandbox's; "" until it stands."""
    failure: str = ""
    """Why there is no sandbox, where it could not be made."""
    overfull: str = ""
    """Which bound of its own on files the pod has gone beyond: it is to be evicted."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a node has: amounts as Kubernetes writes them ("8", "32Gi"), and what it is."""

    amounts: Mapping[str, str]
    allocatable: Mapping[str, str]
    """What pods may ask for: the amounts less what the machine keeps for itself."""
    info: Mapping[str, str] = field(default_factory=dict)
    """status.nodeInfo: operatingSystem, architecture, containerRuntimeVersion, kernelVersion..."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the node holds."""

    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Use:
    """What a container uses now."""

    uid: str
    container: str
    cpu: int
    """Thousandths of a core, over the last moments."""
    memory: int
    """Bytes of the working set."""
    disk: int = 0
    """Bytes of the files that it has written, its output included, as of the last look."""


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """Bytes a second over a network, over the last moments."""

    received: int = 0
    sent: int = 0


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What a GPU does now; None where it does not say."""

    uuid: str
    model: str
    busy: int | None
    """Per cent of the last moments in which something ran on it."""
    memory: int | None
    """Bytes in use."""
    capacity: int | None
    """Bytes that it has."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod uses that belongs to none of its containers alone."""

    uid: str
    volumes: int = 0
    """Bytes in the volumes that go with it, as of the last look."""
    traffic: NetworkUse | None = None
    """None where it shares the node's network: then the node's is all that is known."""
    gpus: tuple[GpuUse, ...] = ()
    """Those that it has, or runs something on: how busy those are that it has, and the memory it uses."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What is used on a node, by whomever: pods, the system, other programs."""

    cpu: int = 0
    """Thousandths of a core, over the last moments."""
    memory: int = 0
    """Bytes that nobody else could have."""
    disk: int = 0
    """Bytes of the file system that pods are on."""
    read: int = 0
    """Bytes a second from disks."""
    written: int = 0
    traffic: NetworkUse = NetworkUse()
    """With other machines."""
    gpus: tuple[GpuUse, ...] = ()


@dataclass(frozen=True, slots=True)
class LogWanted:
    """Which lines of a container's output."""

    container: str
    follow: bool = False
    previous: bool = False
    """Of the attempt before the last."""
    tail: int | None = None
    """The last so many lines that stand already."""
    since: float | None = None
    """Only what was written from this moment of the wall clock on."""
    timestamps: bool = False
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command in a container came to."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


class OutputStream(Enum):
    """Where something is printed; a terminal prints all on `STDOUT`."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class CommandWanted:
    """A command to be run in a container, and which of its streams somebody has an end of."""

    container: str
    command: tuple[str, ...]
    stdin: bool = False
    tty: bool = False


@dataclass(frozen=True, slots=True)
class AttachWanted:
    """A container whose own first process is to be talked to."""

    container: str
    stdin: bool = False
    tty: bool = False


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """In characters."""

    columns: int
    rows: int


class ContainerSession(Protocol):
    """A command under way, or a container that one is attached to.

    Nothing is read from it before somebody asks, so that output which nobody takes holds the command back
    instead of filling memory; `write` waits in the same way for a command that does not read.
    """

    async def read(self, output: OutputStream) -> bytes:
        """What was printed, as soon as there is something; b"" at the end. One reader for each."""
        ...

    async def write(self, data: bytes) -> None:
        """More of its input; what it does not want any more is dropped."""
        ...

    async def end_input(self) -> None:
        """There is no more input."""
        ...

    async def resize(self, size: TerminalSize) -> None:
        """Its terminal has another size; without a terminal that means nothing."""
        ...

    async def wait(self) -> int:
        """The exit code, once it has ended; raises `RuntimeRefused` where that cannot be known."""
        ...

    async def close(self) -> None:
        """Let go; a command that still runs is ended, a container that was attached to runs on."""
        ...


class RuntimeRefused(ProreusError):
    """There is no such pod or container here, or it cannot be done now."""


class RuntimeAway(RuntimeRefused):
    """What runs the containers does not answer: nothing is known of them meanwhile."""


class PodLogs(Protocol):
    """Who can read what containers wrote; the door asks this."""

    def logs(self, uid: str, wanted: LogWanted) -> AsyncIterator[bytes]:
        """Lines with their ends, the oldest first; raises `RuntimeRefused`."""
        ...


class PodExec(Protocol):
    """Who can run commands in a container, attach to it, and reach its ports; the door asks this."""

    async def begin(self, uid: str, wanted: CommandWanted) -> ContainerSession:
        """The command, begun; raises `RuntimeRefused`."""
        ...

    async def attach(self, uid: str, wanted: AttachWanted) -> ContainerSession:
        """The container's own input and output from now on; raises `RuntimeRefused`."""
        ...

    async def connect(self, uid: str, port: int) -> Connection:
        """A connection to a port that the pod listens on; raises `RuntimeRefused`."""
        ...

    async def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0
    ) -> CommandResult:
        """The command's end and output; raises `RuntimeRefused`."""
        ...


class NodeImages(Protocol):
    """Who holds the images of a node; the door asks this. Archives are uploaded in pieces, then imported."""

    node: str

    async def begin_upload(self) -> str:
        """The name of a new, empty upload; raises `UploadsFull`."""
        ...

    async def add_to_upload(self, upload: str, offset: int, piece: bytes) -> int:
        """Its size with the piece; raises `UploadUnknown`, `UploadMisplaced`, `UploadTooLarge`."""
        ...

    async def drop_upload(self, upload: str) -> None:
        """Forget it; raises `UploadUnknown`."""
        ...

    async def import_upload(self, upload: str, name: str) -> Sequence[Image]:
        """Hold what was uploaded, under `name` or its own; raises `BadArchive`, `UsageError`, `WorkError`."""
        ...

    async def pull_image(self, name: str) -> int:
        """Fetch an image from its registry; how many bytes it has. Raises `WorkError`."""
        ...

    async def remove_image(self, name: str) -> bool:
        """Whether it was there; raises `UsageError` where it is in use."""
        ...


class PodRuntime(PodLogs, PodExec, Protocol):
    def subscribe(self, hear: Callable[[PodReport], None]) -> None:
        """Every report from now on goes there; the one listener is the node's agent."""
        ...

    def adopt(self, pods: Sequence[Pod]) -> Sequence[PodReport]:
        """What this runtime runs already, asked once when an agent begins.

        `pods` are those that the API has on this node, with their status. Sandboxes of other pods are told,
        too, so that the agent can stop them.
        """
        ...

    def start(self, pod: Pod, containers: Sequence[str]) -> None:
        """A sandbox for the pod, and in it an attempt at these containers: the first, or the next after those
        that the pod's status tells of (see `first_attempt`)."""
        ...

    def start_container(self, uid: str, container: str, attempt: int) -> None:
        """One container in a sandbox that stands; an attempt that was begun already is not begun again."""
        ...

    def stop(self, uid: str, grace: float) -> None:
        """End all containers: ask, and after `grace` seconds kill; the report tells when all have ended."""
        ...

    def stop_container(self, uid: str, container: str, grace: float) -> None:
        """End one container that runs, as `stop` does all; the others run on."""
        ...

    def remove(self, uid: str) -> None:
        """Forget the pod: sandbox, containers, output. What still runs is killed."""
        ...

    def capacity(self) -> Capacity:
        """What this node has."""
        ...

    def trouble(self) -> str:
        """Why nothing can be run now; "" where all is well."""
        ...

    def images(self) -> Sequence[Image]:
        """What this node holds."""
        ...

    def stats(self) -> Sequence[Use]:
        """What the running containers use now."""
        ...

    def pod_stats(self) -> Sequence[PodUse]:
        """What pods use beside their containers, those with something to tell."""
        ...

    def node_stats(self) -> NodeUse:
        """What is used on the node as a whole now."""
        ...
