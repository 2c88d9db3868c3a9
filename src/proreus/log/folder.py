"""The logs of a folder: each process that writes has one of its own.

    FOLDER/*.log          the first log
    FOLDER/2/*.log, ...   those of processes that came when it was taken

An append is acknowledged by the process that took it, once it is in that process' own log: nobody waits for
another process, and none can lose what another one acknowledged. A process that starts takes the first log
that no living process holds, so there are never more logs than there were processes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proreus.log.files import FileLog, FileReader
from proreus.log.protocol import LogInUse, LogLimits, Released
from proreus.model.errors import UsageError, WorkError

FIRST = ""
"""The name of the log that is the folder itself; others are folders in it, by their name."""
_MOST = 64


@dataclass(frozen=True)
class LogFolder:
    folder: Path

    def names(self) -> list[str]:
        """Of all logs, the first one first."""
        try:
            inside = [path.name for path in self.folder.iterdir() if path.is_dir()]
        except OSError as error:
            raise WorkError(f"{self.folder}: cannot be read: {error.strerror}") from error
        return [FIRST, *map(str, sorted(int(name) for name in inside if name.isdecimal()))]

    def open(self, limits: LogLimits, released: Released) -> FileLog:
        """The first log that nobody writes."""
        for name in (FIRST, *map(str, range(2, _MOST + 1))):
            try:
                return FileLog(self.folder / name, limits, partial(released, name), name)
            except LogInUse:
                continue
        raise UsageError(f"{self.folder}: {_MOST} processes write here already")

    def reader(self, name: str, since: int = 0) -> FileReader:
        """Reads one of them, from that number on."""
        return FileReader(self.folder / name, since)
