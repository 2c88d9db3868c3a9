"""What a search plays in the fluid model: loads drawn by chance and those of scenarios, as flows of work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.datasets.load_shapes import STEP as SHAPE_STEP
from proreus.worlds.inference.datasets.load_shapes import TRAINED, Family, load_shape
from proreus.worlds.inference.policies.reserve import ReserveNet
from proreus.worlds.inference.policies.reserve_controller import hardness, lend_each_other
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.outcome import AS_MANY_AGAIN
from proreus.worlds.inference.state.fluid import SERVICE, STEP
from proreus.worlds.inference.training.fluid_episodes import (
    FluidLoad,
    ForeseenLoad,
    Setting,
    foresee_load,
    play_fluid,
)

_INTERVAL = 10.0
_CACHED = 0.8
"""Of what a cache without limit would find: what a router that knows the caches finds."""
_PARTS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
"""Of prompts by their length."""
_OF_LOSSES = 0.15
"""Share of drawn services whose instances are taken away."""
_PACE = 0.7
"""Logarithm of how much faster or slower, higher or lower, a part of a recording may be played."""
_TURN = 30.0
"""Instance-seconds that it costs to shrink after growing, or to grow after shrinking."""
_LONGEST_PART = 2_400
"""Steps: eighty minutes."""
_LONG = 3.0 * 3_600.0
"""Seconds from which a scenario is played in parts."""
_DAYS, _WINDOWS = 7, 28
"""That parts are taken from: runs of a scenario of whole days, and of others."""


@dataclass(frozen=True, eq=False)
class FluidEpisode:
    """A load and the service that it comes to."""

    group: str
    """Scenario or family: episodes of a group are weighed together."""
    load: FluidLoad
    setting: Setting
    against: float = 1.0
    """Weighed instance-seconds that it is held against."""
    promised: float = 1.0
    """Share of requests that was served as promised for those."""
    foreseen: ForeseenLoad | None = None
    """None: forecasts are made when it is played."""


def foreseen(net: ReserveNet, episode: FluidEpisode) -> FluidEpisode:
    """With the forecasts of a network, for all that forecast alike."""
    return replace(episode, foreseen=foresee_load(net, episode.load.work, episode.setting))


def played(net: ReserveNet, episode: FluidEpisode) -> tuple[float, float]:
    """(weighed instance-seconds with the price of turns, share of requests served as promised)."""
    known = episode.foreseen or foresee_load(net, episode.load.work, episode.setting)
    paid, kept, turns = play_fluid(net, episode.load, episode.setting, SERVICE, known)
    return (paid + _TURN * turns) * (1.0 + max(0.99 - kept, 0.0) / AS_MANY_AGAIN), kept


def fluid_of(scenario: InferenceScenario, seed: int) -> FluidEpisode:
    """The requests of a seed as a flow of work, as `Reserve` reckons it."""
    trace, control = scenario.load(seed), scenario.control
    seen = scenario.start(trace, seed).next_decision()
    if seen is None:
        raise ValueError(f"{scenario.name}: no decision is made within its requests")
    first, last = seen.abilities[0], seen.abilities[-1]
    steps = int(trace.arrival[-1] // STEP) + 1
    place = (trace.arrival // STEP).astype(np.int64)
    found = 0.0
    if scenario.machines.prefix_cache and trace.prefix is not None:
        found = _CACHED * trace.prefix.ideal_reuse() / float(trace.prompt.sum())
    lending = lend_each_other(first, last)
    harder = hardness(float(trace.prompt.mean()) * (1.0 - found), lending)
    prompts = np.bincount(place, trace.prompt * (1.0 - found), steps) * harder / first.prompt_tokens
    work = prompts + np.bincount(place, trace.output, steps) * harder / last.output_tokens
    weights = np.array([class_.weight for class_ in control.classes])[trace.service]
    requests = np.bincount(place, weights, steps).astype(np.float64)
    urgent = np.bincount(place, weights * (trace.service == 0), steps) / np.maximum(requests, 1e-9)
    pools = len(seen.pools)
    setting = Setting(
        start_seconds=seen.start_seconds,
        interval=max(round(control.interval / STEP), 1) * STEP,
        first=float(sum(pool.coming for pool in seen.pools)),
        least=float(max(control.limits.least, 1) * pools * seen.models * (2 if control.spot_seconds else 1)),
        most=float(min(control.limits.most_in_total, 100)),
        speed=1.0,
        loss_rate=1.0 / control.spot_seconds if control.spot_seconds else 0.0,
        life=control.spot_seconds,
        pools=float(pools),
        models=float(seen.models),
        apart=float(seen.models - 1 + (0 if lending else pools - 1)),
        seed=float(seed),
    )
    lengths = np.quantile(trace.prompt, _PARTS) * (1.0 - found)
    own = np.array([length * hardness(length, True) for length in lengths]) / first.prompt_tokens
    return FluidEpisode(scenario.name, FluidLoad(work, requests, urgent, own), setting)


def is_long(scenario: InferenceScenario) -> bool:
    """Whether it is played in parts alone."""
    return scenario.load_.seconds > _LONG


def warped_parts(scenarios: Sequence[InferenceScenario], count: int, seed: int) -> list[FluidEpisode]:
    """So many parts of each recording, and of each scenario of a whole day."""
    draw = np.random.default_rng([seed, len(scenarios)])
    parts: list[FluidEpisode] = []
    for scenario in scenarios:
        if scenario.source != "generated" or is_long(scenario):
            whole = [fluid_of(scenario, number) for number in range(_DAYS if is_long(scenario) else _WINDOWS)]
            parts += [warped(whole[int(draw.integers(len(whole)))], draw) for _ in range(count)]
    return parts


def warped(episode: FluidEpisode, draw: np.random.Generator) -> FluidEpisode:
    """A part of an episode from any moment on, at another pace, thinned out or laid over itself, for a
    service whose instances start sooner or later: a recording that is never played twice."""
    load, size = episode.load, episode.load.work.size
    start = _drawn_start(draw)
    pace = math.exp(draw.uniform(-_PACE, _PACE))
    steps = min(int(start * draw.uniform(10.0, 40.0) / STEP), _LONGEST_PART, int(size / pace))
    begin = draw.integers(0, max(size - math.ceil(steps * pace), 0) + 1)
    requests, share = np.zeros(steps), math.exp(draw.uniform(-_PACE, _PACE))
    parts: dict[str, F64] = {"work": np.zeros(steps), "urgent": np.zeros(steps)}
    edges: F64 = np.asarray(begin + np.arange(steps + 1) * pace, dtype=np.float64)
    shift = 0
    while share > 0.0:
        at: F64 = np.asarray((edges + shift) % size) if shift else edges
        requests_here = _between(load.requests, at, size) / pace
        thinned = draw.binomial(np.round(requests_here).astype(np.int64), min(share, 1.0))
        ratio = thinned / np.maximum(requests_here, 1e-9)
        requests += thinned
        parts["work"] += _between(load.work, at, size) / pace * ratio
        parts["urgent"] += _between(load.urgent * load.requests, at, size) / pace * ratio
        share, shift = share - 1.0, int(draw.integers(1, max(size, 2)))
    work = parts["work"]
    first = math.ceil(work[:150].mean() / STEP / 0.8 * draw.uniform(0.8, 1.4))
    pools = float(draw.integers(1, 3))
    setting = episode.setting._replace(
        start_seconds=start,
        first=max(float(first), pools),
        least=pools,
        pools=pools,
        seed=float(draw.integers(2**31)),
    )
    flowing = FluidLoad(work, requests, parts["urgent"] / np.maximum(requests, 1e-9), load.own)
    return FluidEpisode(f"{episode.group}, warped", flowing, setting)


def _between(values: F64, at: F64, size: int) -> F64:
    """[steps] of what flows between moments, which may go over the end and on at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    reached = np.interp(at, np.arange(size + 1), total)
    flown = np.diff(reached)
    return np.asarray(np.where(flown < 0.0, flown + total[-1], flown))


def _drawn_start(draw: np.random.Generator) -> float:
    return math.exp(draw.uniform(math.log(30.0), math.log(600.0)))


def drawn_episodes(count: int, seed: int, families: Sequence[Family] = TRAINED) -> list[FluidEpisode]:
    """Services and loads by chance, families by turns; those whose instances are taken away are a group of
    their own."""
    draw = np.random.default_rng(seed)
    return [_drawn(draw, families[number % len(families)], number) for number in range(count)]


def _drawn(draw: np.random.Generator, family: Family, number: int) -> FluidEpisode:
    start = _drawn_start(draw)
    seconds = float(np.clip(start * draw.uniform(7.0, 15.0), 900.0, 3_000.0))
    factors = load_shape(family, seconds, start, draw)
    level, rate = math.exp(draw.uniform(0.0, math.log(10.0))), math.exp(draw.uniform(math.log(3.0), 4.1))
    square = float(draw.choice([1.0, 1.0, 2.25, 4.0]))
    steps = int(seconds / STEP)
    rates = np.repeat(factors, round(SHAPE_STEP / STEP))[:steps] * rate * STEP
    requests = draw.poisson(rates / square) * square
    lengths = np.maximum(1.0 + draw.normal(size=steps) / np.sqrt(np.maximum(requests, 1.0)), 0.1)
    work = requests * lengths * level / rate
    least = float(draw.choice([1.0, 2.0]))
    life = draw.uniform(600.0, 2_400.0) if draw.random() < _OF_LOSSES else 0.0
    first = math.ceil(work[:150].mean() / STEP / 0.8 * draw.uniform(0.8, 1.4))
    setting = Setting(
        start_seconds=start,
        interval=_INTERVAL,
        first=float(max(first, least)),
        least=least * (2.0 if life else 1.0),
        most=float(max(24, int(level * 6.0))),
        speed=math.exp(draw.normal(0.0, 0.06)),
        loss_rate=1.0 / life if life else 0.0,
        life=life if draw.random() < 0.7 else 0.0,
        pools=least,
        models=1.0,
        apart=0.0,
        seed=float(number),
    )
    urgent = np.full(steps, float(draw.choice([1.0, 1.0, 0.7])))
    load = FluidLoad(work, requests.astype(np.float64), urgent, np.full(1, 0.1))
    return FluidEpisode("taken away" if life else family, load, setting)
