"""How far learning has come, in a file beside the logs: `learner.json`.

    {"next": 917, "replay_from": 850, "reached": 930, "rounds": 12, "tries": 0, "logs": {"2": {...}}}

Of each log, the number of the record that comes next, from which one on the held-out replay reaches back,
and up to which one records were taken in. The first log in files stands at the top, as it did when there was
only one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proreus.log.folder import FIRST
from proreus.model.files import write_atomically

PROGRESS = "learner.json"
_LARGEST = 1 << 62
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Position:
    """In one log."""

    next: int = 0
    """The first record that was neither learned from nor let go."""
    replay_from: int = 0
    """The first record with held-out decisions that are still judged by."""
    reached: int = 0
    """One more than the last record that was taken in."""


@dataclass(frozen=True)
class Progress:
    """In all logs of a model."""

    positions: Mapping[str, Position] = field(default_factory=dict)
    """By the name of the log."""
    rounds: int = 0
    """Of learning, ever."""
    tries: int = 0
    """Rounds that were begun with what comes next, and not one of them ended: they ended the process."""

    def of(self, log: str) -> Position:
        """Where learning stands in a log."""
        return self.positions.get(log, Position())


def read_progress(folder: Path) -> Progress:
    """What `folder`'s file says; one that cannot be read costs that learning starts anew, and says so."""
    path = folder / PROGRESS
    try:
        entries = json.loads(path.read_bytes())
        positions = {FIRST: _position(entries)}
        for name, log in entries.get("logs", {}).items():
            positions[name] = _position(log)
        return Progress(positions, int(entries.get("rounds", 0)), int(entries.get("tries", 0)))
    except FileNotFoundError:
        return Progress()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        _log.warning("%s cannot be read (%s): learning starts at the first record", path, error)
        return Progress()


def write_progress(folder: Path, progress: Progress) -> None:
    """Keep it, whole or not at all."""
    entries = {
        **_entries(progress.of(FIRST)),
        "rounds": progress.rounds,
        "tries": progress.tries,
        "logs": {name: _entries(position) for name, position in progress.positions.items() if name != FIRST},
    }
    write_atomically(folder / PROGRESS, (json.dumps(entries) + "\n").encode(), private=True)


def _position(entries: Any) -> Position:
    position = Position(
        int(entries["next"]), int(entries["replay_from"]), int(entries.get("reached", entries["next"]))
    )
    if not all(0 <= number < _LARGEST for number in (position.next, position.replay_from, position.reached)):
        raise ValueError(f"{position} cannot be")
    return position


def _entries(position: Position) -> dict[str, int]:
    return {"next": position.next, "replay_from": position.replay_from, "reached": position.reached}
