"""Stops all writing within a second: a file that exists, or a key of a ConfigMap that says so.

    kubectl -n kube-system create configmap proreus-scheduler --from-literal=stop=true

Who stands in the way of a switch does not turn it: a ConfigMap that cannot be read just now counts as it was
last read, and a file whose folder cannot be looked into counts as there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from proreus.kubeclient.reflector import Change

KEY = "stop"
_LOOK_SECONDS = 0.5
_YES = ("true", "yes", "1", "on")
_log = logging.getLogger(__name__)


class KillSwitch:
    """Whether nothing may be written; whoever turned it is named."""

    def __init__(self, name: tuple[str, str], file: Path | None = None) -> None:
        """name: namespace and name of the ConfigMap."""
        self._name, self._file = name, file
        self._by_map = self._by_file = False
        self._hear: Callable[[], None] = lambda: None
        self.look()

    @property
    def on(self) -> bool:
        """Nothing may be written."""
        return self._by_map or self._by_file

    @property
    def told(self) -> str:
        """By what; "": it is off."""
        if self._by_file:
            return f"stopped by the file {self._file}"
        return f"stopped by ConfigMap {'/'.join(self._name)}" if self._by_map else ""

    def subscribe(self, hear: Callable[[], None]) -> None:
        """Called when it is turned."""
        self._hear = hear

    def hear(self, change: Change) -> None:
        """What becomes of ConfigMaps."""
        metadata = change.object["metadata"]
        if (metadata.get("namespace"), metadata["name"]) != self._name:
            return
        data = {} if change.type == "DELETED" else change.object.get("data") or {}
        self._turn(by_map=str(data.get(KEY, "")).strip().lower() in _YES, by_file=self._by_file)

    def look(self) -> None:
        """Whether the file is there."""
        if self._file is None:
            return
        try:
            self._file.stat()
            there = True
        except FileNotFoundError:
            there = False
        except OSError:
            there = True  # who cannot see the switch does not go on
        self._turn(by_map=self._by_map, by_file=there)

    async def run(self) -> None:
        """Look at the file again and again, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def _turn(self, *, by_map: bool, by_file: bool) -> None:
        before = self.on
        self._by_map, self._by_file = by_map, by_file
        if self.on != before:
            _log.warning("%s", self.told or "the kill switch is off: going on")
            self._hear()
