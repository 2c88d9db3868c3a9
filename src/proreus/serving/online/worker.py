"""The online learner's process: reads the log, improves the live model, judges, publishes.

It keeps its place in `learner.json` beside the log: which record comes next, and from which one on the
held-out replay reaches back. Killed at any moment it goes on from there; at worst it learns from the same
records twice.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from proreus.model.errors import ProreusError, UsageError
from proreus.model.experience import Experience
from proreus.model.files import write_atomically
from proreus.policies.checkpoint import Checkpoint
from proreus.serving.models.versions import ModelStore
from proreus.serving.online.gate import GateSettings, Verdict, judge, usable
from proreus.serving.online.log import LogReader
from proreus.worlds.pods.policies.vector.model import Candidate, Weights, model_of

Improve = Callable[[Weights, Sequence[Experience], Mapping[str, Any]], Candidate]
PROGRESS = "learner.json"
_MOST_WAITING = 64  # batches that wait to be learned from, at most
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """What a worker is told at its start; see `OnlineSettings` and `Places`."""

    store: Path
    name: str
    log: Path
    improve: str
    batch_size: int
    hold_out_every: int
    block: int
    replay: int
    keep: int
    poll_seconds: float
    niceness: int
    gate: GateSettings
    learner: dict[str, Any] = field(default_factory=dict)


def find_improve(dotted: str) -> Improve:
    """The function behind "package.module:function"."""
    module, _, name = dotted.partition(":")
    try:
        found: Improve = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"the learner {dotted!r} cannot be loaded: {error}") from error
    return found


def cut(number: int, record: Experience, block: int, every: int) -> tuple[list[Experience], list[Experience]]:
    """(stretches to learn from, stretches held out) of a record.

    A record is taken in blocks of consecutive decisions. Which of them are held out follows from the
    record's number and theirs alone, so that it is the same after a restart.
    """
    size = len(record)
    edges = [*range(0, max(size - block // 2, 1), block), size]
    train: list[Experience] = []
    held: list[Experience] = []
    start = 0
    for k in range(len(edges) - 1):
        if (number + k) % every == every - 1:
            if start < edges[k]:
                train.append(piece(record, start, edges[k]))
            held.append(piece(record, edges[k], edges[k + 1]))
            start = edges[k + 1]
    if start < size:
        train.append(piece(record, start, size))
    return train, held


def piece(record: Experience, start: int, end: int) -> Experience:
    """Decisions start..end-1 of a record."""
    s = slice(start, end)
    return replace(
        record,
        states=record.states[s],
        actions=record.actions[s],
        rewards=record.rewards[s],
        dones=record.dones[s],
        log_probs=record.log_probs[s],
        greedy=record.greedy[s],
        masks=None if record.masks is None else record.masks[s],
    )


class Worker:
    """The worker's work, apart from its process: `take` records, `learn` when there are enough."""

    def __init__(self, job: Job, improve: Improve) -> None:
        self.job = job
        self._improve = improve
        self._store = ModelStore(job.store)
        self._progress = job.log / PROGRESS
        self._next, replay_from = self._read_progress()
        self._reader = LogReader(job.log, replay_from)
        self.train: list[Experience] = []
        self.held: deque[tuple[int, Experience]] = deque()
        self.oldest: float | None = None
        self.unusable = 0
        self._teaching = 0  # usable decisions since the last round

    def _read_progress(self) -> tuple[int, int]:
        try:
            entries = json.loads(self._progress.read_bytes())
            return int(entries["next"]), int(entries["replay_from"])
        except FileNotFoundError:
            return 0, 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s cannot be read (%s): learning starts at the first record", self._progress, error)
            return 0, 0

    @property
    def queue(self) -> int:
        """Decisions that wait to be learned from."""
        return sum(map(len, self.train))

    def take(self) -> bool:
        """Take in new records; whether there were any."""
        found = False
        for number, record in self._reader.poll():
            found = True
            train, held = cut(number, record, self.job.block, self.job.hold_out_every)
            self.held.extend((number, stretch) for stretch in held)
            if number < self._next:
                continue  # learned from before a restart
            self.train.extend(train)
            self._next = number + 1
            teaching = int(usable(record).sum())
            self._teaching += teaching
            self.unusable += len(record) - teaching
            if self.oldest is None and self.train:
                self.oldest = time.time()
        kept = sum(len(stretch) for _, stretch in self.held)
        while self.held and kept - len(self.held[0][1]) >= self.job.replay:
            kept -= len(self.held.popleft()[1])
        # A service that decides greedily reports much and teaches nothing: the oldest of it is let go.
        waiting = self.queue
        while len(self.train) > 1 and waiting > _MOST_WAITING * self.job.batch_size:
            waiting -= len(self.train.pop(0))
        return found

    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return self._teaching >= self.job.batch_size and bool(self.train)

    def learn(self) -> dict[str, Any]:
        """One round: improve, judge, publish or keep as rejected. What was learned from is let go."""
        begin = time.perf_counter()
        train, self.train, self.oldest, self._teaching = self.train, [], None, 0
        parent = self._store.current(self.job.name)
        before = self._store.checkpoint(self.job.name, parent)
        live = model_of(before.card.kind, before.tensors, self.job.store)
        candidate = self._improve(Weights(before.card.kind, before.tensors), train, self.job.learner)
        model = model_of(candidate.parameters.kind, candidate.parameters.tensors, self.job.store)
        same_size = [stretch for _, stretch in self.held if self._fits(model, stretch)]
        verdict = judge(live, model, same_size, self.job.gate)
        version = self._publish(before, candidate, verdict, parent)
        self._remember()
        return {
            "version": version,
            "parent": parent,
            "accepted": verdict.accepted,
            "reason": verdict.reason,
            "figures": {**candidate.figures, **verdict.figures()},
            "decisions": sum(map(len, train)),
            "seconds": time.perf_counter() - begin,
        }

    def _fits(self, model: Any, stretch: Experience) -> bool:
        return model.accepts(stretch.states.shape[1], stretch.actions_dim) is None

    def _publish(self, before: Checkpoint, candidate: Candidate, verdict: Verdict, parent: int) -> int:
        card = replace(
            before.card,
            algorithm="ppo, online",
            steps=before.card.steps + int(candidate.figures.get("decisions", 0)),
            scores={name: value for name, value in verdict.figures().items() if np.isfinite(value)},
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )
        checkpoint = Checkpoint(card, dict(candidate.parameters.tensors))
        name = self.job.name
        version = self._store.add(name, checkpoint, verdict.reason, parent, rejected=not verdict.accepted)
        # Someone may have promoted or rolled back meanwhile: their choice stands.
        if verdict.accepted and self._store.current(name) == parent:
            self._store.promote(name, version)
        self._store.gc(name, self.job.keep)
        return version

    def _remember(self) -> None:
        replay_from = min((number for number, _ in self.held), default=self._next)
        content = json.dumps({"next": self._next, "replay_from": min(replay_from, self._next)}) + "\n"
        write_atomically(self._progress, content.encode())


def run_worker(job: Job, pipe: Connection) -> None:
    """The worker's process: until it is told to stop, or until the service is gone."""
    os.nice(job.niceness)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # the service needs the cores more
    try:
        worker = Worker(job, find_improve(job.improve))
        _serve(worker, pipe)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the service is gone or going


def _serve(worker: Worker, pipe: Connection) -> None:
    stopping = False
    pipe.send(_said(worker, "waiting"))
    while True:
        if worker.take():
            pipe.send(_said(worker, "waiting"))
        if worker.ready():
            pipe.send(_said(worker, "learning"))
            try:
                last = worker.learn()
            except ProreusError as error:
                pipe.send({**_said(worker, "waiting"), "one_rounds": True, "failure": str(error)})
            except Exception:  # noqa: BLE001  a learner is somebody else's code: say what broke, go on serving
                pipe.send(
                    {
                        **_said(worker, "waiting"),
                        "one_rounds": True,
                        "failure": traceback.format_exc(limit=-2),
                    }
                )
            else:
                kind = "one_accepted" if last["accepted"] else "one_rejected"
                pipe.send(
                    {**_said(worker, "waiting"), "one_rounds": True, kind: True, "last": last, "failure": ""}
                )
            continue
        if stopping:
            return
        stopping = pipe.poll(worker.job.poll_seconds) and pipe.recv() == "stop"


def _said(worker: Worker, state: str) -> dict[str, Any]:
    return {"state": state, "queue": worker.queue, "oldest": worker.oldest, "unusable": worker.unusable}
