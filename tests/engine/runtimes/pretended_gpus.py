"""A machine's GPUs as its driver lists them, pretended in a folder; the devices themselves are null's."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def pretend_gpus(folder: Path, count: int) -> None:
    """So many of them below the folder."""
    (folder / "dev").mkdir(parents=True)
    for name in [*(f"nvidia{number}" for number in range(count)), "nvidiactl", "nvidia-uvm"]:
        if os.geteuid() == 0:
            os.mknod(folder / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        else:
            (folder / "dev" / name).touch()
    for number in range(count):
        listed = folder / "proc/driver/nvidia/gpus" / f"0000:{number:02x}:00.0"
        listed.mkdir(parents=True)
        text = f"Model: \t\t Pretended\nGPU UUID: \t {uuid_of(number)}\nDevice Minor: \t {number}\n"
        (listed / "information").write_text(text)


def uuid_of(number: int) -> str:
    """Of one of them."""
    return f"GPU-00000000-0000-0000-0000-{number:012}"
