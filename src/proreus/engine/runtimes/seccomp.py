"""Which system calls a container is refused whose pod wants the runtime's default (`seccompProfile`).

Other engines list what they allow, some three hundred calls, and let the rest fail. This is the other way
round, so that it can be read: what they are known to refuse, as far as the kernels of today have it. Most of
it root alone may do, and a capability that a container was given allows it again, as elsewhere.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any, NamedTuple

from proreus.engine.runtimes.backend import ContainerPlan, LaunchRefused


class SeccompProfile(Enum):
    """What a pod may want."""

    RUNTIME_DEFAULT = "RuntimeDefault"
    UNCONFINED = "Unconfined"


class _Call(NamedTuple):
    name: str
    x86_64: int
    aarch64: int | None
    """Its numbers; None where there is no such call."""


_NEVER = ""
_REFUSED: dict[str, tuple[_Call, ...]] = {
    _NEVER: (
        # Keys of the kernel belong to no namespace.
        _Call("add_key", 248, 217),
        _Call("keyctl", 250, 219),
        _Call("request_key", 249, 218),
        # Ways around other filters, and through the kernel's newest code.
        _Call("io_uring_enter", 426, 426),
        _Call("io_uring_register", 427, 427),
        _Call("io_uring_setup", 425, 425),
        _Call("userfaultfd", 323, 282),
        # The machine's own: another kernel, swap, its root.
        _Call("kexec_file_load", 320, 294),
        _Call("kexec_load", 246, 104),
        _Call("pivot_root", 155, 41),
        _Call("swapoff", 168, 225),
        _Call("swapon", 167, 224),
        # Nobody has used these for long.
        _Call("nfsservctl", 180, 42),
        _Call("sysfs", 139, None),
        _Call("uselib", 134, None),
        _Call("ustat", 136, None),
    ),
    "SYS_ADMIN": (
        _Call("bpf", 321, 280),
        _Call("fanotify_init", 300, 262),
        _Call("fsconfig", 431, 431),
        _Call("fsmount", 432, 432),
        _Call("fsopen", 430, 430),
        _Call("fspick", 433, 433),
        _Call("lookup_dcookie", 212, 18),
        _Call("mount", 165, 40),
        _Call("mount_setattr", 442, 442),
        _Call("move_mount", 429, 429),
        _Call("open_tree", 428, 428),
        _Call("perf_event_open", 298, 241),
        _Call("quotactl", 179, 60),
        _Call("quotactl_fd", 443, 443),
        _Call("setdomainname", 171, 162),
        _Call("sethostname", 170, 161),
        _Call("setns", 308, 268),
        _Call("umount2", 166, 39),
        _Call("unshare", 272, 97),
    ),
    "DAC_READ_SEARCH": (_Call("open_by_handle_at", 304, 265),),
    "SYSLOG": (_Call("syslog", 103, 116),),
    "SYS_BOOT": (_Call("reboot", 169, 142),),
    "SYS_MODULE": (
        _Call("delete_module", 176, 106),
        _Call("finit_module", 313, 273),
        _Call("init_module", 175, 105),
    ),
    "SYS_NICE": (
        _Call("get_mempolicy", 239, 236),
        _Call("mbind", 237, 235),
        _Call("move_pages", 279, 239),
        _Call("set_mempolicy", 238, 237),
        _Call("set_mempolicy_home_node", 450, 450),
    ),
    "SYS_PACCT": (_Call("acct", 163, 89),),
    "SYS_PTRACE": (
        _Call("kcmp", 312, 272),
        _Call("pidfd_getfd", 438, 438),
        _Call("process_madvise", 440, 440),
        _Call("process_vm_readv", 310, 270),
        _Call("process_vm_writev", 311, 271),
    ),
    "SYS_RAWIO": (_Call("ioperm", 173, None), _Call("iopl", 172, None)),
    "SYS_TIME": (
        _Call("clock_adjtime", 305, 266),
        _Call("clock_settime", 227, 112),
        _Call("settimeofday", 164, 170),
    ),
    "SYS_TTY_CONFIG": (_Call("vhangup", 153, 58),),
}
"""By the capability that allows it again."""
_ELSEWHERE = {
    "x86_64": ("clock_settime64", "stime", "umount", "vm86", "vm86old"),
    "aarch64": ("clock_settime64",),
}
"""The same again, by names that only programs for 32 bits know."""
_CLONE, _CLONE3 = _Call("clone", 56, 220), _Call("clone3", 435, 435)
_NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""The flags of `clone` that make new namespaces. `clone3` has its flags where no filter can see them: it is
said not to exist, and C libraries then use `clone`."""
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ARCHITECTURES = {
    "x86_64": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "aarch64": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
}
_X32 = 0x40000000
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel shows these to a filter."""


def wanted_profile(plan: ContainerPlan) -> SeccompProfile | None:
    """The container's, or else its pod's; None where neither says. Raises `LaunchRefused`."""
    context = plan.container.get("securityContext") or {}
    pod = plan.pod["spec"].get("securityContext") or {}
    stated = context.get("seccompProfile") or pod.get("seccompProfile")
    if context.get("privileged"):
        return SeccompProfile.UNCONFINED
    if not stated:
        return None
    try:
        return SeccompProfile(stated.get("type"))
    except ValueError:
        message = f"seccompProfile {stated.get('type')} is not supported on this node, RuntimeDefault is"
        raise LaunchRefused("CreateContainerConfigError", message) from None


def runc_filter(capabilities: Collection[str]) -> dict[str, Any]:
    """`linux.seccomp` of a container's config.json; raises `LaunchRefused` on a machine of another kind."""
    machine = _machine()
    names = [call.name for call in _refused(capabilities)]
    rules: list[dict[str, Any]] = [
        {"names": [*names, *_ELSEWHERE[machine]], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    ]
    if "SYS_ADMIN" not in capabilities:
        rules.append({"names": [_CLONE3.name], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS})
        for flag in _NAMESPACES:
            asked = {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
            rules.append(
                {"names": [_CLONE.name], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM, "args": [asked]}
            )
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": _ARCHITECTURES[machine], "syscalls": rules}


def compiled_filter(capabilities: Collection[str]) -> bytes:
    """The same as a program for the kernel, for containers that no engine sees to; raises `LaunchRefused`."""
    machine = _machine()
    steps: list[tuple[int, int, str, str]] = [
        (_LOAD, _MACHINE, "", ""),
        (_EQUAL, _MACHINES[machine], "", "unknown"),
        (_LOAD, _NUMBER, "", ""),
    ]
    if machine == "x86_64":
        steps.append((_AT_LEAST, _X32, "unknown", ""))
    numbers = [getattr(call, machine) for call in _refused(capabilities)]
    steps += [(_EQUAL, number, "refused", "") for number in numbers if number is not None]
    if "SYS_ADMIN" not in capabilities:
        steps.append((_EQUAL, getattr(_CLONE3, machine), "unknown", ""))
        steps.append((_EQUAL, getattr(_CLONE, machine), "", "allowed"))
        steps.append((_LOAD, _FIRST_ARGUMENT, "", ""))
        steps.append((_ANY_OF, sum(_NAMESPACES), "refused", ""))
    ends = {"allowed": _ALLOW, "refused": _FAIL | errno.EPERM, "unknown": _FAIL | errno.ENOSYS}
    places = {name: len(steps) + number for number, name in enumerate(ends)}
    steps += [(_RETURN, value, "", "") for value in ends.values()]
    return b"".join(
        struct.pack("=HBBI", code, *(places[label] - at - 1 if label else 0 for label in (yes, no)), value)
        for at, (code, value, yes, no) in enumerate(steps)
    )


def _machine() -> str:
    name = platform.machine()
    if name not in _MACHINES or os.sysconf("SC_LONG_BIT") != 64:
        message = f"seccompProfile RuntimeDefault is not supported on a machine of kind {name}"
        raise LaunchRefused("CreateContainerConfigError", message)
    return name


def _refused(capabilities: Collection[str]) -> Iterator[_Call]:
    for capability, calls in _REFUSED.items():
        if capability not in capabilities:
            yield from calls
