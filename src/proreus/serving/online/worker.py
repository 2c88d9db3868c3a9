"""The online learner's work: reads the logs, improves the live model, judges, publishes.

It keeps its place beside the logs (`progress`). Killed at any moment it goes on from there; at worst it
learns from the same records twice. However much has piled up, it has a bounded part of it in memory.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from proreus.log.protocol import LogPlace
from proreus.model.errors import UsageError, WorkError
from proreus.model.experience import Experience
from proreus.policies.checkpoint import Checkpoint
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.experience_log import ExperienceReader
from proreus.serving.online.off_policy_evaluation import (
    NOT_TOLD_APART,
    GateSettings,
    ReplayVerdict,
    judge,
    usable,
)
from proreus.serving.online.progress import Position, Progress, read_progress, write_progress
from proreus.serving.online.report_limits import Origin, Pile, UsualRewards, fair
from proreus.worlds.pods.policies.vector.model import Candidate, Weights, model_of

Improve = Callable[[Weights, Sequence[Experience], Mapping[str, Any]], Candidate]
_MOST_WAITING = 64  # batches that wait to be learned from, at most
_MOST_BYTES = 128 << 20  # of states that wait, and of states that are judged by
_REPORT_SHARE = 8  # one report has at most this part of the replay
_MOST_TRIES = 3  # rounds with the same records, none of which ended
_REMEMBER_SECONDS = 5.0  # at most so much is read again after a kill where nothing could be learned
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """What a worker is told at its start; see `OnlineSettings` and `Places`."""

    store: Path
    name: str
    experience: Path
    logs: tuple[LogPlace, ...]
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
    """Decisions start..end-1 of a record; a copy, so that they do not hold on to the rest."""
    s = slice(start, end)
    return replace(
        record,
        states=record.states[s].copy(),
        actions=record.actions[s].copy(),
        rewards=record.rewards[s].copy(),
        dones=record.dones[s].copy(),
        log_probs=record.log_probs[s].copy(),
        greedy=record.greedy[s].copy(),
        masks=None if record.masks is None else record.masks[s].copy(),
    )


def _earn_differently(stretches: Sequence[Experience]) -> bool:
    """Whether rewards, or the ends of episodes, tell decisions apart at all."""
    full = [stretch for stretch in stretches if len(stretch)]
    rewards = {float(end) for stretch in full for end in (stretch.rewards.min(), stretch.rewards.max())}
    ends = {bool(end) for stretch in full for end in (stretch.dones.min(), stretch.dones.max())}
    return len(rewards) > 1 or len(ends) > 1


class _Tail:
    """One log, followed from where learning stands in it."""

    def __init__(self, place: LogPlace, name: str, position: Position) -> None:
        self.name, self.next = name, position.next
        since = min(position.next, position.replay_from)
        self._reader = ExperienceReader(place.reader(name, since), since)
        self._records: Iterator[tuple[int, Experience]] | None = None
        self._complaint = ""

    def records(self, decisions: int) -> Iterator[tuple[int, Experience]]:
        """What is new, up to about so many decisions; the next call goes on where this one stopped."""
        if self._records is None:
            self._records = self._reader.poll()
        try:
            for number, record in self._records:
                yield number, record
                decisions -= max(len(record), 1)
                if decisions <= 0:
                    return
        except WorkError as error:  # a disk or a store that does not answer: what it has stays there
            if str(error) != self._complaint:
                _log.warning("%s; trying again", error)
            self._complaint = str(error)
        self._records = None

    @property
    def behind(self) -> bool:
        """Whether there is more to be had at once."""
        return self._records is not None

    def close(self) -> None:
        """Let go of the log."""
        self._records = None
        self._reader.close()


def _without_what_kills(progress: Progress) -> Progress:
    """Past the records with which round after round ended the process: the next one would too."""
    if progress.tries < _MOST_TRIES:
        return progress
    _log.error("%d rounds with the same records ended the learner: they are passed over", progress.tries)
    past = {name: replace(p, next=max(p.next, p.reached)) for name, p in progress.positions.items()}
    return Progress(past, progress.rounds)


class Worker:
    """The worker's work, apart from its process: `take` records, `learn` when there are enough."""

    def __init__(self, job: Job, improve: Improve) -> None:
        self.job = job
        self._improve = improve
        self._store = ModelStore(job.store)
        self._progress = _without_what_kills(read_progress(job.experience))
        self._remembered = time.monotonic()
        self._tails: dict[str, _Tail] = {}
        self._usual = UsualRewards()
        self.train = self._nothing()
        self.held = Pile(job.replay, _MOST_BYTES)
        self._of_one_report = max(job.replay // _REPORT_SHARE, job.block)  # decisions in the replay
        self.oldest: float | None = None
        self.unusable = 0
        self._teaching = 0  # usable decisions since the last round
        self._learning: tuple[int, Weights] | None = None
        """The live version and what was learned since, where the replay cannot tell the two apart yet."""

    @property
    def queue(self) -> int:
        """Decisions that wait to be learned from."""
        return self.train.decisions

    def _nothing(self) -> Pile:
        """A service that decides greedily reports much and teaches nothing: the oldest of it is let go."""
        return Pile(_MOST_WAITING * self.job.batch_size, _MOST_BYTES)

    @property
    def behind(self) -> bool:
        """Whether more records wait than were taken in."""
        return any(tail.behind for tail in self._tails.values())

    def take(self) -> bool:
        """Take in new records, a bounded number at a time; whether there were any."""
        found = False
        for place in self.job.logs:
            for name in place.names():
                if name not in self._tails:
                    self._tails[name] = _Tail(place, name, self._progress.of(name))
        each = _MOST_WAITING * self.job.batch_size // len(self._tails) + 1
        for tail in self._tails.values():
            for number, record in tail.records(each):
                found = True
                self._take_one(tail, number, record)
        if found and time.monotonic() - self._remembered > _REMEMBER_SECONDS:
            self.remember()
        return found

    def _take_one(self, tail: _Tail, number: int, record: Experience) -> None:
        origin = Origin(tail.name, record.report, number)
        train, held = cut(number, record, self.job.block, self.job.hold_out_every)
        self._usual.add(origin.of_report, record.rewards)
        for stretch in held:
            if self.held.of_report(origin) < self._of_one_report:
                self.held.add(origin, stretch)
        if number < tail.next:
            return  # learned from before a restart
        tail.next = number + 1
        for stretch in train:
            self.train.add(origin, stretch)
        teaching = int(usable(record).sum())
        self._teaching += teaching
        self.unusable += len(record) - teaching
        if self.oldest is None and self.queue:
            self.oldest = time.time()

    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return self._teaching >= self.job.batch_size and self.queue > 0

    def learn(self) -> dict[str, Any]:
        """One round: improve, judge, publish, keep as rejected, or go on with it in the next round where it
        cannot be told apart from what is live. What was learned from is let go."""
        self._progress = replace(self._progress, tries=self._progress.tries + 1)
        self.remember()
        waiting, self.train, self.oldest, self._teaching = self.train, self._nothing(), None, 0
        try:
            return self._round(waiting)
        finally:
            self._progress = replace(self._progress, rounds=self._progress.rounds + 1, tries=0)
            self.remember()

    def _round(self, waiting: Pile) -> dict[str, Any]:
        begin = time.perf_counter()
        usual = self._usual.range()
        train = [usual.clipped(stretch) for _, stretch in fair(waiting, self.job.batch_size)]
        parent = self._store.current(self.job.name)
        before = self._store.checkpoint(self.job.name, parent)
        live = model_of(before.card.kind, before.tensors, self.job.store)
        train = [stretch for stretch in train if self._fits(live, stretch)]
        if not _earn_differently(train):
            return {
                "version": parent,
                "parent": parent,
                "accepted": False,
                "reason": "every decision earned the same: there is nothing to learn",
                "figures": {},
                "decisions": sum(map(len, train)),
                "seconds": time.perf_counter() - begin,
            }
        start = Weights(before.card.kind, before.tensors)
        if self._learning is not None and self._learning[0] == parent:
            start = self._learning[1]  # it could not be told apart so far: it goes on learning
        candidate = self._improve(start, train, self.job.learner)
        model = model_of(candidate.parameters.kind, candidate.parameters.tensors, self.job.store)
        fitting = [(at, stretch) for at, stretch in self.held if self._fits(model, stretch)]
        judged = fair(fitting, self._of_one_report)
        reports = {at.of_report: k for k, (at, _) in enumerate(judged)}
        verdict = judge(
            live,
            model,
            [usual.clipped(stretch) for _, stretch in judged],
            self.job.gate,
            [reports[at.of_report] for at, _ in judged],
        )
        self._learning, version = None, parent
        if verdict.reason.startswith(NOT_TOLD_APART):
            self._learning = (parent, candidate.parameters)
        else:
            version = self._publish(before, candidate, verdict, parent)
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

    def _publish(self, before: Checkpoint, candidate: Candidate, verdict: ReplayVerdict, parent: int) -> int:
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

    def close(self) -> None:
        """Let go of the logs."""
        for tail in self._tails.values():
            tail.close()

    def remember(self) -> None:
        """Keep the place in each log: before it, everything was learned from or let go."""
        positions = dict(self._progress.positions)
        for name, tail in self._tails.items():
            waiting, judged = self.train.first(name), self.held.first(name)
            next_ = tail.next if waiting is None else waiting
            replay_from = next_ if judged is None else min(judged, next_)
            positions[name] = Position(next_, replay_from, tail.next)
        self._progress = replace(self._progress, positions=positions)
        self._remembered = time.monotonic()
        try:
            write_progress(self.job.experience, self._progress)
        except WorkError as error:
            _log.warning("the learner's place is not kept: %s", error)
