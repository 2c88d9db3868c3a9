"""`proreus train --algo ppo`: PPO over scenarios, judged on held-out seeds, saved so that it can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from proreus.compare.scenario import Scenario
from proreus.encoding.context import F32
from proreus.encoding.pods import CPU_LEFT, FGD_SCORE, ORDER
from proreus.learning.batch import BatchedPods, BatchOptions, Reward
from proreus.learning.gradient_run import GradientRun, Identity
from proreus.learning.judge import compiled_workload, held_out_gains, yardstick
from proreus.learning.ppo import PPOConfig, Progress, ppo
from proreus.model.errors import UsageError
from proreus.policies.scorer import initial_parameters, part
from proreus.policies.scorer_policy import ScorerPolicy

FIRST_TRAINING_SEED = 1000
_SLOPE = 0.5  # small enough for tanh to be nearly linear over the feature's range
_SHARPNESS = 60.0  # how strongly the first policy follows the rule: near ties stay open


@dataclass(frozen=True)
class PPORunConfig:
    """What PPO trains on and how it is judged."""

    lanes: int = 64
    """Copies of the world that are played side by side."""
    horizon: int = 0
    """Pods of an episode; 0: as many as the workload has."""
    reward: Reward = "allocation"
    """What is rewarded: GPU (else CPU) share placed, or little time in the system."""
    train_seeds: int = 4
    """How many seeds, from 1000 on, the workloads are drawn with."""
    validation_seeds: int = 3
    """How many seeds, from 2000 on, the policy is judged on."""
    evaluate_every: int = 10
    """Updates between judgements; the learner is saved as often."""
    start: Literal["rule", "random"] = "rule"
    """Start from the strongest rule (one hidden unit carries its score, the rest learn what to add)."""


@dataclass(frozen=True)
class Report:
    """One update, and what came of judging it."""

    progress: Progress
    validation: dict[str, float] | None
    is_best: bool


def train_ppo(
    folder: Path,
    scenarios: Sequence[Scenario],
    settings: tuple[PPOConfig, PPORunConfig],
    *,
    resume: bool,
    stopped: Callable[[], bool],
) -> Iterator[Report]:
    """Train to the end, or until `stopped` says so between two updates; everything learned is saved then."""
    config, around = settings
    if len({scenario.options for scenario in scenarios}) != 1:
        raise UsageError("the scenarios treat pods that find no room in different ways: train on one kind")
    identity = Identity(
        algorithm="ppo",
        kind="scorer",
        scenarios=tuple(scenario.name for scenario in scenarios),
        config={**asdict(config), **asdict(around)},
        seed=config.seed,
    )
    run = GradientRun(folder, identity, resume=resume)
    seeds = range(FIRST_TRAINING_SEED, FIRST_TRAINING_SEED + around.train_seeds)
    batch = BatchedPods(
        [compiled_workload(scenario, seed) for scenario in scenarios for seed in seeds],
        around.lanes,
        config.seed,
        around.horizon,
        around.reward,
        BatchOptions(world=scenarios[0].options),
    )
    try:
        initial = initial_parameters(config.seed)
        if around.start == "rule":
            initial = rule_parameters(initial, gpus=yardstick(scenarios[0])[1] == "fgd")
        for progress in ppo(config, batch, initial=initial, saved=run.saved):
            last = progress.update == progress.updates or stopped()
            judged = progress.update % around.evaluate_every == 0 or last
            validation, is_best = None, False
            if judged:
                params = progress.learner.params.copy()
                validation = held_out_gains(
                    lambda params=params: ScorerPolicy("candidate", params),  # type: ignore[misc]
                    scenarios,
                    around.validation_seeds,
                )
                is_best = run.keep({"parameters": params}, validation, progress.steps)
            run.add(progress.update, _scalars(progress), validation)
            if judged:
                run.save_state(progress.update, progress.learner.capture())
            yield Report(progress, validation, is_best)
            if last:
                return
    finally:
        run.close()


def rule_parameters(initial: F32, *, gpus: bool) -> F32:
    """Parameters whose bids follow a rule: FGD's score with GPUs, else best fit (least CPU left).

    Unit 0 of the hidden layer carries the rule alone, nearly linearly; the other units start as they
    were, with bids near zero, so that learning adds to the rule what it lacks.
    """
    found = initial.copy()
    node, place = part(found, "node"), part(found, "place")
    node[:, 0] = 0.0
    part(found, "context")[:, 0] = 0.0
    part(found, "bias")[0] = 0.0
    if gpus:
        node[FGD_SCORE, 0] = _SLOPE
        node[ORDER, 0] = 0.001 * _SLOPE
    else:
        node[CPU_LEFT, 0] = -_SLOPE
    place[0] = _SHARPNESS / _SLOPE
    return found


def _scalars(progress: Progress) -> dict[str, float]:
    return {
        "steps": float(progress.steps),
        "steps_per_second": progress.steps_per_second,
        "return": progress.episode_return,
        "entropy": progress.entropy,
        "kl": progress.kl,
        "clip_fraction": progress.clip_fraction,
        "value_loss": progress.value_loss,
    }
