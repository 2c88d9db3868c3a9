"""Which version of a stored model is live: listing, promoting, rolling back, and following the store.

The store on disk says which version is live; the service holds that version in memory. `follow` brings the
second in line with the first. A version that turns out damaged is never swapped in: the last good one stays.
"""

from __future__ import annotations

import logging
import threading

from proreus.model.errors import InputError, ProreusError, UsageError
from proreus.serving.core import DecisionService
from proreus.serving.models.versions import ModelStore
from proreus.serving.values import ModelsAnswer, Refusal, Refused, SwapAnswer
from proreus.serving.version import VersionAnswer

_POLL_SECONDS = 0.5
_log = logging.getLogger(__name__)


class LiveVersions:
    """The versions of one stored model, and the service that answers with the live one."""

    def __init__(self, store: ModelStore, name: str, service: DecisionService) -> None:
        self.store, self.name, self._service = store, name, service
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._damaged = 0

    def all(self) -> ModelsAnswer:
        """Every version, oldest first."""
        return ModelsAnswer(self.name, self._service.version, self.store.versions(self.name))

    def one(self, version: int) -> VersionAnswer:
        """What is known of a version."""
        try:
            return self.store.record(self.name, version)
        except UsageError as error:
            raise Refused(Refusal.NOT_FOUND, str(error), "version") from error
        except InputError as error:
            raise Refused(Refusal.CONFLICT, str(error), "version") from error

    def knows(self, version: int) -> bool:
        """Whether there is such a version."""
        try:
            self.store.record(self.name, version)
        except ProreusError:
            return False
        return True

    def promote(self, version: int) -> SwapAnswer:
        """Make a version live, here and in the store; one that is damaged or does not fit is refused."""
        self.one(version)
        with self._lock:
            before = self._service.version
            try:
                self._check_fits(version)
                self.store.promote(self.name, version)
            except (InputError, UsageError) as error:
                raise self._kept(error, before) from error
        self.follow()
        return SwapAnswer(self._service.version, before)

    def rollback(self) -> SwapAnswer:
        """Make the version live again that was live before this one."""
        with self._lock:
            before = self._service.version
            try:
                self.store.rollback(self.name)
            except (InputError, UsageError) as error:
                raise self._kept(error, before) from error
        self.follow()
        return SwapAnswer(self._service.version, before)

    def follow(self) -> None:
        """Answer with the version that the store calls live; stay with the last good one otherwise."""
        with self._lock:
            version = 0
            try:
                version = self.store.current(self.name)
                if version not in (self._service.version, self._damaged):
                    self._service.swap(version, self.store.load(self.name, version))
                    _log.info("version %d is live", version)
            except (ProreusError, Refused) as error:
                self._damaged = version
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
