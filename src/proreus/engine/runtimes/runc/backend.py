"""Containers by runc, without a daemon: a bundle for each attempt, made of an imported image.

The container has its own files (the image below, its own layer above), processes, host name and cgroup, the
usual capabilities, and a filter of system calls where its pod wants one; it shares the machine's network. It
needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.backend import ContainerPlan, LaunchRefused, Mount
from proreus.engine.runtimes.commands import spawn
from proreus.engine.runtimes.images.store import ImageStore, Unpacked
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import CommandWanted, ContainerSession
from proreus.engine.runtimes.runc.exec_session import LOG_FORMAT, RuncCommand
from proreus.engine.runtimes.seccomp import SeccompProfile, runc_filter, wanted_profile
from proreus.engine.runtimes.shim.backend import ShimBackend, capabilities_of, command_of, user_of
from proreus.model.errors import UsageError

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_COMMAND_SECONDS = 60


def find_runc() -> str:
    """Where runc is; raises `UsageError` where it is not, or cannot be used."""
    binary = shutil.which("runc") or shutil.which("runc", path="/usr/sbin:/sbin")
    if binary is None:
        raise UsageError("runtime runc: there is no `runc` on this machine (apt install runc)")
    if os.geteuid() != 0:
        raise UsageError("runtime runc needs root; the runtime `process` does not")
    return binary


def _version(binary: str) -> str:
    """As it tells of itself: "runc version 1.1.5" and further lines."""
    answer = subprocess.run(
        [binary, "--version"], capture_output=True, timeout=_COMMAND_SECONDS, check=False, text=True
    )
    return next(iter(answer.stdout.splitlines()), "").rpartition(" ")[2]


class RuncBackend(ShimBackend):
    """See the module; raises `UsageError` where runc cannot work."""

    scheme = "runc"

    def __init__(self, options: MachineOptions, images: ImageStore) -> None:
        self._binary, self._state = find_runc(), options.root / "runc"
        super().__init__(options, images)
        if self.cgroups is None:
            raise UsageError(f"runtime runc needs cgroups that it may make: {self.no_cgroups}")
        self.version = _version(self._binary)

    def specification(self, plan: ContainerPlan, folder: Path, unpacked: Unpacked | None) -> dict[str, Any]:
        """A bundle whose root is mounted by the keeper."""
        if unpacked is None:  # it was removed since it was looked for
            raise LaunchRefused("CreateContainerError", f"image {plan.container.get('image')!r} is gone")
        bundle = folder / "bundle"
        bundle.mkdir()
        root = bundle / "rootfs"
        (bundle / "config.json").write_text(json.dumps(self._config(plan, unpacked, folder)))
        (bundle / "config.json").chmod(0o600)
        return {
            "env": {},
            "runc": {
                "binary": self._binary,
                "root": str(self._state),
                "bundle": str(bundle),
                "id": self._name(folder),
                "overlay": {
                    "lower": str(unpacked.root),
                    "upper": str(folder / "upper"),
                    "work": str(folder / "work"),
                    "root": str(root),
                },
            },
        }

    async def begin(self, id: str, wanted: CommandWanted) -> ContainerSession:
        """`runc exec`, which takes user, environment and folder from the bundle."""
        options = ("exec", "--tty", "--env", "TERM=xterm") if wanted.tty else ("exec",)
        general = (self._binary, "--root", str(self._state), *LOG_FORMAT)
        argv = (*general, *options, self._name(Path(id)), *wanted.command)
        command = await spawn(argv, {"PATH": os.defpath}, stdin=wanted.stdin, tty=wanted.tty)
        return RuncCommand(command, tty=wanted.tty)

    def _clear_away(self, folder: Path) -> None:
        """runc forgets what its keeper could not have it forget."""
        if (self._state / self._name(folder)).exists():
            command = [self._binary, "--root", str(self._state), "delete", "--force", self._name(folder)]
            subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=False)
        super()._clear_away(folder)

    def _name(self, folder: Path) -> str:
        return f"{folder.parts[-4]}_{folder.parts[-2]}_{folder.parts[-1]}"

    def _config(self, plan: ContainerPlan, unpacked: Unpacked, folder: Path) -> dict[str, Any]:
        """The runtime specification's config.json; the limits stand in the cgroup that is joined."""
        assert self.cgroups is not None
        uid, gid = user_of(plan, unpacked)
        context = plan.container.get("securityContext") or {}
        devices = [_device_file(node) for node in plan.gpus.nodes] if plan.gpus is not None else []
        filtered = wanted_profile(plan) is SeccompProfile.RUNTIME_DEFAULT
        capabilities = [f"CAP_{name}" for name in capabilities_of(plan)]
        kept = capabilities if not uid else []
        environment = {"PATH": _PATH, "HOSTNAME": str(plan.pod["metadata"]["name"]), **unpacked.environment}
        groups = plan.pod["spec"].get("securityContext") or {}
        more = [
            *(groups.get("supplementalGroups") or ()),
            *([groups["fsGroup"]] if "fsGroup" in groups else []),
        ]
        return {
            "ociVersion": "1.0.2",
            "hostname": str(plan.pod["metadata"]["name"])[:63],
            "root": {"path": "rootfs", "readonly": bool(context.get("readOnlyRootFilesystem"))},
            "process": {
                "terminal": False,
                "user": {"uid": uid or 0, "gid": gid or 0, "additionalGids": more},
                "args": command_of(plan, unpacked),
                "env": [f"{name}={value}" for name, value in (environment | dict(plan.environment)).items()],
                "cwd": str(plan.container.get("workingDir") or unpacked.folder or "/"),
                "capabilities": {
                    "bounding": capabilities,
                    "effective": kept,
                    "permitted": kept,
                    "inheritable": [],
                    "ambient": [],
                },
                "noNewPrivileges": context.get("allowPrivilegeEscalation") is not True,
            },
            "mounts": [
                *_usual_mounts(),
                *_names_of_hosts(plan.mounts),
                *(_mount(mount) for mount in plan.mounts),
            ],
            "linux": {
                "namespaces": [{"type": namespace} for namespace in ("pid", "ipc", "uts", "mount", "cgroup")],
                "cgroupsPath": self.cgroups.path(self._name(folder)),
                "devices": devices,
                "resources": {
                    "devices": [*_DEVICES, *(_device(device["major"], device["minor"]) for device in devices)]
                },
                "maskedPaths": list(MASKED),
                "readonlyPaths": [*READ_ONLY, "/sys/fs/cgroup"],
                **({"seccomp": runc_filter(capabilities_of(plan))} if filtered else {}),
            },
        }


def _device(major: int, minor: int, kind: str = "c") -> dict[str, Any]:
    return {"allow": True, "type": kind, "major": major, "minor": minor, "access": "rwm"}


def _device_file(node: Path) -> dict[str, Any]:
    """The machine's, as it is to stand in the container."""
    status = node.stat()
    if not stat.S_ISCHR(status.st_mode):
        raise LaunchRefused("CreateContainerError", f"{node} is not a device")
    return {
        "path": f"/dev/{node.name}",
        "type": "c",
        "major": os.major(status.st_rdev),
        "minor": os.minor(status.st_rdev),
        "fileMode": 0o666,
        "uid": 0,
        "gid": 0,
    }


_DEVICES: list[dict[str, Any]] = [
    {"allow": False, "access": "rwm"},
    *(_device(1, minor) for minor in (3, 5, 7, 8, 9)),
    *(_device(5, minor) for minor in (0, 2)),
]
"""null, zero, full, random, urandom, and terminals; nothing else of the machine."""


def _usual_mounts() -> list[dict[str, Any]]:
    """As containerd has them: sysfs and cgroups anew and read-only, so that nothing of the machine's that is
    mounted below its /sys comes along; of the cgroups a container sees its own."""

    def mount(target: str, kind: str, source: str, *options: str) -> dict[str, Any]:
        return {"destination": target, "type": kind, "source": source, "options": list(options)}

    safe = ("nosuid", "noexec", "nodev")
    terminals = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620")
    return [
        mount("/proc", "proc", "proc", *safe),
        mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        mount("/dev/pts", "devpts", "devpts", *terminals),
        mount("/dev/shm", "tmpfs", "shm", *safe, "mode=1777", "size=65536k"),
        mount("/dev/mqueue", "mqueue", "mqueue", *safe),
        mount("/sys", "sysfs", "sysfs", *safe, "ro"),
        # "cgroup" is what runc calls either version; any other word it would mount as it stands.
        mount("/sys/fs/cgroup", "cgroup", "cgroup", *safe, "relatime", "ro"),
    ]


def _names_of_hosts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """The machine's own, as its network is, where the pod brings no others."""
    taken = {mount.target.rstrip("/") for mount in mounts}
    usual = [Mount(Path(path), path, read_only=True) for path in ("/etc/hosts", "/etc/resolv.conf")]
    return [_mount(mount) for mount in usual if mount.source.is_file() and not {mount.target, "/etc"} & taken]


def _mount(mount: Mount) -> dict[str, Any]:
    mode = "ro" if mount.read_only else "rw"
    options = ["rbind", "rprivate", mode, "nosuid", "nodev"]
    return {"destination": mount.target, "type": "bind", "source": str(mount.source), "options": options}
