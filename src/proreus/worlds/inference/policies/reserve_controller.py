"""The learned controller: holds what the load will need when a start is over, and a reserve for its doubt.

`reserve.wanted_total` says how many instances all pools together must and may have; this file makes the
observation into what it asks for, and shares the total out. Where a router lends instances between pools, a
fraction that prompts need runs on what tokens leave free, so the total is rounded up once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.policies.reserve import (
    M_EXPECTED,
    M_LOSSES,
    TOLD,
    Demand,
    ReserveNet,
    first_memory,
    wanted_total,
)
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.state.observation import Ability, InferenceObservation

_FOR_SHARES = 60
"""Intervals over which prompts and tokens are told apart."""
_FOUND_WEIGHT = 0.1
"""Of the newest interval in what prefix caches know."""
_ALIKE = 0.1
"""Share by which abilities of two pools may differ, so that each can do the other's work."""
_TOKEN_USE, _OWN_TOKEN_USE = 0.85, 0.7
"""Most that token instances are used where pools lend each other instances, and where they cannot."""
_USUAL_PROMPT, _TWICE_PROMPT = 2_000.0, 36_000.0
"""Tokens that are computed of a prompt up to which instances do what their ability says, and so many more at
which they take twice as long: attention."""
_OTHER_KINDS = 1.16
"""How much more work there is where an instance of one pool is no good for the other's."""
_LATELY, _ROOM, _NO_WAIT = 3, 0.6, 0.6
"""Intervals that say what comes now, share of use below which there is room, seconds that are no queue."""
_SHORTEST_START, _LONGEST_START = 10.0, 1_200.0
"""Seconds of a start between which the forecast is asked, twice as far as those that it was fitted to."""
_UNDECIDED = 0.3
"""Of an instance, within which a pool stays as it is."""
_WAYS: tuple[tuple[Role, Role, int], ...] = (("prompt", "token", 1), ("token", "prompt", -1))


OBJECTIVES = ("gpu_hours", "promises", "stability", "energy")


@dataclass(frozen=True)
class Leaning:
    """What a user weighs otherwise than the search did."""

    caution: float = 1.0
    """Of the reserve that is held beside the forecast."""
    patience: float = 1.0
    """Of the time before anything is drained."""


def leaning_of(wishes: Mapping[str, float]) -> Leaning:
    """By weights of `OBJECTIVES`, each 1 where it is not named: so a search leans.

    Instances cost GPU-hours and energy; what is held beyond the forecast buys promises, and patience buys
    stability. The square root, since the first instance of a reserve is worth more than the next.
    """
    price = (wishes.get("gpu_hours", 1.0) + wishes.get("energy", 1.0)) / 2.0
    ratio = wishes.get("promises", 1.0) / max(price, 1e-3)
    patience = min(max(wishes.get("stability", 1.0), 0.1), 10.0)
    return Leaning(min(max(math.sqrt(ratio), 0.1), 4.0), patience)


@dataclass
class _Known:
    """What is remembered of a run."""

    memory: F64 = field(default_factory=first_memory)
    found: float | None = None
    hopeless: float = 0.0
    """Share of requests that are late though instances have room and nobody waits."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What the kernel was asked at a decision, and what it said."""

    series: F64
    """[intervals] load, in instances that it keeps busy."""
    demand: Demand
    must: int
    may: int
    told: F64
    """[TOLD] see `reserve.wanted_total`."""

    def held(self, coming: int) -> int:
        """The total where so many are active or starting: what must be, else no more than may be."""
        return self.must if self.must > coming else min(coming, self.may)


class Reserve(Controller):
    """Instances for a quantile of the load; see `reserve`."""

    def __init__(self, name: str, net: ReserveNet, leaning: Leaning | None = None) -> None:
        super().__init__(name)
        self._net, self._leaning = net, leaning or Leaning()
        self._known = _Known()

    def fresh(self, seed: int) -> Self:
        """Without memory."""
        return type(self)(self.name, self._net, self._leaning)

    def unsure(self, observation: InferenceObservation, /) -> str:
        """Where starts take far less or more than those that the forecast was fitted to, others decide."""
        if not _SHORTEST_START <= observation.start_seconds <= _LONGEST_START:
            return (
                f"a start takes {observation.start_seconds:,.0f} s, which is outside "
                f"{_SHORTEST_START:g}..{_LONGEST_START:g}"
            )
        if not np.isfinite(observation.history).all():
            return "the history is not of finite numbers"
        return ""

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """The total, and how it is shared out."""
        known, told = self._known, np.zeros(TOLD)
        if seen.traffic.ended:
            found = min(max(seen.traffic.found, 0.0), 1.0)
            known.found = (
                found if known.found is None else known.found + _FOUND_WEIGHT * (found - known.found)
            )
        prompts, tokens = self._work(seen)
        series = np.ascontiguousarray(prompts + tokens)
        self._learn_what_is_hopeless(seen, float(series[-_LATELY:].mean()))
        demand = self._demand(seen)
        must, may = wanted_total(self._net, series, demand, known.memory, told)
        total, why = self.total(seen, Asked(series, demand, must, may, told))
        because = {
            "work now": float(told[0]),
            "likely at most then": float(told[1]),
            "until then": float(told[2]),
            "strain": float(told[3]),
            "for losses": float(told[4]),
            "queue": float(told[5]),
            "doubt": float(told[6]),
            "caution": float(told[10]),
            "reserve": float(told[9]),
            **why,
            "in all": float(total),
        }
        if len(seen.pools) == 1:
            return {seen.pools[0].role: Target(max(total, 1), because)}
        recent = slice(-_FOR_SHARES, None)
        share = float(tokens[recent].sum() / max(series[recent].sum(), 1e-9))
        counts = self._shared_out(seen, total, share, float(told[7]))
        return {role: Target(count, because) for role, count in counts.items()}

    def total(self, seen: InferenceObservation, asked: Asked) -> tuple[int, dict[str, float]]:
        """Instances of all pools together, and what else is to be told of it."""
        return asked.held(sum(pool.coming for pool in seen.pools)), {}

    def _learn_what_is_hopeless(self, seen: InferenceObservation, load: float) -> None:
        """What is late with room to spare and without a queue is late whatever is held: prompts that take
        longer than was promised by themselves. It is no reason for more instances."""
        active = sum(pool.active for pool in seen.pools)
        if seen.traffic.ended and load < _ROOM * active and seen.traffic.wait < _NO_WAIT:
            late = min(max(1.0 - seen.traffic.met, 0.0), 1.0)
            self._known.hopeless += _FOUND_WEIGHT * (late - self._known.hopeless)

    def _work(self, seen: InferenceObservation) -> tuple[F64, F64]:
        """[intervals] of prompts and of tokens, in instances that they keep busy."""
        requests, prompts, outputs = np.nan_to_num(seen.history, nan=0.0, posinf=1e12, neginf=0.0).T
        computed = 1.0 - (self._known.found or 0.0)
        first, last = seen.abilities[0], seen.abilities[-1]
        length = float(prompts.sum() * computed / max(requests.sum(), 1.0 / seen.interval))
        harder = hardness(length, lend_each_other(first, last))
        return prompts * computed * harder / first.prompt_tokens, outputs * harder / last.output_tokens

    def _demand(self, seen: InferenceObservation) -> Demand:
        computed = 1.0 - (self._known.found or 0.0)
        active = float(sum(pool.active for pool in seen.pools))
        pending = float(seen.pools[0].pending_tokens)
        lending = lend_each_other(seen.abilities[0], seen.abilities[-1])
        readies = sum(max(seen.start_seconds - ready, 0.0) for pool in seen.pools for ready in pool.starting)
        return Demand(
            steps=(seen.start_seconds + seen.interval) / seen.interval,
            now=seen.now,
            interval=seen.interval,
            active=active,
            coming=float(sum(pool.coming for pool in seen.pools)),
            readies=readies,
            backlog=pending * computed / seen.abilities[0].prompt_tokens,
            ended=float(seen.traffic.ended),
            met=min(max(seen.traffic.met, 0.0) / max(1.0 - self._known.hopeless, 0.1), 1.0),
            wait=max(seen.traffic.wait, 0.0),
            life=seen.life_seconds,
            caution=self._leaning.caution,
            patience=self._leaning.patience,
            pools=float(len(seen.pools)),
            models=float(seen.models),
            apart=float(seen.models - 1 + (0 if lending else len(seen.pools) - 1)),
        )

    def _shared_out(
        self, seen: InferenceObservation, total: int, share: float, use: float
    ) -> dict[Role, int]:
        """Token instances for their share of the work that the total is for, the rest for prompts.

        Where instances are taken away, no pool has only one.
        """
        least = 2 if self._loses(seen) else 1
        lending = lend_each_other(seen.abilities[0], seen.abilities[-1])
        exact = total * use * share / (_TOKEN_USE if lending else _OWN_TOKEN_USE)
        tokens = max(seen.pool("token").coming, _whole(exact - _UNDECIDED))
        tokens = max(min(tokens, _whole(exact + _UNDECIDED)), least)
        prompts = max(total - tokens, least)
        return {"prompt": prompts, "token": tokens}

    def _loses(self, seen: InferenceObservation) -> bool:
        """Whether instances are taken away, as far as is known."""
        return bool(self._known.memory[M_LOSSES] > 0.0) or seen.life_seconds > 0.0

    def change(self, seen: InferenceObservation, wanted: dict[Role, Target]) -> Scale:
        """Towards the targets; what is drained or moved now is no loss later: where pools are deployments,
        what moves goes here and starts there.

        A pool gives what it has too many of to the other one. Its own are drained only where all together are
        more than are wanted.
        """
        counts = {role: target.count for role, target in wanted.items()}
        change = self._moved(seen, counts) if len(counts) > 1 else seen.towards(counts)
        going = abs(change.migrate) - sum(min(change.of(pool.role), 0) for pool in seen.pools)
        self._known.memory[M_EXPECTED] = float(sum(pool.active for pool in seen.pools) - going)
        return change

    def _moved(self, seen: InferenceObservation, counts: dict[Role, int]) -> Scale:
        coming = {pool.role: pool.coming for pool in seen.pools}
        too_few = sum(counts.values()) - sum(coming.values())
        for giver, taker, sign in _WAYS:
            spare, lacking = coming[giver] - counts[giver], counts[taker] - coming[taker]
            alone = seen.pool(taker).active == 0 and seen.pool(giver).active > 1
            moved = min(max(min(spare, lacking), int(alone)), seen.steps.migrate, seen.pool(giver).active - 1)
            if moved > 0:
                rest = {giver: max(counts[giver], coming[giver] - moved), taker: coming[taker] + moved}
                if too_few > 0:
                    rest[taker] += too_few
                shifted = {giver: rest[giver] + moved, taker: rest[taker] - moved}
                other = seen.towards(shifted)
                change = Scale(other.prompt, other.token, migrate=sign * moved)
                if not seen.refusal(change):
                    return change
        # Who has too many and cannot give drains only what all have too many of.
        surplus = max(-too_few, 0)
        kept = dict(counts)
        for role in coming:
            fewer = min(max(coming[role] - counts[role], 0), surplus)
            kept[role] = max(counts[role], coming[role] - fewer)
            surplus -= fewer
        return seen.towards(kept)


def lend_each_other(prompts: Ability, tokens: Ability) -> bool:
    """Whether an instance of one pool does the other's work as well as its own."""
    ratio = prompts.prompt_tokens / max(tokens.prompt_tokens, 1e-9)
    return abs(math.log(max(ratio, 1e-9))) < _ALIKE


def hardness(length: float, lending: bool) -> float:
    """How much more work there is than abilities say; `length`: tokens that are computed of a prompt."""
    harder = 1.0 + min(max(length - _USUAL_PROMPT, 0.0) / _TWICE_PROMPT, 2.0)
    return harder * (1.0 if lending else _OTHER_KINDS)


def _whole(instances: float) -> int:
    return math.ceil(min(instances, 1e6) - 1e-9)
