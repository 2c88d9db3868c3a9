"""What differs between real runtimes: how a sandbox and a container are made, watched, and ended.

`MachineRuntime` decides what is to happen and keeps the reports; a backend does it. Everything is async and
is called in the agent's loop; whoever must block does so in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from proreus.engine.runtimes.cgroups import CgroupUsage
from proreus.engine.runtimes.container_events import failed
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    CommandResult,
    CommandWanted,
    ContainerSession,
    Image,
    Notice,
    Pod,
)
from proreus.model.errors import ProreusError

UNKNOWN_END = "ContainerStatusUnknown"
"""The reason of an end that nobody saw."""
KILLED = 137


class LaunchRefused(ProreusError):
    """A container cannot be started as things are; later it may be. `reason` as Kubernetes calls it.

    notices: what people are told of it; where none are given, the message.
    """

    def __init__(self, reason: str, message: str, *notices: Notice) -> None:
        self.reason = reason
        self.notices = notices or (failed(message),)
        super().__init__(message)


class NotAllowed(LaunchRefused):
    """Nor will it be later, unless the node is started with another flag."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the machine that stands in a container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class GpusGiven:
    """What a container is given of the machine's GPUs, on a machine that has some."""

    ids: tuple[str, ...] = ()
    nodes: tuple[Path, ...] = ()
    """The device files that it needs for them."""

    @property
    def visible(self) -> str:
        """As `NVIDIA_VISIBLE_DEVICES` wants it: a container without any is to see none."""
        return ",".join(self.ids) or "void"


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One attempt at a container, with everything looked up that its spec refers to."""

    pod: Pod
    container: Mapping[str, Any]
    attempt: int
    command: tuple[str, ...]
    """Its spec's, not yet joined with the image's."""
    args: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    gpus: GpusGiven | None = None
    """None where the machine has none."""

    @property
    def uid(self) -> str:
        """The pod's."""
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The container's."""
        return str(self.container["name"])


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How a container ended."""

    code: int
    reason: str
    message: str
    finished: float


@dataclass(frozen=True, slots=True)
class Launched:
    """A container that was started; `ended` is set where it could not be, or has ended already."""

    id: str
    started: float
    ended: ContainerExit | None = None
    image: str = ""
    """See `ContainerReport`."""


@dataclass(frozen=True, slots=True)
class RecoveredContainer:
    """An attempt that an earlier agent had begun."""

    name: str
    attempt: int
    launched: Launched


@dataclass(frozen=True, slots=True)
class Written:
    """What a container writes."""

    log: Path
    ended: Callable[[], bool]
    """Whether it writes no more."""
    once: bool = False
    """Whether its input ends with the first client that was attached to it."""


class Backend(Protocol):
    """See the module. Ids are the backend's own words for a container."""

    scheme: str
    """How ids and the runtime's version begin: "process", "runc", "containerd"."""
    version: str
    """Of what runs the containers; known once `recover` is through."""
    no_disk_limits: str
    """Why containers cannot be held to a rate of disk; "": they can."""
    no_network_limits: str
    """The same for the network."""
    needs_images: bool
    """Whether nothing can be run without its image."""
    own_files: bool
    """Whether its containers have files of their own, and see of the machine's what is mounted alone."""

    @property
    def trouble(self) -> str:
        """See `PodRuntime.trouble`."""
        ...

    async def recover(self, uids: Sequence[str]) -> Mapping[str, Sequence[RecoveredContainer]]:
        """What there is of these pods; whatever is here of any other pod ends and goes."""
        ...

    async def unready(self) -> str:
        """Why no pod could run now though this answers; "" where they can."""
        ...

    async def stand(self, pod: Pod) -> str:
        """A sandbox for the pod; its address. Asked again, the same. Raises `LaunchRefused`."""
        ...

    async def launch(self, plan: ContainerPlan) -> Launched:
        """Begin an attempt. Raises `LaunchRefused`."""
        ...

    async def wait(self, id: str) -> ContainerExit:
        """Until the container has ended and nothing of it runs."""
        ...

    async def stop(self, id: str, grace: float) -> None:
        """Ask it to end, kill it after the grace; does not wait for the end. With less grace: sooner."""
        ...

    async def discard(self, id: str) -> None:
        """An attempt that has ended leaves nothing behind, not even its log."""
        ...

    async def raze(self, uid: str) -> None:
        """The sandbox and all containers of the pod are killed and gone."""
        ...

    async def execute(self, id: str, command: Sequence[str], stdin: bytes, timeout: float) -> CommandResult:
        """Run a command in a container; raises `RuntimeRefused`."""
        ...

    async def begin(self, id: str, wanted: CommandWanted) -> ContainerSession:
        """The same, with its streams; raises `RuntimeRefused`."""
        ...

    async def attach(self, id: str, wanted: AttachWanted, written: Written) -> ContainerSession:
        """The input and output of the container itself; raises `RuntimeRefused`."""
        ...

    def log(self, uid: str, container: str, attempt: int) -> Path:
        """Where an attempt's output is; full files before it are called PATH.1, PATH.2 and so on."""
        ...

    def spent(self, id: str) -> CgroupUsage | None:
        """What it has used; None where that is not known."""
        ...

    def processes(self, id: str) -> set[int]:
        """Those of a container that run now. Blocks, and may be called in any thread."""
        ...

    async def layers(self) -> Mapping[str, int]:
        """Bytes that containers have written where no folder of the runtime shows it, by their ids."""
        ...

    async def has_image(self, name: str) -> bool:
        """Whether it is held, under this name or digest. Raises `LaunchRefused`."""
        ...

    async def pull_image(self, name: str) -> int:
        """Fetch it from its registry; how many bytes it has. Raises `LaunchRefused`."""
        ...

    def images(self) -> Sequence[Image]:
        """What is held, as of the last look."""
        ...

    async def import_image(self, path: Path, name: str) -> Sequence[Image]:
        """Hold the images of an archive; raises `BadArchive`."""
        ...

    async def remove_image(self, name: str) -> bool:
        """Forget an image; whether it was there. Raises `UsageError` where it is in use."""
        ...

    async def close(self) -> None:
        """Let go of everything but the containers: they run on."""
        ...
