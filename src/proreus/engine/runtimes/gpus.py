"""The machine's GPUs: which there are, as the driver lists them, and what they do, as `nvidia-smi` tells."""

from __future__ import annotations

import csv
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from proreus.engine.runtimes.commands import run_command
from proreus.engine.runtimes.protocol import GpuUse, RuntimeRefused

_QUERY = "uuid,name,utilization.gpu,memory.used,memory.total"
_PROCESS_QUERY = "pid,gpu_uuid,used_memory"
_SECONDS = 10.0
_MIB = 1024 * 1024
_PATHS = f"{os.defpath}:/usr/local/bin:/usr/sbin:/sbin"


_NODE = re.compile(r"nvidia(\d+)")
_SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""What everybody needs who uses any GPU."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One that containers can be given."""

    id: str
    """Its UUID; its number where the driver does not list it, as inside somebody else's container."""
    node: Path
    """The device file."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU."""

    pid: int
    uuid: str
    """The GPU's."""
    memory: int | None
    """Bytes of it; None where the driver does not tell."""


def list_gpus(root: Path) -> tuple[GpuDevice, ...]:
    """Those with a device file, in the order of their numbers; root: `/`, but in tests."""
    try:
        names = sorted(path.name for path in (root / "dev").iterdir())
    except OSError:
        return ()
    numbers = sorted(int(match[1]) for name in names if (match := _NODE.fullmatch(name)))
    uuids = _listed(root / "proc" / "driver" / "nvidia" / "gpus")
    return tuple(
        GpuDevice(uuids.get(number, str(number)), root / "dev" / f"nvidia{number}") for number in numbers
    )


def shared_nodes(root: Path) -> tuple[Path, ...]:
    """The device files that are there beside those of the GPUs themselves."""
    return tuple(path for name in _SHARED_NODES if (path := root / "dev" / name).exists())


def _listed(folder: Path) -> dict[int, str]:
    """UUIDs by number."""
    by_minor = {}
    for file in folder.glob("*/information"):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:  # it has fallen off its bus
            continue
        fields = {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
        number, uuid = fields.get("Device Minor", ""), fields.get("GPU UUID", "")
        if number.isdigit() and uuid.startswith("GPU-"):
            by_minor[int(number)] = uuid
    return by_minor


def read_gpus(output: str) -> tuple[GpuUse, ...]:
    """What `nvidia-smi --query-gpu=... --format=csv,noheader,nounits` has written; other lines are left out.

    A GPU that is cut into instances (MIG) does not tell how busy it is: "[N/A]".
    """
    gpu_uses = []
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if len(row) == len(_QUERY.split(",")) and row[0].startswith("GPU-"):
            busy, memory, capacity = (_number(text) for text in row[2:])
            gpu_uses.append(GpuUse(row[0], row[1], busy, _bytes(memory), _bytes(capacity)))
    return tuple(gpu_uses)


async def look_at_gpus() -> tuple[GpuUse, ...]:
    """Nothing where there is no NVIDIA driver, or where it does not answer."""
    return read_gpus(await _asked(f"--query-gpu={_QUERY}"))


async def look_at_gpu_processes() -> tuple[GpuProcess, ...]:
    """Whoever computes on a GPU now; the same."""
    return read_gpu_processes(await _asked(f"--query-compute-apps={_PROCESS_QUERY}"))


async def _asked(query: str) -> str:
    tool = shutil.which("nvidia-smi", path=_PATHS)
    if tool is None:
        return ""
    argv = (tool, query, "--format=csv,noheader,nounits")
    try:
        answer = await run_command(argv, b"", _SECONDS, {"PATH": os.defpath})
    except RuntimeRefused:  # a driver that hangs
        return ""
    return answer.stdout.decode(errors="replace") if answer.exit_code == 0 else ""


def read_gpu_processes(output: str) -> tuple[GpuProcess, ...]:
    """What `nvidia-smi --query-compute-apps=...` has written; other lines are left out."""
    gpu_processes = []
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if len(row) == len(_PROCESS_QUERY.split(",")) and row[0].isdigit():
            gpu_processes.append(GpuProcess(int(row[0]), row[1], _bytes(_number(row[2]))))
    return tuple(gpu_processes)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MIB
