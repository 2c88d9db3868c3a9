"""The machine's GPUs and what they do, as `nvidia-smi` tells."""

from __future__ import annotations

import csv
import os
import shutil

from proreus.engine.runtimes.machine.commands import run_command
from proreus.engine.runtimes.protocol import GpuUse, RuntimeRefused

_QUERY = "uuid,name,utilization.gpu,memory.used,memory.total"
_SECONDS = 10.0
_MIB = 1024 * 1024
_PATHS = f"{os.defpath}:/usr/local/bin:/usr/sbin:/sbin"


def read_gpus(output: str) -> tuple[GpuUse, ...]:
    """What `nvidia-smi --query-gpu=... --format=csv,noheader,nounits` has written; other lines are left out.

    A GPU that is cut into instances (MIG) does not tell how busy it is: "[N/A]".
    """
    found = []
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if len(row) == len(_QUERY.split(",")) and row[0].startswith("GPU-"):
            busy, memory, capacity = (_number(text) for text in row[2:])
            found.append(GpuUse(row[0], row[1], busy, _bytes(memory), _bytes(capacity)))
    return tuple(found)


async def look_at_gpus() -> tuple[GpuUse, ...]:
    """Nothing where there is no NVIDIA driver, or where it does not answer."""
    tool = shutil.which("nvidia-smi", path=_PATHS)
    if tool is None:
        return ()
    argv = (tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits")
    try:
        answer = await run_command(argv, b"", _SECONDS, {"PATH": os.defpath})
    except RuntimeRefused:  # a driver that hangs
        return ()
    return read_gpus(answer.stdout.decode(errors="replace")) if answer.exit_code == 0 else ()


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MIB
