"""The replicas that another controller would have held: an estimate, beside those that are really there.

The same requests come. What becomes of them with other replicas says the fluid model (`state.fluid`): a
controller that is asked sees those replicas, their queue and their promises, and decides for them alone. So
what it would have held follows from its own decisions, one after the other, not from single answers to a
service that somebody else scales. No clock, no network, no policy: observations in, observations out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

import numpy as np

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.fluid import SERVICE, STEP, flow, kept_share
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen, Traffic

_DRAIN_SECONDS = 10.0
"""That a replica is paid for after it is told to go, as in the curriculum."""
_MOST_PENDING = 1e15
_LONGEST_GAP = 6.0
"""Intervals between two looks; what lies between others is not compared."""
_PARTS = np.array([0.25, 0.6, 1.0, 2.4])
"""Lengths of prompts around their mean, where only that is known: four parts of requests."""


@dataclass(frozen=True)
class Kept:
    """Requests, and how many of them were served as promised."""

    requests: float = 0.0
    met: float = 0.0

    def plus(self, requests: float, share: float) -> Kept:
        """With so many more, of which that share."""
        return Kept(self.requests + requests, self.met + requests * share)


class FluidQueue:
    """What waits before so many instances, and what becomes of promises."""

    def __init__(self) -> None:
        self.queue = self.busy = self.wait = 0.0
        self.kept = Kept()

    def pass_step(self, load: _Load, instances: float, seconds: float) -> float:
        """Let so many seconds pass, at most a step of the model; the share that is served as promised."""
        share = seconds / STEP
        self.queue, self.busy, self.wait = flow(
            self.queue, self.busy, load.work * seconds, instances * share, SERVICE
        )
        self.wait *= share  # it is told for a whole step
        met = float(kept_share(self.busy, self.wait, load.own, SERVICE))
        self.kept = self.kept.plus(load.requests * seconds, met)
        return met


@dataclass(frozen=True, eq=False)
class _Load:
    """What comes within a second."""

    requests: float
    work: float
    """In what one instance does in a second."""
    own: np.ndarray[tuple[int], np.dtype[np.float64]]
    """Seconds that prompts of equal parts of the requests take by themselves."""


def _load_of(seen: InferenceObservation) -> _Load:
    traffic, first, last = seen.traffic, seen.abilities[0], seen.abilities[-1]
    prompts = traffic.prompt_tokens * (1.0 - min(max(traffic.found, 0.0), 1.0)) / first.prompt_tokens
    each = prompts / traffic.requests if traffic.requests > 0 else 0.0
    return _Load(traffic.requests, prompts + traffic.output_tokens / last.output_tokens, each * _PARTS)


@dataclass(frozen=True)
class ShadowTally:
    """What was held and kept so far, really and in the shadow."""

    seconds: float = 0.0
    """That were compared."""
    real: float = 0.0
    would: float = 0.0
    """Replica-seconds."""
    ended: float = 0.0
    """Requests, of which so many were really served as promised, as measured."""
    met: float = 0.0
    requests: float = 0.0
    """That came, of which so many would have been served as promised, as the model says."""
    would_met: float = 0.0
    modelled_met: float = 0.0
    """The same of the real replicas: how far it is from what was measured is how far the model errs."""

    def since(self, before: ShadowTally) -> ShadowTally:
        """What has come on top."""
        return ShadowTally(
            *(mine - theirs for mine, theirs in zip(astuple(self), astuple(before), strict=True))
        )


class ShadowFleet:
    """Replicas that nobody started, and the requests that they would have served."""

    def __init__(self, *, sees_starts: bool = True) -> None:
        """sees_starts: whether observations have the real replicas that start; else they are reckoned."""
        self._sees_starts = sees_starts
        self._real_active = 0
        self._active: dict[Role, int] = {}
        self._ready_at: dict[Role, list[float]] = {}
        self._begun = False
        self._now = 0.0
        self._start_seconds = 0.0
        self._own, self._real = FluidQueue(), FluidQueue()
        self._seconds = self._would_held = self._real_held = 0.0
        self._measured = Kept()

    @property
    def tally(self) -> ShadowTally:
        """Until now."""
        return ShadowTally(
            seconds=self._seconds,
            real=self._real_held,
            would=self._would_held,
            ended=self._measured.requests,
            met=self._measured.met,
            requests=self._own.kept.requests,
            would_met=self._own.kept.met,
            modelled_met=self._real.kept.met,
        )

    def replicas(self, role: Role) -> int:
        """Active and starting."""
        return self._active[role] + len(self._ready_at[role])

    def follow(self, seen: InferenceObservation) -> InferenceObservation:
        """What has happened until the real service looks like this; what the shadow's controller sees then.

        At the first call the shadow is as the service is.
        """
        self._start_seconds = seen.start_seconds
        if not self._begun:
            self._begun, self._now = True, seen.now
            for pool in seen.pools:
                self._active[pool.role] = pool.active
                self._ready_at[pool.role] = [seen.now + seconds for seconds in pool.starting]
                self._real_active += pool.active
            return seen
        load, seconds = _load_of(seen), max(seen.now - self._now, 0.0)
        if seconds > _LONGEST_GAP * seen.interval:  # nobody knows what came meanwhile
            self._now, seconds = seen.now, 0.0
            self._come_up(seen.now)
        real = sum(pool.active for pool in seen.pools)
        met, passed = 0.0, 0.0
        while passed < seconds - 1e-9:
            step = min(STEP, seconds - passed)
            passed += step
            self._come_up(self._now + passed)
            share = self._own.pass_step(load, float(sum(self._active.values())), step)
            met += share * step
            self._real.pass_step(load, float(real), step)
            self._would_held += step * sum(map(self.replicas, self._active))
        self._now = seen.now
        self._seconds += seconds
        self._real_held += seconds * seen.total
        if not self._sees_starts:  # who serves now was paid for while it started
            self._real_held += max(real - self._real_active, 0) * seen.start_seconds
        self._real_active = real
        self._measured = self._measured.plus(float(seen.traffic.ended), seen.traffic.met)
        return self._observation(seen, load, met / seconds if seconds > 0 else 1.0)

    def _come_up(self, now: float) -> None:
        for role, ready in self._ready_at.items():
            self._active[role] += sum(moment <= now for moment in ready)
            self._ready_at[role] = [moment for moment in ready if moment > now]

    def scale(self, replicas: Mapping[Role, int]) -> None:
        """So many there are to be from now on; those that start are given up first, the youngest first."""
        for role, wanted in replicas.items():
            more = wanted - self.replicas(role)
            if more >= 0:
                self._ready_at[role] += [self._now + self._start_seconds] * more
                continue
            given_up = min(-more, len(self._ready_at[role]))
            self._ready_at[role] = sorted(self._ready_at[role])[: len(self._ready_at[role]) - given_up]
            drained = -more - given_up
            self._active[role] -= drained
            self._would_held += drained * _DRAIN_SECONDS

    def _observation(self, seen: InferenceObservation, load: _Load, met: float) -> InferenceObservation:
        own, traffic = self._own, seen.traffic
        each = traffic.prompt_tokens / traffic.requests if traffic.requests > 0 else 1.0
        pending = min(own.queue * seen.abilities[0].prompt_tokens, _MOST_PENDING)
        pools = tuple(
            self._pool(pool, load, pending if place == 0 else 0.0, max(each, 1.0))
            for place, pool in enumerate(seen.pools)
        )
        first_token = own.wait + float(load.own.mean()) if load.own.size else own.wait
        seconds = max(seen.interval, 1e-9)
        return replace(
            seen,
            pools=pools,
            traffic=self._traffic(traffic, round(traffic.requests * seconds), met, first_token),
            at_router=0,
            total=sum(pool.coming for pool in pools),
        )

    def _traffic(self, real: Traffic, ended: int, met: float, first_token: float) -> Traffic:
        own = self._own
        return replace(
            real,
            ended=ended,
            ttft=first_token,
            wait=own.wait,
            met=met,
            ttft_slack=real.ttft_slack if own.wait == 0.0 else first_token / SERVICE.wait,
            tbt_slack=own.busy / SERVICE.busiest,
            met_width=0.0,
        )

    def _pool(self, real: PoolSeen, load: _Load, pending: float, each: float) -> PoolSeen:
        active = self._active[real.role]
        ratio = real.active / active if active else 1.0
        return replace(
            real,
            active=active,
            starting=tuple(sorted(moment - self._now for moment in self._ready_at[real.role])),
            draining=0,
            waiting=round(pending / each),
            pending_tokens=round(pending + real.running),
            kv_use=min(real.kv_use * ratio, 1.0),
            busy=min(load.work / max(sum(self._active.values()), 1), 1.0),
        )
