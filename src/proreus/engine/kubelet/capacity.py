"""What the machine has."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Capacity
from proreus.model.resources import CPU, EPHEMERAL, GPU, MEMORY, PODS, parse_quantity
from proreus.version import __version__

_MOST_PODS = 110
"""As Kubernetes has it."""
_IDENTITIES = {
    "machineID": Path("/etc/machine-id"),
    "bootID": Path("/proc/sys/kernel/random/boot_id"),
    "systemUUID": Path("/sys/class/dmi/id/product_uuid"),
}


def machine_capacity(options: MachineOptions, runtime: str, gpus: int = 0) -> Capacity:
    """Cores that this process may use, memory, the disk below the root, GPUs, and what is offered."""
    amounts = {
        CPU: 1000 * len(os.sched_getaffinity(0)),
        MEMORY: _memory(),
        EPHEMERAL: shutil.disk_usage(options.root).total,
        PODS: _MOST_PODS,
        **({GPU: gpus} if gpus else {}),
        **{name: parse_quantity(text) for name, text in options.offered.items()},
    }
    kept = read_amounts(options.reserved)
    left = {name: max(0, amount - kept.get(name, 0)) for name, amount in amounts.items()}
    info = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "operatingSystem": "linux",
        "kernelVersion": platform.release(),
        "osImage": platform.platform(),
        "containerRuntimeVersion": runtime,
        "kubeletVersion": f"v{__version__}",
        **{name: _identity(file) for name, file in _IDENTITIES.items()},
    }
    return Capacity(_written(amounts), _written(left), info)


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: _milli(amount) if name == CPU else str(amount) for name, amount in amounts.items()}


def _milli(amount: int) -> str:
    """Thousandths as Kubernetes writes them: whole ones without the m."""
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def _identity(file: Path) -> str:
    """What stands in the file; "" where there is none, or where root alone may read it."""
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    raise OSError("/proc/meminfo does not state MemTotal")
