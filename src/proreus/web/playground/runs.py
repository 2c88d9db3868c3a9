"""The playground's runs: who waits, who plays, what came of it; all of it bounded.

A few processes play, one run each at a time, for so long and no longer; one that is late or takes too much
memory is killed (`workers.child_process`), and its run has failed. What was played is kept for a while, and
who asks for the same again gets it at once.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from proreus.model.errors import ProreusError
from proreus.workers.child_process import ChildLate, ChildPhase, ChildProcess

TARGET = "proreus.web.playground.worker:main"
State = Literal["waiting", "running", "done", "failed"]


@dataclass(frozen=True)
class PlaygroundLimits:
    """What visitors may ask of it."""

    processes: int = 2
    waiting: int = 8
    """Runs that wait for a process."""
    each: int = 4
    """Of one client that wait or play."""
    seconds: float = 600.0
    """That a run may take; where kernels are compiled first, that is most of it."""
    answer_bytes: int = 16 * 1024 * 1024
    kept_bytes: int = 64 * 1024 * 1024
    """Of what was played."""


class Crowded(ProreusError):
    """No more runs are taken just now."""


@dataclass
class PlaygroundRun:
    """One run."""

    id: str
    client: str
    state: State = "waiting"
    why: str = ""
    """It failed."""
    answer: bytes = field(default=b"", repr=False)
    """JSON, once it is done."""


Ask = Callable[[bytes], bytes]
"""A question to a process; a ProreusError where there is no answer."""


class PlaygroundProcess:
    """A process that is started when it is first asked, and again after it was killed."""

    def __init__(self, limits: PlaygroundLimits) -> None:
        self._limits = limits
        self._process: ChildProcess | None = None

    def ask(self, question: bytes) -> bytes:
        """The answer, within the limits."""
        if self._process is None or not self._process.alive:
            self._process = ChildProcess(TARGET, "the playground")
            self._process.boot()
        answers: list[bytes] = []
        limits = self._limits
        late = f"took more than {limits.seconds:g} s, and was ended"
        try:
            self._process.ask(
                lambda: question, ChildPhase(limits.seconds, limits.answer_bytes, answers.append, late)
            )
        except ChildLate as error:
            raise ProreusError(str(error)) from error
        return answers[0]

    def end(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.end()


class Playground:
    """See the module."""

    def __init__(self, limits: PlaygroundLimits | None = None) -> None:
        self._limits = limits or PlaygroundLimits()
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, PlaygroundRun] = OrderedDict()
        self._kept = 0
        self._ended = False
        self._processes: list[PlaygroundProcess] = []
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(self._limits.processes, "playground", self._settle)

    def _settle(self) -> None:
        """A thread has a process of its own."""
        self._own.process = PlaygroundProcess(self._limits)
        self._processes.append(self._own.process)

    def catalogue(self) -> PlaygroundRun:
        """What can be played: asked of a process once, as if it were a run."""
        return self.start({"do": "catalogue"}, "")

    def start(self, question: dict[str, Any], client: str) -> PlaygroundRun:
        """Have it played, or find what came of the same before; `Crowded`."""
        asked = json.dumps(question, sort_keys=True).encode()
        name = hashlib.sha256(asked).hexdigest()[:24]
        with self._lock:
            known = self._runs.get(name)
            if known is not None and known.state != "failed":
                self._runs.move_to_end(name)
                return known
            unfinished = [run for run in self._runs.values() if run.state in ("waiting", "running")]
            if sum(run.client == client for run in unfinished) >= self._limits.each:
                raise Crowded(f"{self._limits.each} runs of yours are under way; wait for one of them")
            if sum(run.state == "waiting" for run in unfinished) >= self._limits.waiting:
                raise Crowded("too many runs wait already; try again")
            run = self._runs[name] = PlaygroundRun(name, client)
        self._pool.submit(self._play, run, asked)
        return run

    def find(self, name: str) -> PlaygroundRun | None:
        """The run of that id, as long as it is kept."""
        with self._lock:
            return self._runs.get(name)

    def _play(self, run: PlaygroundRun, asked: bytes) -> None:
        run.state = "running"
        try:
            answer = self._ask(asked)
            refused = json.loads(answer).get("refused")
            if refused:
                raise ProreusError(str(refused))
        except ProreusError as error:
            run.why, run.state = str(error), "failed"
            return
        run.answer, run.state = answer, "done"
        self._keep_few(len(answer))

    def _keep_few(self, more: int) -> None:
        """Forget what was asked for longest ago."""
        with self._lock:
            self._kept += more
            for name in [name for name, run in self._runs.items() if run.state in ("done", "failed")]:
                if self._kept <= self._limits.kept_bytes and len(self._runs) <= 4 * self._limits.waiting:
                    break
                self._kept -= len(self._runs.pop(name).answer)

    def _ask(self, question: bytes) -> bytes:
        if self._ended:
            raise ProreusError("the server ends")
        process: PlaygroundProcess = self._own.process
        return process.ask(question)

    def close(self) -> None:
        """End whatever plays."""
        self._ended = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.end()
