"""Online learning beside the service: a process of its own learns from the log and publishes versions.

`OnlineLearner` is the service's end: it spawns the worker (`worker_process`), watches it, starts it again
when it dies, and calls back when another version has become live, be it by the worker or by `proreus models
promote`. What improves the model is handed in by its dotted name, since serving knows no learner:

    improve(parameters: Weights, experiences: Sequence[Experience], settings: Mapping) -> Candidate
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from proreus.log.protocol import LogPlace
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.off_policy_evaluation import GateSettings
from proreus.serving.online.worker import Job
from proreus.serving.online.worker_process import run_worker

_log = logging.getLogger(__name__)
_TICK = 0.1
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LEAST_LIFE = 60.0  # a worker that lived this long did not die of its start


@dataclass(frozen=True)
class OnlineSettings:
    """How the online learner works."""

    batch_size: int = 64
    """Drawn decisions with a known chance that an update waits for; those held out count."""
    hold_out_every: int = 4
    """Of so many blocks of consecutive decisions, one is kept for judging and never learned from."""
    block: int = 16
    """Decisions of a block."""
    replay: int = 2048
    """Newest held-out decisions that candidates are judged by."""
    keep: int = 100
    """Newest versions that stay in the store, besides the live one and the one to roll back to."""
    poll_seconds: float = 0.2
    """How often the worker looks for new records."""
    niceness: int = 10
    """How far the worker stands back for the service, as `nice` counts."""
    gate: GateSettings = field(default_factory=GateSettings)
    learner: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the injected learner, by name."""


@dataclass(frozen=True)
class Places:
    """Where the learner finds things."""

    store: Path
    name: str
    """Of the model in the store."""
    experience: Path
    """The folder where the learner keeps its place."""
    logs: tuple[LogPlace, ...]
    """Where experience is; names of logs are their own among all."""


@dataclass(frozen=True)
class LearnerStatus:
    """How online learning stands, for /health and the metrics."""

    state: str = "starting"
    """"starting", "waiting" for experience, "learning", "restarting", "stopped", or "elsewhere"."""
    queue: int = 0
    """Decisions that wait to be learned from."""
    lag_seconds: float = 0.0
    """How long the oldest of them has waited; 0 where none does."""
    rounds: int = 0
    """Updates tried since the service started."""
    accepted: int = 0
    rejected: int = 0
    unusable: int = 0
    """Decisions that were taken greedily or without a known chance: they teach the value alone."""
    restarts: int = 0
    """How often the worker died and was started again."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """The last update: version, accepted, reason, figures, seconds."""
    failure: str = ""
    """Why the last update or the last worker failed."""


class OnlineLearner:
    """Starts and watches the worker. `start`, then `status` at any time, then `stop`."""

    def __init__(
        self,
        places: Places,
        improve: str,
        settings: OnlineSettings | None = None,
        on_new_version: Callable[[int], None] | None = None,
    ) -> None:
        """`improve` is "package.module:function"."""
        self._places, self._improve = places, improve
        self.settings = settings or OnlineSettings()
        self._on_new_version = on_new_version
        self._store = ModelStore(places.store)
        self._known = 0
        self._status = LearnerStatus()
        self._oldest: float | None = None
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None
        self._context = multiprocessing.get_context("spawn")
        self._patience = 0.0  # seconds, once it is to stop
        self._has_begun = False  # the worker has said something
        self._pipe: Connection | None = None
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Spawn the worker; returns at once."""
        self._watcher = threading.Thread(target=self._watch, name="online-learner", daemon=True)
        self._watcher.start()

    def status(self) -> LearnerStatus:
        """How learning stands now."""
        with self._guard:
            lag = 0.0 if self._oldest is None else max(0.0, time.time() - self._oldest)
            return replace(self._status, lag_seconds=lag)

    def stop(self, timeout: float = 30.0) -> None:
        """Let the worker learn from what is ready and end; past the timeout it is ended."""
        self._patience = timeout
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()
        self._look()
        self._set(state="stopped")

    def _spawn(self) -> None:
        ours, theirs = self._context.Pipe()
        job = Job(
            store=self._places.store,
            name=self._places.name,
            experience=self._places.experience,
            logs=self._places.logs,
            improve=self._improve,
            batch_size=self.settings.batch_size,
            hold_out_every=self.settings.hold_out_every,
            block=self.settings.block,
            replay=self.settings.replay,
            keep=self.settings.keep,
            poll_seconds=self.settings.poll_seconds,
            niceness=self.settings.niceness,
            gate=self.settings.gate,
            learner=dict(self.settings.learner),
        )
        process = self._context.Process(
            target=run_worker, args=(job, theirs), name="proreus-learner", daemon=True
        )
        process.start()
        theirs.close()
        self._pipe, self._process, self._has_begun = ours, process, False

    def _watch(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._stopping.is_set():
            born = time.monotonic()
            said = self._one_life()
            if self._stopping.is_set():
                return
            if time.monotonic() - born > _LEAST_LIFE:
                pause = _SHORTEST_PAUSE
            _log.warning("%s; it is started again in %.1f s", said, pause)
            with self._guard:
                restarts = self._status.restarts + 1
            self._set(state="restarting", failure=said, restarts=restarts)
            self._stopping.wait(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _one_life(self) -> str:
        """A worker from its start to its end; why it ended."""
        try:
            self._spawn()
        except OSError as error:
            return f"the learner's process cannot be started: {error}"
        process = self._process
        assert process is not None
        while process.is_alive() and not self._stopping.is_set():
            self._listen()
            self._look()
        if process.is_alive():
            self._end(process)
        self._listen()
        return f"the learner's process ended with code {process.exitcode}"

    def _end(self, process: BaseProcess) -> None:
        """Tell it to stop, wait; one that has not begun has nothing to end."""
        deadline = time.monotonic() + (self._patience if self._has_begun else 0.0)
        if self._has_begun and self._pipe is not None:
            with contextlib.suppress(OSError):  # it may have died already
                self._pipe.send("stop")
        while process.is_alive() and time.monotonic() < deadline:
            self._listen()
            self._look()
        if process.is_alive():
            if self._has_begun:
                _log.warning("the online learner did not end within %.0f s and is killed", self._patience)
            process.kill()
        process.join()

    def _listen(self) -> None:
        """Take in what the worker says."""
        pipe = self._pipe
        assert pipe is not None
        try:
            while pipe.poll(_TICK):
                message: dict[str, Any] = pipe.recv()
                self._has_begun = True
                self._oldest = message.pop("oldest", self._oldest)
                for name in ("rounds", "accepted", "rejected"):
                    if message.pop(f"one_{name}", False):
                        message[name] = getattr(self._status, name) + 1
                self._set(**message)
        except (EOFError, OSError):
            time.sleep(_TICK)  # it is ending; the caller looks whether it has

    def _look(self) -> None:
        """Call back when another version is live than before."""
        try:
            live = self._store.current(self._places.name)
            if live != self._known and self._on_new_version is not None:
                self._on_new_version(live)
            self._known = live
        except Exception as error:  # noqa: BLE001 - whatever is in the store, the watch goes on
            self._set(failure=str(error))

    def _set(self, **changes: Any) -> None:
        with self._guard:
            self._status = replace(self._status, **changes)
