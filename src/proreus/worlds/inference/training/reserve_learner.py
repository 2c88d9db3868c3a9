"""The search for the reserve as a learner, and what `proreus tune inference` trains with it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np

from proreus.learning.learner import EvolutionLearner
from proreus.learning.specialist import Specialist, Starts
from proreus.policies.catalogue import LEARNED
from proreus.policies.checkpoint import load_checkpoint
from proreus.worlds.inference.encoding.load_history import SIZE, VERSION
from proreus.worlds.inference.policies.catalogue import SHIPPED
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.state.quantile_forecast import LoadForecaster, forecaster_of
from proreus.worlds.inference.training.finetune_goal import FinetuneConfig, FinetuneGoal
from proreus.worlds.inference.training.fluid_curriculum import (
    FluidEpisode,
    fluid_of,
    is_long,
    warped_parts,
)
from proreus.worlds.inference.training.reserve_goal import ReserveConfig, ReserveGoal, vector_of

_EACH, _EACH_PART = 40, 16
"""Moments of a run of a scenario that the forecast is fitted to, and of a warped part."""


def _forecaster(scenarios: Sequence[InferenceScenario], config: ReserveConfig) -> LoadForecaster:
    """Fitted anew, to drawn loads and to training runs of the scenarios; or what ships."""
    if config.forecast_series == 0:
        return forecaster_of(load_checkpoint(SHIPPED, VERSION).tensors, SIZE)
    # torch is needed here alone
    from proreus.worlds.inference.training.load_forecast import (
        ForecastConfig,
        drawn_moments,
        fit_forecast,
        flowing_moments,
        joined,
    )

    settings = ForecastConfig(series=config.forecast_series, seed=config.seed)
    parts = [scenario.of_part("train") for scenario in scenarios]
    # Other runs than the search has: a forecast that knows them by heart lets it hold too little.
    seeds = range(config.traces, 2 * config.traces)
    runs = [_any_time_of_day(part, seed) for part in parts if not is_long(part) for seed in seeds]
    moments = [
        drawn_moments(settings.series, settings.seed),
        flowing_moments(runs, _EACH, settings.seed),
        flowing_moments(warped_parts(parts, config.warped, config.seed), _EACH_PART, settings.seed),
    ]
    return fit_forecast(joined([part for part in moments if len(part.came)]), settings)


def _any_time_of_day(scenario: InferenceScenario, seed: int) -> FluidEpisode:
    """A run of a scenario; every other one begins at another time of its day, so that the length of a history
    does not tell what time it is."""
    load = scenario.load_
    if scenario.source == "generated" and seed % 2:
        begins = np.random.default_rng([seed, 24]).uniform(0.0, load.day_seconds)
        scenario = replace(scenario, load_=replace(load, begins=load.begins + begins))
    return fluid_of(scenario, seed)


def _goal(scenarios: Sequence[InferenceScenario], config: ReserveConfig, pool: Executor) -> ReserveGoal:
    return ReserveGoal(scenarios, config, pool, _forecaster(scenarios, config))


def _starts(scenario: InferenceScenario) -> Starts:
    """What ships."""
    return {LEARNED: vector_of(load_checkpoint(SHIPPED, VERSION).tensors)}


RESERVE = EvolutionLearner(
    world="inference",
    algorithm="reserve",
    configs=(ReserveConfig(),),
    kind="reserve",
    encoding=VERSION,
    gain="% fewer weighed GPU-hours than the best rule",
    about="a forecast of loads that knows its doubt, and the reserve held for it, by a fluid model",
    example="--scenarios steady,surge,colocated,conversations,spot,hetero,two-models --out runs/reserve",
    needs="cmaes",
    not_on_ray="rates its members in threads of one process",
    goal=_goal,
    threads=True,
    separable=True,
)


def _finetune_goal(
    scenarios: Sequence[InferenceScenario], config: FinetuneConfig, pool: Executor
) -> FinetuneGoal:
    base = load_checkpoint(Path(config.base) if config.base else SHIPPED, VERSION)
    return FinetuneGoal(scenarios, config, pool, base.tensors)


FINETUNE = EvolutionLearner(
    world="inference",
    algorithm="finetune",
    configs=(FinetuneConfig(),),
    kind="reserve",
    encoding=VERSION,
    gain="% fewer weighed GPU-hours than the best rule",
    about="how cautious that reserve is, and for which loads, in the simulator itself",
    example="--scenarios steady,surge,colocated --base runs/reserve/best --out runs/finetune",
    needs="cmaes",
    goal=_finetune_goal,
    threads=False,
    separable=True,
)

_TUNED = replace(
    RESERVE,
    configs=(
        ReserveConfig(
            generations=100_000,
            sigma=0.1,
            traces=8,
            days=1,
            episodes=8,
            drawn=200,
            warped=100,
            drawn_episodes=80,
            forecast_series=0,
            validation_runs=4,
            evaluate_every=10,
        ),
    ),
)

SPECIALIST = Specialist(
    learners={"weighed_gpu_hours": _TUNED},
    strongest={"weighed_gpu_hours": "predictive"},
    starts=_starts,
    beside=("slo_attainment", "gpu_hours", "oscillation"),
    cautions=(
        "Members are rated in a fluid model of the service and judged in the simulator: what neither knows, "
        "such as how long your instances really take to start, is not in the figures.",
        "A file is one recording: seeds begin at different moments of its parts. Where your load changes, "
        "tune again.",
    ),
)
