"""`proreus train --algo ppo`: PPO over scenarios, judged on held-out seeds, saved so that it can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

from proreus.kernels.arrays import F32
from proreus.learning.gradient_run import Arrays, GradientRun, Report, Update, live
from proreus.learning.runs import Identity
from proreus.model.errors import UsageError
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.pair import CPU_LEFT, FGD_SCORE, ORDER
from proreus.worlds.pods.policies.scorer import initial_parameters, part
from proreus.worlds.pods.policies.scorer_policy import ScorerPolicy
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.distributed import lanes_of
from proreus.worlds.pods.training.fused_ppo import PPOConfig, Progress, ppo
from proreus.worlds.pods.training.judge import held_out_gains, yardstick
from proreus.worlds.pods.training.lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.lessons import Lessons, training_workloads

_SLOPE = 0.5  # small enough for tanh to be nearly linear over the feature's range
_SHARPNESS = 60.0  # how strongly the first policy follows the rule: near ties stay open


@dataclass(frozen=True)
class PPOLessons(Lessons):
    """What PPO trains on, from where, and how it is judged."""

    lanes: int = 64
    """Copies of the world that are played side by side."""
    start: Literal["rule", "random"] = "rule"
    """Start from the strongest rule (one hidden unit carries its score, the rest learn what to add)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes < 1:
            raise UsageError(f"lanes: {self.lanes} is not at least 1")


def ppo_identity(scenarios: Sequence[Scenario], config: PPOConfig, lessons: PPOLessons) -> Identity:
    """What the run is; how many threads play is no part of it, for it changes nothing."""
    settings = {**asdict(replace(config, threads=0)), **asdict(lessons)}
    return Identity("ppo", "scorer", tuple(scenarios), settings, config.seed)


def train_ppo(
    run: GradientRun,
    scenarios: Sequence[Scenario],
    settings: tuple[PPOConfig, PPOLessons],
    *,
    workers: Workers,
    stopped: Callable[[], bool],
) -> Iterator[Report]:
    """Train to the end, or until `stopped` says so between two updates; everything learned is saved then."""
    config, lessons = settings
    config = replace(config, threads=workers.processes)

    def judge(tensors: Arrays) -> dict[str, float]:
        params = tensors["parameters"]
        return held_out_gains(lambda: ScorerPolicy("candidate", params), scenarios, lessons.validation_seeds)

    make = partial(new_batch, tuple(scenarios), config.seed, lessons)
    with closing(run), lanes_of(make, lessons.lanes, config.rollout_steps, workers) as lanes:
        initial = initial_parameters(config.seed)
        if lessons.start == "rule":
            initial = rule_parameters(initial, gpus=yardstick(scenarios[0])[1] == "fgd")
        updates = map(_update, ppo(config, lanes, initial=initial, saved=run.saved))
        yield from live(run, updates, judge, every=lessons.evaluate_every, stopped=stopped)


def new_batch(
    scenarios: tuple[Scenario, ...], seed: int, lessons: PPOLessons, share: tuple[int, int]
) -> BatchedPods:
    """A share of the lanes of a run, the same wherever it is made."""
    return BatchedPods(
        training_workloads(scenarios, lessons),
        lessons.lanes,
        seed,
        lessons.horizon,
        lessons.reward,
        BatchOptions(world=scenarios[0].options, share=share),
    )


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


def _update(progress: Progress) -> Update:
    learner = progress.learner
    return Update(
        number=progress.update,
        total=progress.updates,
        figures={
            "steps": float(progress.steps),
            "steps_per_second": progress.steps_per_second,
            "return": progress.episode_return,
            "entropy": progress.entropy,
            "kl": progress.kl,
            "clip_fraction": progress.clip_fraction,
            "value_loss": progress.value_loss,
        },
        tensors=lambda: {"parameters": learner.params.copy()},
        state=learner.capture,
    )
