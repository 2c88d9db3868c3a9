"""Containers as plain processes: for a machine without any container engine, root or not.

Each has its own session, its own cgroup where cgroups can be made (else rlimits: memory by the size of the
address space, CPU without a limit), its own folder to work in, and bounded logs; nothing of it outlives its
first process. An image is used for its configuration alone. What this cannot keep apart: files, network,
processes and users of the machine are all there to see, as for any program that its user starts. Volumes
stand below `$PROREUS_ROOT`, the container's folder; where the machine has the path of a mount itself, root
binds the volume over it for the container alone, and without root it is not started. Read-only mounts are
not enforced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.backend import ContainerPlan, LaunchRefused, Mount
from proreus.engine.runtimes.cgroups import CgroupUsage
from proreus.engine.runtimes.commands import spawn
from proreus.engine.runtimes.images.store import Unpacked
from proreus.engine.runtimes.protocol import CommandWanted, ContainerSession
from proreus.engine.runtimes.safe_path import UnsafePath, open_beneath
from proreus.engine.runtimes.seccomp import SeccompProfile, compiled_filter, wanted_profile
from proreus.engine.runtimes.shim import client
from proreus.engine.runtimes.shim.backend import (
    DEFAULT_CAPABILITIES,
    ShimBackend,
    capabilities_of,
    command_of,
    limits_of,
    user_of,
)
from proreus.model.files import make_private_folder
from proreus.version import __version__

_TICK = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree_spent(processes: Iterable[int]) -> CgroupUsage | None:
    """Together; what has ended is counted with whoever waited for it. None where there is none."""
    cpu = memory = counted = 0
    for pid in processes:
        try:
            fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        counted += 1
        cpu += sum(int(field) for field in fields[11:15]) * _TICK
        memory += int(fields[21]) * _PAGE
    return CgroupUsage(cpu, memory) if counted else None


ROOT = "PROREUS_ROOT"
_NOBODY = 65534


class ProcessBackend(ShimBackend):
    scheme = "process"
    needs_images = own_files = False
    version = __version__

    def specification(self, plan: ContainerPlan, folder: Path, unpacked: Unpacked | None) -> dict[str, Any]:
        """The command, as a process of this machine."""
        root = folder / "root"
        root.mkdir(mode=0o755)
        for mount in sorted(plan.mounts, key=lambda mount: len(Path(mount.target).parts)):
            _link(root, mount.target, mount.source)
        uid, gid = user_of(plan, unpacked)
        work = str(plan.container.get("workingDir") or (unpacked.folder if unpacked else "") or "/")
        home = _inside(root, work)
        _make_work(root, work, plan.mounts)
        if uid is not None and os.geteuid() == 0:
            _hand_over(root, uid, -1 if gid is None else gid)
            folder.parents[2].chmod(0o711)  # the pod's: whoever is not of the pod does not get so far
        elif uid is not None and uid != os.geteuid():
            raise LaunchRefused("CreateContainerError", f"only root can start containers as user {uid}")
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            **(unpacked.environment if unpacked is not None else {}),
            "HOSTNAME": str(plan.pod["metadata"]["name"]),
            **plan.environment,
            ROOT: str(root),
            client.MARK: str(folder),
        }
        if plan.gpus is not None:  # no engine stands between: this is what CUDA itself looks at
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(plan.gpus.ids)
        root_like = os.geteuid() == 0
        spec: dict[str, Any] = {
            "argv": [word.replace(f"$({ROOT})", str(root)) for word in command_of(plan, unpacked)],
            "env": environment,
            "cwd": str(home),
            "binds": _bound_over(plan.mounts, folder),
            "rlimits": {"RLIMIT_CORE": 0},
            "capabilities": _numbers(capabilities_of(plan)) if root_like else None,
            "no_new_privileges": _no_new_privileges(plan),
        }
        if wanted_profile(plan) is SeccompProfile.RUNTIME_DEFAULT:
            spec["seccomp"] = compiled_filter(DEFAULT_CAPABILITIES).hex()
            spec["no_new_privileges"] |= not root_like  # the kernel takes filters of others only so
        if uid is not None and root_like:
            spec |= {"uid": uid, "gid": _NOBODY if gid is None else gid, "groups": _groups(plan)}
            spec["shown"] = [str(folder.parents[2]), *(str(mount.source) for mount in plan.mounts)]
        memory = limits_of(plan, 0).memory
        if self.cgroups is None and memory is not None:
            spec["rlimits"]["RLIMIT_AS"] = memory
        return spec

    async def begin(self, id: str, wanted: CommandWanted) -> ContainerSession:
        """With the container's cgroup, user, environment and folder."""
        argv = (*client.COMMAND, id, *wanted.command)
        return await spawn(argv, {"PATH": os.defpath}, stdin=wanted.stdin, tty=wanted.tty)

    def spent(self, id: str) -> CgroupUsage | None:
        """As its cgroup counts, or as its processes add up."""
        if self.cgroups is not None:
            return super().spent(id)
        return tree_spent(client.marked(id))


def _bound_over(mounts: Sequence[Mount], folder: Path) -> list[tuple[str, str]]:
    """Mounts at paths that this machine has, too: the container is to find its own there and never write the
    machine's. Root binds them over those, for the container alone; nobody else can."""
    binds = [(str(mount.source), mount.target) for mount in mounts if os.path.lexists(mount.target)]
    if binds and os.geteuid() != 0:
        message = (
            f"mountPath {binds[0][1]} is a path of this machine, which the runtime process would read and "
            "write instead of the volume: mount it elsewhere, or start the node as root"
        )
        raise LaunchRefused("CreateContainerConfigError", message)
    for _, target in binds:  # whoever binds over it hides the container's own folder
        if folder.resolve().is_relative_to(Path(target).resolve()):
            message = f"mountPath {target} holds the node's own folder: the runtime process cannot replace it"
            raise LaunchRefused("CreateContainerConfigError", message)
    return binds


def _make_work(root: Path, work: str, mounts: Sequence[Mount]) -> None:
    """The folder that is worked in, by descriptor: a volume's content may lead anywhere."""
    inside = [mount for mount in mounts if Path(work).is_relative_to(mount.target)]
    mount = max(inside, key=lambda mount: len(mount.target), default=Mount(root, "/"))
    try:
        top = os.open(mount.source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(open_beneath(top, str(Path(work).relative_to(mount.target)), make=True))
        finally:
            os.close(top)
    except (UnsafePath, OSError, ValueError) as error:
        raise LaunchRefused("CreateContainerConfigError", f"workingDir {work}: {error}") from error


def _hand_over(root: Path, uid: int, gid: int) -> None:
    """All folders below it are the user's; what volumes' links lead to is not touched."""
    os.chown(root, uid, gid)
    for folder, folders, _ in os.walk(root):
        for name in folders:
            os.chown(Path(folder, name), uid, gid, follow_symlinks=False)


def _numbers(capabilities: Sequence[str]) -> list[int]:
    """Of those that can be kept: a process is never given more than the usual ones."""
    return [DEFAULT_CAPABILITIES[name] for name in capabilities if name in DEFAULT_CAPABILITIES]


def _no_new_privileges(plan: ContainerPlan) -> bool:
    context = plan.container.get("securityContext") or {}
    return context.get("allowPrivilegeEscalation") is not True and not context.get("privileged")


def _groups(plan: ContainerPlan) -> list[int]:
    context = plan.pod["spec"].get("securityContext") or {}
    own = [context["fsGroup"]] if context.get("fsGroup") is not None else []
    return [*own, *(context.get("supplementalGroups") or ())]


def _inside(root: Path, path: str) -> Path:
    """Where a container's absolute path is on the machine."""
    parts = [part for part in Path(path).parts if part != "/"]
    if ".." in parts:
        raise LaunchRefused("CreateContainerConfigError", f"{path!r} leads upwards")
    return root.joinpath(*parts)


def _link(root: Path, target: str, source: Path) -> None:
    """A volume at its place below the container's root."""
    place = _inside(root, target)
    if place == root or any(parent.is_symlink() for parent in place.parents if parent.is_relative_to(root)):
        message = f"{target}: mounts in mounts need a runtime with a root of its own"
        raise LaunchRefused("CreateContainerConfigError", message)
    make_private_folder(place.parent, 0o755)
    place.symlink_to(source)
