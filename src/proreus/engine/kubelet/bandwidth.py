"""What the machine's disk and network carry, and whom they cannot be held to.

`proreus up` and `proreus agent` offer what is found here as `proreus.io/disk-mbps` and
`proreus.io/network-mbps`, unless they are told otherwise with `--node-resources`.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.block_devices import disks_of
from proreus.engine.runtimes.protocol import Notice
from proreus.model.files import write_atomically
from proreus.model.resources import BYTES_PER_MB, DISK, MIB, NETWORK

_log = logging.getLogger(__name__)
NOTE = "bandwidth.json"
"""In the runtime's folder: what was measured. A node keeps its capacity when it starts again."""
_MOST_BLOCKS, _MOST_SECONDS = 64, 0.5
_ROUTES, _INTERFACES = Path("/proc/net/route"), Path("/sys/class/net")
_NOT_HELD = "BandwidthNotEnforced"


def machine_bandwidth(root: Path) -> dict[str, str]:
    """What can be measured, by resource: once, then as noted below `root`."""
    note = root / NOTE
    try:
        kept = json.loads(note.read_text())
        return {name: str(int(kept[name])) for name in (DISK, NETWORK) if kept.get(name)}
    except FileNotFoundError:
        pass
    except (OSError, ValueError, AttributeError) as error:
        _log.warning("%s: %s; disk and network are measured again", note, error)
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    rates = {DISK: measured_disk(root), NETWORK: measured_network()}
    found = {name: str(rate) for name, rate in rates.items() if rate}
    write_atomically(note, json.dumps(found).encode(), private=True)
    return found


def measured_disk(folder: Path) -> int | None:
    """MB/s of writes past the page cache, over half a second at most; None where no disk is below."""
    if not disks_of((folder,)):
        return None
    path = folder / f".bandwidth-{os.getpid()}"
    try:
        return _written_rate(path)
    except OSError as error:  # a file system without O_DIRECT, or one that is full
        _log.info("the disk of %s was not measured: %s", folder, error.strerror)
        return None
    finally:
        path.unlink(missing_ok=True)


def _written_rate(path: Path) -> int:
    block = mmap.mmap(-1, MIB)  # O_DIRECT wants memory that begins at a page
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
    try:
        began, written = time.perf_counter(), 0
        while written < _MOST_BLOCKS * MIB and time.perf_counter() - began < _MOST_SECONDS:
            written += os.write(file, block)
        os.fsync(file)
        return max(1, int(written / (time.perf_counter() - began) / BYTES_PER_MB))
    finally:
        os.close(file)
        block.close()


def measured_network(routes: Path = _ROUTES, interfaces: Path = _INTERFACES) -> int | None:
    """Mbit/s of the link behind the default route; None where its driver does not tell."""
    try:
        rows = [line.split() for line in routes.read_text().splitlines()[1:]]
        name = next((row[0] for row in rows if row[1] == "00000000"), None)
        speed = int((interfaces / name / "speed").read_text()) if name else 0
    except (OSError, ValueError, IndexError):
        return None
    return speed if speed > 0 else None


def not_held(container: Mapping[str, Any], unheld: Mapping[str, str]) -> Iterator[Notice]:
    """Warnings for a container that asks for bandwidth which this machine cannot hold it to.

    unheld: why it cannot, by resource; "": it can.
    """
    resources = container.get("resources") or {}
    asked = read_amounts(resources.get("requests")) | read_amounts(resources.get("limits"))
    for name, why in unheld.items():
        if asked.get(name) and why:
            yield Notice("Warning", _NOT_HELD, f"{name} is counted, but not enforced: {why}")
