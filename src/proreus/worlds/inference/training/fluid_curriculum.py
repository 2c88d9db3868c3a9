"""What a search plays in the fluid model: loads drawn by chance and those of scenarios, as flows of work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.worlds.inference.datasets.load_shapes import STEP as SHAPE_STEP
from proreus.worlds.inference.datasets.load_shapes import TRAINED, Family, load_shape
from proreus.worlds.inference.policies.reserve import ReserveNet
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.outcome import AS_MANY_AGAIN
from proreus.worlds.inference.state.fluid import SERVICE, STEP
from proreus.worlds.inference.training.fluid_episodes import FluidLoad, Setting, play_fluid

_INTERVAL = 10.0
_CACHED = 0.8
"""Of what a cache without limit would find: what a router that knows the caches finds."""
_USUAL_PROMPT, _TWICE_PROMPT = 2_500.0, 32_000.0
"""Tokens of prompts, weighed by their length, up to which an instance does what its ability says, and so many
more at which it does half: attention; as fitted to runs."""
_OTHER_KINDS = 0.82
"""Speed where one pool cannot do the other's work as well as its own; as fitted to runs."""
_PARTS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
"""Of prompts by their length."""
_OF_LOSSES = 0.15
"""Share of drawn services whose instances are taken away."""


@dataclass(frozen=True, eq=False)
class FluidEpisode:
    """A load and the service that it comes to."""

    group: str
    """Scenario or family: episodes of a group are weighed together."""
    load: FluidLoad
    setting: Setting
    gpus: float = 1.0
    """Of an instance, mean over those at the beginning."""
    against: float = 1.0
    """Weighed instance-seconds that it is held against."""


def played(net: ReserveNet, episode: FluidEpisode) -> tuple[float, float]:
    """(weighed instance-seconds, share of requests served as promised)."""
    paid, kept = play_fluid(net, episode.load, episode.setting, SERVICE)
    return paid * (1.0 + max(0.99 - kept, 0.0) / AS_MANY_AGAIN), kept


def fluid_of(scenario: InferenceScenario, seed: int) -> FluidEpisode:
    """The requests of a seed as a flow of work."""
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
    prompts = np.bincount(place, trace.prompt * (1.0 - found), steps) / first.prompt_tokens
    work = prompts + np.bincount(place, trace.output, steps) / last.output_tokens
    weights = np.array([class_.weight for class_ in control.classes])[trace.service]
    requests = np.bincount(place, weights, steps).astype(np.float64)
    urgent = np.bincount(place, weights * (trace.service == 0), steps) / np.maximum(requests, 1e-9)
    alike = abs(math.log(first.prompt_tokens / last.prompt_tokens)) < 0.1
    pools = len(seen.pools)
    length = float((trace.prompt.astype(np.float64) ** 2).sum() / trace.prompt.sum())
    longer = max(length - _USUAL_PROMPT, 0.0) / _TWICE_PROMPT
    setting = Setting(
        start_seconds=seen.start_seconds,
        interval=max(round(control.interval / STEP), 1) * STEP,
        first=float(sum(pool.coming for pool in seen.pools)),
        least=float(max(control.limits.least, 1) * pools * (2 if control.spot_seconds else 1)),
        most=float(min(control.limits.most_in_total, 100)),
        speed=(1.0 if alike else _OTHER_KINDS) / (1.0 + longer),
        loss_rate=1.0 / control.spot_seconds if control.spot_seconds else 0.0,
        life=control.spot_seconds,
        seed=float(seed),
    )
    own = np.quantile(trace.prompt, _PARTS) * (1.0 - found) / first.prompt_tokens
    spec = scenario.machines.spec()
    of_kind = {kind.name: kind.gpus for kind in spec.kinds}
    count = max(sum(group.count for group in spec.groups), 1)
    gpus = sum(group.count * of_kind[group.kind] for group in spec.groups) / count
    return FluidEpisode(scenario.name, FluidLoad(work, requests, urgent, own), setting, gpus)


def drawn_episodes(count: int, seed: int, families: Sequence[Family] = TRAINED) -> list[FluidEpisode]:
    """Services and loads by chance, families by turns; those whose instances are taken away are a group of
    their own."""
    draw = np.random.default_rng(seed)
    return [_drawn(draw, families[number % len(families)], number) for number in range(count)]


def _drawn(draw: np.random.Generator, family: Family, number: int) -> FluidEpisode:
    start = math.exp(draw.uniform(math.log(30.0), math.log(600.0)))
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
        seed=float(number),
    )
    urgent = np.full(steps, float(draw.choice([1.0, 1.0, 0.7])))
    load = FluidLoad(work, requests.astype(np.float64), urgent, np.full(1, 0.1))
    return FluidEpisode("taken away" if life else family, load, setting)
