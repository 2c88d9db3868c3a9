"""`proreus down`: end the cluster that runs in a folder, and the containers that it left running."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.lock import LockPurpose, down_follows, held_by, only_one
from proreus.cli.cluster.state_dir import state_dir
from proreus.cli.output import Output, new_console, write_json
from proreus.model.errors import UsageError, WorkError, needs_extra

_DESCRIPTION = """End the cluster that runs in a folder, and stop the containers that it runs or left running.

What it keeps stays: the next `proreus up` starts those pods anew. Of an agent: --dir with its folder.

Example: proreus down"""
_END_SECONDS, _LOOK_SECONDS = 60.0, 0.05


@dataclass(frozen=True)
class DownArguments:
    """Flags of `proreus down`."""

    dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of the cluster; by default ~/.local/state/proreus (XDG_STATE_HOME)."""
    socket: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where containerd answers, if it was said to `proreus up`."""
    common: Output = field(default_factory=Output)


def run(words: Sequence[str]) -> int:
    """Until nothing of it runs."""
    arguments = parse(DownArguments, "proreus down", words, _DESCRIPTION)
    prepare(arguments.common)
    folder = state_dir(arguments.dir)
    if not folder.is_dir():
        raise UsageError(f"no cluster is kept in {folder}: name its folder with --dir")
    with down_follows(folder):
        ended = _end(folder)
    with only_one(folder):
        stopped = _stop_pods(folder, arguments.socket)
    console = new_console(arguments.common)
    cluster = "nothing ran" if ended is None else f"the {ended.value} was ended"
    counted = "1 container was stopped" if stopped == 1 else f"{stopped} containers were stopped"
    console.print(f"{cluster}; {counted}", highlight=False)
    write_json(arguments.common, {"ended": ended is not None, "stopped_containers": stopped})
    return 0


def _end(folder: Path) -> LockPurpose | None:
    """Tell whoever holds the folder to end, and wait until it has; what it was."""
    holder = held_by(folder)
    if holder is None:
        return None
    try:
        os.kill(holder.process, signal.SIGTERM)
    except ProcessLookupError:  # it has just ended by itself
        pass
    except PermissionError as error:
        raise WorkError(
            f"{folder}: process {holder.process} of another user runs the {holder.work.value}"
        ) from error
    deadline = time.monotonic() + _END_SECONDS
    while held_by(folder) == holder:
        if time.monotonic() > deadline:
            raise WorkError(f"{folder}: process {holder.process} does not end")
        time.sleep(_LOOK_SECONDS)
    return holder.work


def _stop_pods(folder: Path, socket: Path | None) -> int:
    try:
        from proreus.cli.cluster.options import machine_options
        from proreus.engine.kubelet.runtime_factory import clear_runtime
    except ModuleNotFoundError as error:
        raise UsageError(f"down {needs_extra('engine')} ({error})") from error
    return asyncio.run(clear_runtime(machine_options(folder, socket)))
