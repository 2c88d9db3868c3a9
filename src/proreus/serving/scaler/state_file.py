"""What outlives a scaler that is started anew: the replicas that were asked for, and how long starts took.

Without it a scaler knows only what serves, and would have replicas removed that are still starting.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec

from proreus.model.errors import WorkError
from proreus.model.files import read_regular, write_atomically
from proreus.worlds.inference.model.cluster import Role

_log = logging.getLogger(__name__)
_MOST_BYTES = 4 * 1024 * 1024
_TOO_OLD = 3_600.0
"""Seconds after which it says too little of what there is."""


class Remembered(msgspec.Struct, frozen=True):
    """Of one object."""

    at: float
    wanted: dict[Role, int]
    starts: dict[Role, tuple[float, ...]]


_decoder = msgspec.json.Decoder(dict[str, Remembered])


class StateFile:
    """One file for all objects; damage costs what is remembered, and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Remembered] = {}
        if not path.exists():
            return
        try:
            content = read_regular(path)
            self._known = _decoder.decode(content) if len(content) <= _MOST_BYTES else {}
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("what was remembered cannot be read", extra={"fields": {"why": str(error)}})

    def of(self, name: str, now: float) -> Remembered | None:
        """What is remembered of an object, and not too old."""
        found = self._known.get(name)
        return found if found is not None and 0.0 <= now - found.at <= _TOO_OLD else None

    def note(self, name: str, what: Remembered) -> None:
        """Remember it from now on."""
        with self._lock:
            fresh = {one: old for one, old in self._known.items() if what.at - old.at <= _TOO_OLD}
            self._known = {**fresh, name: what}
            try:
                write_atomically(self._path, msgspec.json.encode(self._known), private=True)
            except (OSError, WorkError) as error:  # a full disk is no reason not to scale
                _log.error("nothing can be remembered", extra={"fields": {"why": str(error)}})
