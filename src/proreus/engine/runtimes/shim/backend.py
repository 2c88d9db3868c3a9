"""What backends share whose containers have keepers: folders, cgroups, and the way from start to end."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.backend import (
    ContainerExit,
    ContainerPlan,
    Launched,
    LaunchRefused,
    NotAllowed,
    RecoveredContainer,
    Written,
)
from proreus.engine.runtimes.block_devices import disks_of
from proreus.engine.runtimes.cgroups import CgroupLimits, Cgroups, CgroupUsage, Unwritable
from proreus.engine.runtimes.commands import collected
from proreus.engine.runtimes.folder_removal import remove_tree
from proreus.engine.runtimes.images.checked_stream import BadArchive
from proreus.engine.runtimes.images.reference import digested
from proreus.engine.runtimes.images.store import ImageStore, Unpacked
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import (
    AttachWanted,
    CommandResult,
    CommandWanted,
    ContainerSession,
    Image,
    Pod,
)
from proreus.engine.runtimes.shim import client
from proreus.engine.runtimes.shim.attach import attach_kept
from proreus.engine.runtimes.shim.shim import members
from proreus.model.files import make_private_folder
from proreus.model.resources import BYTES_PER_MB, BYTES_PER_MBIT, CPU, DISK, MEMORY, NETWORK

LOG = "log"
_IMAGE = "image"
"""In an attempt's folder: the digest of what it was started from."""
DEFAULT_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "MKNOD": 27,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
"""What containers keep of root's powers unless they drop it: the usual set of container engines."""


class ShimBackend(ABC):
    """Half of a `Backend`: a subclass says what a keeper is to run, and how a command gets in."""

    scheme = ""
    version = ""

    trouble = ""
    """Nobody has to be asked."""
    needs_images = own_files = True

    def __init__(self, options: MachineOptions, images: ImageStore) -> None:
        self.options, self.images_held = options, images
        self._folder = options.root / "pods"
        self.cgroups: Cgroups | None = None
        self.no_cgroups = "they were not wanted"
        if options.cgroups:
            try:
                self.cgroups = Cgroups(options.own_name, disks=disks_of((options.root, *options.host_paths)))
            except Unwritable as error:
                self.no_cgroups = str(error)
        cgroups = self.cgroups
        self.no_disk_limits = self.no_cgroups if cgroups is None else cgroups.no_disk_limits
        self.no_network_limits = self.no_cgroups if cgroups is None else cgroups.no_network_limits

    @abstractmethod
    def specification(self, plan: ContainerPlan, folder: Path, unpacked: Unpacked | None) -> dict[str, Any]:
        """What the keeper is to run, but for the log and cgroups; raises `LaunchRefused`."""

    async def recover(self, uids: Sequence[str]) -> Mapping[str, Sequence[RecoveredContainer]]:
        """Attempts by their folders; those without an order in them never came to be."""
        found: dict[str, list[RecoveredContainer]] = {}
        standing: set[str] = set()
        for folder in sorted(self._folder.glob("*/containers/*/*")):
            uid, name, attempt = folder.parts[-4], folder.parts[-2], folder.parts[-1]
            launched = client.find(folder) if uid in uids else None
            if launched is None or not attempt.isdigit():
                await self.discard(str(folder))
                continue
            standing.add(_label(folder))
            launched = replace(launched, image=_noted_image(folder))
            found.setdefault(uid, []).append(RecoveredContainer(name, int(attempt), launched))
        if self.cgroups is not None:
            await asyncio.to_thread(self.cgroups.sweep, standing)
        return found

    async def unready(self) -> str:
        """It would not have opened."""
        return ""

    async def stand(self, pod: Pod) -> str:
        """The machine's network is the pods'."""
        return self.options.address

    async def launch(self, plan: ContainerPlan) -> Launched:
        """A folder, cgroups with the limits, and a keeper."""
        refuse_privileges(plan, allowed=self.options.allow_privileged)
        image = str(plan.container.get("image") or "")
        unpacked = await asyncio.to_thread(self.images_held.use, image)
        folder = self._place(plan.uid, plan.name, plan.attempt)
        if folder.exists():
            await self.discard(str(folder))
        make_private_folder(folder, 0o711)
        try:
            spec = self.specification(plan, folder, unpacked)
            spec["log"] = {
                "path": str(folder / LOG),
                "bytes": self.options.log_bytes,
                "files": self.options.log_files,
            }
            spec["stdin"] = bool(plan.container.get("stdin"))
            if self.cgroups is not None:
                label = _label(folder)
                spec["cgroups"] = self.cgroups.make(label, limits_of(plan, self.options.processes))
                spec["memory_cgroup"] = self.cgroups.memory_folder(label)
            if unpacked is not None:
                (folder / _IMAGE).write_text(digested(image, unpacked.digest))
            return replace(await client.launch(folder, spec), image=_noted_image(folder))
        except LaunchRefused:
            await self.discard(str(folder))
            raise

    @abstractmethod
    async def begin(self, id: str, wanted: CommandWanted) -> ContainerSession:
        """See `Backend`."""

    async def execute(self, id: str, command: Sequence[str], stdin: bytes, timeout: float) -> CommandResult:
        """As `begin`, to its end."""
        session = await self.begin(id, CommandWanted("", tuple(command), stdin=bool(stdin)))
        return await collected(session, stdin, timeout)

    async def attach(self, id: str, wanted: AttachWanted, written: Written) -> ContainerSession:
        """Its log as it grows, and the pipe to its input."""
        return attach_kept(Path(id), wanted, written)

    async def wait(self, id: str) -> ContainerExit:
        """Until the keeper is gone, and with it everything."""
        ended = await client.wait(Path(id))
        if client.ending(Path(id)) is None:
            await asyncio.to_thread(self._clear_away, Path(id))
        return ended

    async def stop(self, id: str, grace: float) -> None:
        """The keeper does it."""
        await client.stop(Path(id), grace)

    async def discard(self, id: str) -> None:
        """Whatever is left of it."""
        await asyncio.to_thread(self._clear_away, Path(id))
        await asyncio.to_thread(remove_tree, Path(id))

    async def raze(self, uid: str) -> None:
        """Every attempt at every container."""
        for folder in sorted((self._folder / uid).glob("containers/*/*")):
            await self.discard(str(folder))

    def log(self, uid: str, container: str, attempt: int) -> Path:
        """In the attempt's folder."""
        return self._place(uid, container, attempt) / LOG

    def spent(self, id: str) -> CgroupUsage | None:
        """As its cgroup counts."""
        return None if self.cgroups is None else self.cgroups.spent(_label(Path(id)))

    def processes(self, id: str) -> set[int]:
        """As its cgroup has them, or by the mark in their environment."""
        if self.cgroups is None:
            return client.marked(id)
        return members(self.cgroups.folders(_label(Path(id))))

    async def layers(self) -> Mapping[str, int]:
        """None: everything stands in the attempt's folder."""
        return {}

    async def has_image(self, name: str) -> bool:
        """Whether it was imported."""
        return await asyncio.to_thread(self.images_held.find, name) is not None

    async def pull_image(self, name: str) -> int:
        """Images are imported, and come no other way."""
        message = (
            f"image {name!r} is not on this node, which pulls none: `proreus images import ARCHIVE` brings it"
        )
        raise LaunchRefused("ErrImagePull", message)

    def images(self) -> Sequence[Image]:
        """Those that were imported."""
        return self.images_held.held()

    async def import_image(self, path: Path, name: str) -> Sequence[Image]:
        """Unpacked and held; what is then too much goes, the longest unused first."""
        thread = await asyncio.to_thread(self.images_held.import_archive, path, name)
        await asyncio.to_thread(self.images_held.collect, self.images_in_use)
        return thread

    async def remove_image(self, name: str) -> bool:
        """Unless a container stands that was started from it."""
        return await asyncio.to_thread(self.images_held.remove, name, self.images_in_use)

    def images_in_use(self) -> set[str]:
        """The digests of those that containers were started from and still stand."""
        notes = self._folder.glob(f"*/containers/*/*/{_IMAGE}")
        return {note.read_text().rpartition("@")[2] for note in notes}

    async def close(self) -> None:
        """The parent cgroup goes if nothing stands in it."""
        if self.cgroups is not None:
            self.cgroups.close()

    def _place(self, uid: str, name: str, attempt: int) -> Path:
        return self._folder / uid / "containers" / name / str(attempt)

    def _clear_away(self, folder: Path) -> None:
        label = _label(folder)
        client.clear_away(folder, [] if self.cgroups is None else self.cgroups.folders(label))


def _noted_image(folder: Path) -> str:
    """What the attempt in this folder is made of; "" where nothing was noted."""
    note = folder / _IMAGE
    return note.read_text() if note.exists() else ""


def _label(folder: Path) -> str:
    """An attempt's name among cgroups."""
    return f"{folder.parts[-4]}_{folder.parts[-2]}_{folder.parts[-1]}"


def limits_of(plan: ContainerPlan, processes: int) -> CgroupLimits:
    """What the container's spec allows it."""
    resources = plan.container.get("resources") or {}
    limits, requests = read_amounts(resources.get("limits")), read_amounts(resources.get("requests"))
    wanted = requests.get(CPU, limits.get(CPU, 0))
    # Of an extended resource nobody has more than it asks for.
    disk, network = (limits.get(name, requests.get(name)) or 0 for name in (DISK, NETWORK))
    rates = disk * BYTES_PER_MB or None, network * BYTES_PER_MBIT or None
    return CgroupLimits(limits.get(CPU), limits.get(MEMORY), wanted, processes, *rates)


def refuse_privileges(plan: ContainerPlan, *, allowed: bool) -> None:
    """A pod that wants more than a container usually may is not started unless that was allowed."""
    context = plan.container.get("securityContext") or {}
    added = set((context.get("capabilities") or {}).get("add") or ()) - set(DEFAULT_CAPABILITIES)
    spec = plan.pod["spec"]
    wants = [
        *(["privileged"] if context.get("privileged") else []),
        *(f"capability {name}" for name in sorted(added)),
        *(name for name in ("hostPID", "hostIPC") if spec.get(name)),
    ]
    if wants and not allowed:
        message = f"{wants[0]} is not allowed on this node, unless it is started with --allow-privileged"
        raise NotAllowed("CreateContainerConfigError", message)


def capabilities_of(plan: ContainerPlan) -> list[str]:
    """The usual ones, less what is dropped, and what is added."""
    stated = (plan.container.get("securityContext") or {}).get("capabilities") or {}
    dropped = set(stated.get("drop") or ())
    kept = set() if "ALL" in dropped else set(DEFAULT_CAPABILITIES) - dropped
    return sorted(kept | set(stated.get("add") or ()))


def user_of(plan: ContainerPlan, unpacked: Unpacked | None) -> tuple[int | None, int | None]:
    """User and group by number, where they are stated; raises `LaunchRefused` for a root that may not be."""
    contexts = (plan.container.get("securityContext") or {}, plan.pod["spec"].get("securityContext") or {})

    def stated(field: str) -> Any:
        return next((context[field] for context in contexts if context.get(field) is not None), None)

    uid, gid = stated("runAsUser"), stated("runAsGroup")
    if uid is None and unpacked is not None:
        try:
            uid, own = unpacked.user()
        except BadArchive as error:
            raise LaunchRefused("CreateContainerError", str(error)) from error
        gid = own if gid is None else gid
    if stated("runAsNonRoot") and (uid == 0 or (uid is None and os.geteuid() == 0)):
        raise LaunchRefused("CreateContainerConfigError", "container has runAsNonRoot and would run as root")
    return uid, gid


def command_of(plan: ContainerPlan, unpacked: Unpacked | None) -> list[str]:
    """As Kubernetes joins the spec's words with the image's."""
    entrypoint = unpacked.entrypoint if unpacked is not None else ()
    usual = unpacked.command if unpacked is not None else ()
    first = plan.command or entrypoint
    rest = plan.args or (() if plan.command else usual)
    if not (first or rest):
        why = "the runtime process runs no image: give the pod a command" if unpacked is None else ""
        raise LaunchRefused("CreateContainerError", why or "no command specified")
    return [*first, *rest]
