"""Which of the processes that serve one model learns: the one that holds a lock; another follows it.

Every process logs what is reported to it and serves the version that the store calls live. One of
them learns from all logs. When it ends, be it by kill -9, the system lets go of its lock and the next one
takes over where the progress file says learning stands.
"""

from __future__ import annotations

import fcntl
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from proreus.model.files import open_private, sweep_temporary
from proreus.serving.online.experience_log import ExperienceLog
from proreus.serving.online.learner import LearnerStatus, OnlineLearner
from proreus.serving.online.progress import read_progress

_LOCK = ".learning"
_POLL_SECONDS = 0.5
_log = logging.getLogger(__name__)


class LearnerLock:
    """This process' part in learning. `start`, then `status` at any time, then `stop`."""

    def __init__(
        self, experience: Path, log: ExperienceLog, new_learner: Callable[[], OnlineLearner]
    ) -> None:
        """experience: the folder where the learner keeps its place; log: the one that this process writes."""
        self._experience, self._log = experience, log
        self._new_learner = new_learner
        self._rounds_before = read_progress(experience).rounds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock: BinaryIO | None = None
        self._learner: OnlineLearner | None = None
        self._rounds_elsewhere = 0  # that ended since this process' start and before it learned
        self._complaint = ""

    def start(self) -> None:
        """Learn, or wait until it is this process' turn."""
        self._try_to_lead()
        self._thread = threading.Thread(target=self._wait_for_turn, name="succession", daemon=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns."""
        return self._learner is not None

    def status(self) -> LearnerStatus:
        """How learning stands, here or elsewhere; rounds count from this process' start on."""
        learner = self._learner
        if learner is not None:
            now = learner.status()
            return replace(now, rounds=now.rounds + self._rounds_elsewhere)
        progress = read_progress(self._experience)
        return LearnerStatus(
            state="elsewhere",
            queue=self._log.steps_since(progress.of(self._log.name).next),
            rounds=max(0, progress.rounds - self._rounds_before),
        )

    def stop(self, timeout: float) -> None:
        """Let the learner end, if it is here, and let go."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._learner is not None:
            self._learner.stop(timeout)
        if self._lock is not None:
            self._lock.close()

    def _wait_for_turn(self) -> None:
        while not self.leads and not self._stopping.wait(_POLL_SECONDS):
            self._try_to_lead()

    def _try_to_lead(self) -> None:
        lock = None
        try:
            lock = open_private(self._experience / _LOCK, "ab")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            assert lock is not None
            lock.close()
            return
        except OSError as error:
            self._complain(error)
            return
        try:
            sweep_temporary(self._experience)
            self._rounds_elsewhere = max(0, read_progress(self._experience).rounds - self._rounds_before)
            learner = self._new_learner()
            learner.start()
        except Exception as error:  # noqa: BLE001 - serving goes on, and the turn comes again
            lock.close()
            self._complain(error)
            return
        self._lock, self._learner = lock, learner
        _log.info("this process learns from what is reported to all that serve the model")

    def _complain(self, error: Exception) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            _log.warning("nothing learns here yet: %s", error)
