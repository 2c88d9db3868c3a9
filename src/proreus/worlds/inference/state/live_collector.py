"""The state collector of a real service: what a controller sees, from what replicas say of themselves.

It means the same as the collector of a simulation. What vLLM does not say is worked out: arrivals from ends
and requests under way, pending tokens from waiting requests and the usual prompt, instances that start from
what was asked for and does not serve yet. No clock and no network: readings come in, an observation goes out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import ScaleSteps
from proreus.worlds.inference.model.service import INTERACTIVE, ServiceClass
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.state.histograms import KEPT, Share
from proreus.worlds.inference.state.observation import Ability, InferenceObservation, PoolSeen, Traffic
from proreus.worlds.inference.state.replica_starts import ReplicaStarts
from proreus.worlds.inference.state.replicas import (
    Absent,
    Movement,
    PoolMovement,
    Reading,
    ReplicaSample,
    Unreadable,
    movement,
    since_start,
    sum_of,
)

HISTORY = 360
"""Intervals that a controller remembers."""
_LATE = 0.9
_USUAL_PROMPT = 1_000.0
"""Tokens, until prompts were seen."""
_WARM_SECONDS = 60.0
"""What a replica does in its first minute says nothing of what it can do."""
Readings = Mapping[str, Reading]
"""Of one pool, by replica."""


@dataclass(frozen=True)
class LiveOptions:
    """What is known of a service before anything is seen."""

    abilities: Mapping[Role, Ability]
    """Of each pool's replicas; its keys are the pools, in their order."""
    limits: Limits
    interval: float = 10.0
    scale_step: int = 5
    start_seconds: float = 120.0
    """Until starts were seen; what KEDA and the autoscaler take to act included."""
    promised: ServiceClass = INTERACTIVE

    @property
    def steps(self) -> ScaleSteps:
        """What a decision may change; replicas of two Deployments do not migrate."""
        return ScaleSteps(tuple(self.abilities), self.scale_step, 0)


@dataclass(frozen=True)
class LiveLook:
    """What was seen, and how well."""

    observation: InferenceObservation
    met: Share
    """Requests that were served as promised; its width is that of the buckets around the promise."""
    read: int
    """Replicas that could be read."""
    unreadable: tuple[str, ...]
    """Why others could not."""


@dataclass
class _Known:
    """A replica that has been read."""

    sample: ReplicaSample
    warm_at: float
    moved: Movement | None = None
    """What it did between the last two samples."""


class LiveCollector:
    """Looks at the pools of one service, again and again."""

    def __init__(self, options: LiveOptions) -> None:
        self._options = options
        self._known: dict[Role, dict[str, _Known]] = {role: {} for role in options.abilities}
        self._abilities = dict(options.abilities)
        self.starts = {role: ReplicaStarts(options.start_seconds) for role in options.abilities}
        self._wanted: dict[Role, int] = {}
        self._history: deque[tuple[float, float, float]] = deque(maxlen=HISTORY)
        self._prompt = _USUAL_PROMPT
        self._found = 0.0
        self._looked_at: float | None = None

    @property
    def has_looked(self) -> bool:
        """Whether there is a look to count from."""
        return self._looked_at is not None

    def ordered(self, now: float, wanted: Mapping[Role, int]) -> None:
        """So many replicas are asked for from now on."""
        self._wanted = dict(wanted)
        for role, count in wanted.items():
            self.starts[role].ordered(now, count)

    def look(self, now: float, readings: Mapping[Role, Readings], at_router: int = 0) -> LiveLook:
        """What is there now, and what has happened since the last look."""
        moved = {role: self._moved(role, now, readings.get(role, {})) for role in self._known}
        rates = {role: sum_of(movements) for role, movements in moved.items()}
        traffic, met = self._traffic(rates)
        if self.has_looked:  # before that no rate is known, and a service that begins at 0 looks like a rise
            self._history.append((traffic.requests, traffic.prompt_tokens, traffic.output_tokens))
        pools = tuple(self._pool(role, now) for role in self._known)
        self._looked_at = now
        unreadable = tuple(
            f"{name}: {reading.why}"
            for of_pool in readings.values()
            for name, reading in of_pool.items()
            if isinstance(reading, Unreadable)
        )
        samples = [one for of_pool in readings.values() for one in of_pool.values()]
        observation = InferenceObservation(
            now=now,
            interval=self._options.interval,
            pools=pools,
            traffic=traffic,
            history=np.array(self._history or [(0.0, 0.0, 0.0)]),
            at_router=at_router,
            total=sum(pool.coming + pool.draining for pool in pools),
            limits=self._options.limits,
            start_seconds=max(starts.seconds for starts in self.starts.values()),
            abilities=tuple(self._abilities.values()),
            steps=self._options.steps,
        )
        return LiveLook(
            observation, met, sum(isinstance(sample, ReplicaSample) for sample in samples), unreadable
        )

    def _moved(self, role: Role, now: float, readings: Readings) -> list[Movement]:
        """What replicas did since they were last read; who cannot be read is taken as it was."""
        known, found = self._known[role], []
        for name, reading in readings.items():
            match reading:
                case ReplicaSample():
                    before = known.get(name)
                    moved = self._since(reading, None if before is None else before.sample)
                    if moved is not None:
                        found.append(moved)
                    if before is None or (moved is not None and moved.began_anew):
                        first = self._looked_at is None  # who was there before anybody looked is warm
                        known[name] = _Known(reading, now if first else now + _WARM_SECONDS)
                    else:
                        if moved is not None and before.warm_at <= now - moved.seconds:
                            self._learn(role, moved)
                        before.sample = reading
                    known[name].moved = moved or known[name].moved
                case Absent():
                    known.pop(name, None)
                case Unreadable():
                    last = known[name].moved if name in known else None
                    if last is not None:  # its requests do not stop because nobody can count them
                        found.append(replace(last, ended=0.0))
        for name in known.keys() - readings.keys():
            del known[name]
        self.starts[role].looked(now, len(known))
        return found

    def _since(self, now: ReplicaSample, before: ReplicaSample | None) -> Movement | None:
        if before is None:  # it has come since the last look, or this is the first one
            return None if self._looked_at is None else since_start(now, now.at - self._looked_at)
        return movement(now, before) if now.at > before.at else None

    def _learn(self, role: Role, moved: Movement) -> None:
        """A warm replica that did more than was known can do more."""
        ability = self._abilities[role]
        self._abilities[role] = replace(
            ability,
            prompt_tokens=max(ability.prompt_tokens, moved.computed / moved.seconds),
            output_tokens=max(ability.output_tokens, moved.output_tokens / moved.seconds),
        )

    def _pool(self, role: Role, now: float) -> PoolSeen:
        samples = [one.sample for one in self._known[role].values()]
        starts = self.starts[role]
        # Which replicas are on their way out nobody says; that there are more than were asked for is known.
        draining = max(len(samples) - self._wanted.get(role, len(samples)), 0)
        waiting, running = (
            sum(sample.waiting for sample in samples),
            sum(sample.running for sample in samples),
        )
        prompts = 0.0 if role == "token" else sum(sample.prompts for sample in samples)
        pending = prompts * self._prompt + (waiting + running - prompts)
        return PoolSeen(
            role=role,
            active=len(samples) - draining,
            starting=starts.still_need(now),
            draining=draining,
            waiting=round(waiting),
            running=round(running),
            pending_tokens=round(pending),
            kv_use=sum(sample.kv_use for sample in samples) / len(samples) if samples else 0.0,
            busy=sum(sample.running > 0 for sample in samples) / len(samples) if samples else 0.0,
        )

    def _traffic(self, rates: Mapping[Role, PoolMovement]) -> tuple[Traffic, Share]:
        """Requests come to the first pool and leave from the last one."""
        first, last = next(iter(rates.values())), list(rates.values())[-1]
        if first.first_tokens > 0 and first.prompt_tokens > 0:
            self._prompt = first.prompt_tokens / first.first_tokens
        if first.found is not None:  # while no prompt begins, those that end were found as those before
            self._found = first.found
        promised = self._options.promised
        ttft = KEPT if first.ttft is None else first.ttft.share_within(promised.ttft)
        tbt = KEPT if last.tbt is None else last.tbt.share_within(promised.tbt)
        # Nobody says whether those late with the first token are those late with the others: the most that
        # can be true, and the least.
        met = Share(max(ttft.low + tbt.low - 1.0, 0.0), min(ttft.value, tbt.value), min(ttft.high, tbt.high))
        traffic = Traffic(
            requests=first.requests,
            prompt_tokens=first.requests * self._prompt,  # what is computed says nothing of what waits
            output_tokens=last.output_tokens,
            ended=round(last.ended),
            ttft=0.0 if first.ttft is None else first.ttft.mean,
            wait=0.0 if first.wait is None else first.wait.mean,
            met=met.value,
            ttft_slack=0.0 if first.ttft is None else first.ttft.quantile(_LATE) / promised.ttft,
            tbt_slack=0.0 if last.tbt is None else last.tbt.quantile(_LATE) / promised.tbt,
            met_width=met.width,
            found=self._found,
        )
        return traffic, met
