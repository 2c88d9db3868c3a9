"""Fit the forecast of loads to loads drawn by chance and to those of scenarios, and hold it against forecasts
that need no fitting.

Nothing is simulated: a load is a row of counts, so that a hundred thousand moments to learn from are a matter
of seconds. Half of the drawn series are requests, half tokens, whose lengths add chance of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from proreus.kernels.arrays import F64
from proreus.worlds.inference.datasets.load_shapes import KEPT_BACK, STEP, TRAINED, Family, load_shape
from proreus.worlds.inference.encoding.load_history import SIZE, load_features
from proreus.worlds.inference.policies.reserve import LEAST_LOAD
from proreus.worlds.inference.state.forecast import Smoothing, smoothed
from proreus.worlds.inference.state.quantile_forecast import (
    HIDDEN,
    QUANTILES,
    TARGETS,
    LoadForecaster,
)
from proreus.worlds.inference.training.fluid_curriculum import FluidEpisode
from proreus.worlds.inference.training.fluid_episodes import load_by_interval

_HISTORY = 360
_MOMENTS = 8
"""Of each series that are learned from."""
_FURTHEST = 4.0
_BATCH = 1_024


@dataclass(frozen=True, eq=False)
class Moments:
    """What was known at some moments, and what came."""

    features: F64
    """[moments, F]"""
    came: F64
    """[moments, targets] logarithms of ratios to the level."""
    rules: F64
    """[moments, 3] what last value, Holt's damped trend and the day before say of the first target."""


@dataclass(frozen=True)
class ForecastConfig:
    """Settings."""

    series: int = 24_000
    """Loads that are drawn."""
    epochs: int = 30
    rate: float = 3e-3
    """Of Adam, at the start."""
    seed: int = 1


def drawn_moments(series: int, seed: int, families: Sequence[Family] = TRAINED) -> Moments:
    """Moments of as many drawn loads, families by turns."""
    draw = np.random.default_rng(seed)
    features, came, rules = [], [], []
    for number in range(series):
        start = math.exp(draw.uniform(math.log(30.0), math.log(600.0)))
        steps = max(start / STEP, 1.0) + 1.0
        length = int(draw.integers(60, 420)) + int(3 * steps)
        load = _counted(draw, load_shape(families[number % len(families)], length * STEP, start, draw))
        for moment in draw.integers(1, length - int(3 * steps) - 2, _MOMENTS).tolist():
            found = moment_of(load, moment, steps)
            features.append(found[0])
            came.append(found[1])
            rules.append(found[2])
    return Moments(np.array(features), np.array(came), np.array(rules))


def flowing_moments(episodes: Sequence[FluidEpisode], each: int, seed: int) -> Moments:
    """Moments of loads as they flow to a service, so many of each that is long enough."""
    draw = np.random.default_rng(seed)
    found = []
    for episode in episodes:
        setting = episode.setting
        steps = (setting.start_seconds + setting.interval) / setting.interval
        load = np.maximum(load_by_interval(episode.load.work, setting.interval), LEAST_LOAD)
        last = load.size - int(3 * steps) - 2
        if last > 1:
            found += [moment_of(load, moment, steps) for moment in draw.integers(1, last, each).tolist()]
    return Moments(*(np.array([row[part] for row in found]) for part in range(3)))


def joined(parts: Sequence[Moments]) -> Moments:
    """All of them."""
    return Moments(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.came for part in parts]),
        np.concatenate([part.rules for part in parts]),
    )


def _counted(draw: np.random.Generator, factors: F64) -> F64:
    """Requests, or tokens, a second that come where a load has such factors."""
    rate = math.exp(draw.uniform(math.log(0.5), math.log(200.0)))
    square = float(draw.choice([0.64, 1.0, 1.0, 2.25, 4.0]))
    counts = draw.poisson(factors * rate * STEP / square) * square
    if draw.random() < 0.5:
        lengths = 1.0 + draw.normal(size=counts.size) * 1.2 / np.sqrt(np.maximum(counts, 1.0))
        counts = counts * np.maximum(lengths, 0.05)
    return np.asarray(counts / STEP, dtype=np.float64)


def moment_of(load: F64, moment: int, steps: float) -> tuple[F64, list[float], list[float]]:
    """(features, what came, what rules say) where `moment` values of a load are known."""
    known = np.ascontiguousarray(load[max(moment - _HISTORY, 0) : moment])
    features = np.zeros(SIZE)
    level = load_features(known, len(known), steps, features)
    ahead = max(round(steps), 1)
    pairs = (load[1:] + load[:-1]) / 2.0
    came = (
        float(load[moment + ahead : moment + ahead + 2].mean()),
        float(pairs[moment : moment + ahead + 1].max()),
        float(pairs[moment : moment + 3 * ahead].max()),
    )
    shape = Smoothing()
    levels, trends = smoothed(known[:, None], shape.level, shape.trend, shape.damping)
    lasting = sum(shape.damping**step for step in range(1, ahead + 1))
    before = known[-ahead] if len(known) > ahead else known[-1]
    rules = (float(known[-1]), float(levels[-1, 0] + trends[-1, 0] * lasting), float(before))
    return features, _ratios(came, level), _ratios(rules, level)


def _ratios(values: Sequence[float], level: float) -> list[float]:
    logs = (math.log(max(value, 0.02 * level) / level) for value in values)
    return [min(max(log, -_FURTHEST), _FURTHEST) for log in logs]


def fit_forecast(moments: Moments, config: ForecastConfig) -> LoadForecaster:
    """The network that has the least pinball loss."""
    mean, spread = moments.features.mean(axis=0), moments.features.std(axis=0) + 1e-6
    inputs = torch.tensor((moments.features - mean) / spread, dtype=torch.float32)
    came = torch.tensor(moments.came, dtype=torch.float32)
    with _one_thread():
        network = _fitted(inputs, came, config)
    layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    return LoadForecaster(
        mean,
        spread,
        tuple(layer.weight.detach().numpy().astype(np.float64) for layer in layers),
        tuple(layer.bias.detach().numpy().astype(np.float64) for layer in layers),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums that are split among cores come out otherwise on a machine with others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fitted(inputs: torch.Tensor, came: torch.Tensor, config: ForecastConfig) -> torch.nn.Sequential:
    torch.manual_seed(config.seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(SIZE, HIDDEN),
        torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, len(TARGETS) * len(QUANTILES)),
    )
    batches = max(len(inputs) // _BATCH, 1)
    optimiser = torch.optim.Adam(network.parameters(), config.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.epochs * batches)
    for _ in range(config.epochs):
        order = torch.randperm(len(inputs))
        for number in range(batches):
            chosen = order[number * _BATCH : (number + 1) * _BATCH]
            loss = _pinball(_quantiles(network(inputs[chosen])), came[chosen])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return network


def _quantiles(raw: torch.Tensor) -> torch.Tensor:
    """As `quantile_forecast.quantiles_of`."""
    shaped = raw.view(-1, len(TARGETS), len(QUANTILES))
    median, distance = shaped[..., 1:2], torch.nn.functional.softplus(shaped - 1.0)
    return torch.cat([median - distance[..., :1], median, median + distance[..., 2:].cumsum(-1)], -1)


def _pinball(quantiles: torch.Tensor, came: torch.Tensor) -> torch.Tensor:
    shares, error = torch.tensor(QUANTILES), came[..., None] - quantiles
    return torch.maximum(shares * error, (shares - 1.0) * error).mean()


@dataclass(frozen=True)
class ForecastScore:
    """How good a forecast of the first target is: what the load is when a start is over."""

    pinball: float
    """Mean over the quantiles, of logarithms."""
    coverage: tuple[float, ...]
    """Share of what came at or below each quantile."""


def judged(quantiles: F64, came: F64) -> ForecastScore:
    """[moments, quantiles] against [moments]."""
    shares, error = np.array(QUANTILES), came[:, None] - quantiles
    loss = np.maximum(shares * error, (shares - 1.0) * error)
    return ForecastScore(float(loss.mean()), tuple((error <= 0).mean(axis=0).tolist()))


def scores(forecaster: LoadForecaster, learned_from: Moments, held_out: Moments) -> dict[str, ForecastScore]:
    """The forecast, and rules that are as far off as they were on what was learned from.

    A rule says one number; its quantiles are that number and the quantiles of its errors.
    """
    own = np.array([forecaster.quantiles(row)[0] for row in held_out.features])
    found = {"learned": judged(own, held_out.came[:, 0])}
    for place, name in enumerate(("last value", "Holt's damped trend", "as long ago")):
        off = np.quantile(learned_from.came[:, 0] - learned_from.rules[:, place], QUANTILES)
        found[name] = judged(held_out.rules[:, place, None] + off[None, :], held_out.came[:, 0])
    return found


def kept_back_moments(series: int, seed: int) -> Moments:
    """Of families that nothing is trained on."""
    return drawn_moments(series, seed, KEPT_BACK)
