"""Which version of a stored model is live: listing, promoting, rolling back, and following the store.

The store on disk says which version is live; the service holds that version in memory. `follow` brings the
second in line with the first. A version that turns out damaged is never swapped in: the last good one stays.
"""

from __future__ import annotations

import logging
import threading
import time

from proreus.model.errors import InputError, ProreusError, UsageError
from proreus.serving.decision_service import DecisionService
from proreus.serving.messages import ModelsAnswer, Refusal, Refused, SwapAnswer
from proreus.serving.model_version import VersionAnswer
from proreus.serving.models.version_store import ModelStore

_POLL_SECONDS = 0.5
_AGAIN_SECONDS = 30.0
_log = logging.getLogger(__name__)


class LiveVersions:
    """The versions of one stored model, and the service that answers with the live one."""

    def __init__(self, store: ModelStore, name: str, service: DecisionService) -> None:
        self.store, self.name, self._service = store, name, service
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._damaged, self._again = -1, 0.0  # a version that could not be loaded, and when to try it again
        self._complaint = ""  # what was said last; it is said once

    def all(self) -> ModelsAnswer:
        """Every version, oldest first."""
        live = self._service.version
        return ModelsAnswer(self.name, live, self.store.versions(self.name, live))

    def one(self, version: int) -> VersionAnswer:
        """What is known of a version."""
        try:
            return self.store.record(self.name, version, self._service.version)
        except UsageError as error:
            raise Refused(Refusal.NOT_FOUND, str(error), "version") from error
        except InputError as error:
            raise Refused(Refusal.CONFLICT, str(error), "version") from error

    def knows(self, version: int) -> bool:
        """Whether there is such a version."""
        return self.store.has(self.name, version)

    def promote(self, version: int) -> SwapAnswer:
        """Make a version live, here and in the store; one that is damaged or does not fit is refused."""
        self.one(version)
        with self._lock:
            before = self._service.version
            try:
                self._check_fits(version)
                self.store.promote(self.name, version)
            except ProreusError as error:
                raise self._kept(error, before) from error
        self.follow()
        return SwapAnswer(self._service.version, before)

    def rollback(self) -> SwapAnswer:
        """Make the version live again that was live before this one."""
        with self._lock:
            before = self._service.version
            try:
                self.store.rollback(self.name)
            except ProreusError as error:
                raise self._kept(error, before) from error
        self.follow()
        return SwapAnswer(self._service.version, before)

    def follow(self) -> None:
        """Answer with the version that the store calls live; stay with the last good one otherwise."""
        with self._lock:
            version = 0
            try:
                version = self.store.current(self.name)
                known_bad = version == self._damaged and time.monotonic() < self._again
                if version != self._service.version and not known_bad:
                    self._service.swap(version, self.store.load(self.name, version))
                    _log.info("version %d is live", version)
                    self._complaint = ""
            except Exception as error:  # noqa: BLE001 - whatever is in the store, the watch goes on
                self._damaged, self._again = version, time.monotonic() + _AGAIN_SECONDS
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    self._service.measurements.count("proreus_swaps", result="failed")
                    _log.error("version %d keeps serving: %s", self._service.version, error)

    def follow_in_background(self) -> None:
        """Look now and then whether someone promoted a version through the store."""

        def watch() -> None:
            while not self._stopping.wait(_POLL_SECONDS):
                self.follow()

        threading.Thread(target=watch, name="versions", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._stopping.set()

    def _check_fits(self, version: int) -> None:
        dimensions = self._service.options.dimensions
        complaint = self.store.load(self.name, version).accepts(dimensions.state, dimensions.actions)
        if complaint:
            raise UsageError(complaint)

    def _kept(self, error: ProreusError, live: int) -> Refused:
        return Refused(Refusal.CONFLICT, f"{error}; version {live} keeps serving", "version")
