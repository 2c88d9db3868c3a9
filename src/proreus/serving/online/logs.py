"""The logs of one model: each process that serves it writes one of its own, and one of them learns from all.

    EXPERIENCE/*.log          the first log
    EXPERIENCE/2/*.log, ...   those of processes that came when it was taken

A report is acknowledged by the process that took it, once it is in that process' own log: nobody waits for
another process, and none can lose what another one acknowledged. A process that starts takes the first log
that no living process holds, so there are never more logs than there were processes at once.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from proreus.model.errors import UsageError, WorkError
from proreus.serving.online.log import ExperienceLog, LogInUse, LogLimits
from proreus.serving.online.progress import FIRST, read_progress

_MOST = 64


def open_free_log(experience: Path, limits: LogLimits) -> ExperienceLog:
    """The first log that nobody writes."""
    for name in (FIRST, *map(str, range(2, _MOST + 1))):
        try:
            return ExperienceLog(experience / name, limits, partial(_learned, experience, name))
        except LogInUse:
            continue
    raise UsageError(f"{experience}: {_MOST} processes serve this model already")


def _learned(experience: Path, name: str) -> int:
    return read_progress(experience).of(name).next


def log_names(experience: Path) -> list[str]:
    """The names of all logs, the first one first."""
    try:
        found = [int(path.name) for path in experience.iterdir() if path.name.isdecimal() and path.is_dir()]
    except OSError as error:
        raise WorkError(f"{experience}: cannot be read: {error.strerror}") from error
    return [FIRST, *map(str, sorted(found))]
