"""What a container leaves to be told of its end: a file at `terminationMessagePath`, or its log."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proreus.engine.runtimes import logs
from proreus.engine.runtimes.backend import Backend, ContainerExit, Mount
from proreus.engine.runtimes.pod_reports import container_of
from proreus.engine.runtimes.protocol import LogWanted, Pod
from proreus.model.files import make_private_folder

FOLDER = "termination"
"""In a pod's folder: a folder for each container, and in it a file for each attempt."""
_USUAL_PATH = "/dev/termination-log"
_MOST_BYTES, _MOST_OF_POD = 4096, 12 * 1024
_MOST_OF_LOG, _MOST_LINES = 2048, 80
_NEVER_RAN = "StartError"


def stand_message(folder: Path, container: Mapping[str, Any], attempt: int) -> Mount:
    """An empty file for this attempt that anybody in the container may write; `folder` is its pod's."""
    file = folder / FOLDER / str(container["name"]) / str(attempt)
    make_private_folder(file.parent, 0o711)
    file.unlink(missing_ok=True)
    file.touch()
    file.chmod(0o666)
    return Mount(file, str(container.get("terminationMessagePath") or _USUAL_PATH))


@dataclass(frozen=True, slots=True)
class Terminations:
    """Of the pods that have a folder each below `folder`."""

    folder: Path
    backend: Backend

    async def told(self, pod: Pod, name: str, attempt: int, ended: ContainerExit) -> ContainerExit:
        """The end, with what the container left: of its file the last 4 KiB, of all of a pod's 12 KiB."""
        container, uid = container_of(pod, name), str(pod["metadata"]["uid"])
        most = min(_MOST_BYTES, _MOST_OF_POD // len(pod["spec"]["containers"]))
        left = _end_of(self.folder / uid / FOLDER / name / str(attempt), most)
        falls_back = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not left and falls_back and ended.code != 0 and ended.reason != _NEVER_RAN:
            wanted = LogWanted(name, tail=_MOST_LINES)
            lines = logs.read(self.backend.log(uid, name, attempt), wanted, lambda: True)
            left = b"".join([line async for line in lines])[-min(most, _MOST_OF_LOG) :]
        words = left.decode(errors="replace")
        if not words:
            return ended
        return replace(ended, message=f"{ended.message}: {words}" if ended.message else words)


def _end_of(file: Path, most: int) -> bytes:
    """The last so many bytes; nothing of what is not a plain file, or is not there."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return b""
        return os.pread(fd, most, max(0, about.st_size - most))
    finally:
        os.close(fd)
