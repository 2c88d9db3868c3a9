"""The learner of pods that imitates: a linear scorer learns to choose as a slower policy does.

A round plays episodes, some by the teacher and some by the pupil while the teacher says what it would do
(DAgger: else the pupil never sees what its own mistakes lead to), and fits the pupil to all choices so far.
Beside the weights it learns what gaps on shared devices are worth, which is what a planner knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.imitation import agreement, cross_entropy, fit
from proreus.learning.learner import Configs, GradientLearner
from proreus.learning.learner_state import part_of, under, values_of, with_values
from proreus.learning.settings import at_least_one, not_negative
from proreus.learning.step import StepRate, Update
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.torch_threads import few_torch_threads
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.pair import DEMAND_FIGURES, POD_KINDS, VERSION
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.checkpoint_tensors import linear_tensors
from proreus.worlds.pods.policies.rules.columns import LINEAR, ORDERED
from proreus.worlds.pods.policies.rules.policy import LinearScorer, RuleOptions, RulePolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.devices import LEVELS
from proreus.worlds.pods.training.demonstrations import (
    SHARES_GPU,
    DemonstrationRecorder,
    Demonstrations,
    Taking,
    show,
)
from proreus.worlds.pods.training.evaluation import compiled_workload, confirmed_gains, gains
from proreus.worlds.pods.training.goal import starting_weights, usual_demand

_SHARPEST = 9.0
"""Logarithm of the most that a start's scores are multiplied by: one that is always right has no bound."""
_EMPTY_EPISODES = 20
"""Episodes in a row without a choice, after which there is none to be expected."""


@dataclass(frozen=True)
class ImitationConfig:
    """Settings of imitation."""

    steps: int = 24_000
    """The teacher's choices to learn from, in all."""
    seed: int = 0
    """Determines the episodes, who plays them, and which choices are recorded."""
    teacher: str = "planner"
    """Who is imitated: any policy of the world, a run or a checkpoint."""
    futures: int = 4
    """Where the teacher is a planner: how many futures a plan rests on."""
    start: str = "rule"
    """Where the pupil starts: from the strongest rule, or from `learned`, a run or a checkpoint."""
    round_steps: int = 4_000
    """Choices that are recorded between two fits."""
    pupil_share: float = 0.5
    """Share of the episodes after the first round that the pupil plays, while the teacher says what it would
    do."""
    candidates: int = 32
    """Nodes of a choice that are recorded, the teacher's among them."""
    gaps: bool = True
    """Also learn what gaps on shared devices are worth, not the weights of features alone."""
    decay: float = 1e-7
    """How much a weight that moves away from the start costs, squared."""
    iterations: int = 100
    """Of L-BFGS, at most, in a fit."""

    def __post_init__(self) -> None:
        at_least_one(self, "steps", "futures", "round_steps", "iterations")
        not_negative(self, "decay")
        if self.candidates < 2:
            raise UsageError(f"candidates: {self.candidates} leaves nothing to choose from")
        if not 0 <= self.pupil_share <= 1:
            raise UsageError(f"pupil_share: {self.pupil_share} is not between 0 and 1")


@dataclass(frozen=True)
class ImitationLessons:
    """What is trained on and how it is judged."""

    train_seeds: int = 10
    """How many seeds, from 1000 on, the episodes are drawn with."""
    validation_seeds: int = 16
    """How many seeds, from 2000 on, the pupil is judged on: fewer choose what was lucky."""
    confirm_seeds: int = 30
    """How many seeds after those say, at the end, how much better the best is than the start."""
    evaluate_every: int = 1
    """Rounds between judgements; the learner is saved as often."""
    patience: int = 5
    """End after so many judgements without a new best; 0: never."""

    def __post_init__(self) -> None:
        at_least_one(self, "train_seeds", "validation_seeds", "confirm_seeds", "evaluate_every")
        not_negative(self, "patience")


class Pupil:
    """Learns by rounds; what it was shown and what it is come back from its state."""

    def __init__(self, scenarios: Sequence[PodScenario], configs: Configs, saved: Arrays | None) -> None:
        self._config, self._lessons = configs
        self._scenarios = [scenario.of_part("train") for scenario in scenarios]
        self._start = starting_scorer(self._scenarios, self._config.start)
        self.scorer, self._shown, self.round = self._start, Demonstrations.nothing(self._config.candidates), 0
        if saved is not None:
            self._shown = Demonstrations(**part_of(saved, "shown"))
            self.scorer = LinearScorer(**part_of(saved, "scorer"))
            self.round = int(values_of(saved)["round"])

    @property
    def steps(self) -> int:
        """Choices that it has learned from."""
        return len(self._shown)

    def learn(self) -> dict[str, float]:
        """One round: episodes, then a fit; how it went."""
        self.round += 1
        wanted = min(self._config.round_steps, self._config.steps - self.steps)
        self._shown = self._shown.with_more(self._watch(wanted))
        self.scorer, figures = fitted(self._start, self._shown, self._config)
        return figures

    def _watch(self, wanted: int) -> Demonstrations:
        """So many choices, from as many episodes as it takes; the scenarios take turns."""
        random = np.random.default_rng([self._config.seed, self.round])
        demonstrations, empty = Demonstrations.nothing(self._config.candidates), 0
        while len(demonstrations) < wanted and empty < _EMPTY_EPISODES:
            for k, scenario in enumerate(self._scenarios):
                due = -(-(wanted - len(demonstrations)) // (len(self._scenarios) - k))
                episode = self._episode(scenario, due, random)
                empty = 0 if len(episode) else empty + 1
                demonstrations = demonstrations.with_more(episode)
        if len(demonstrations) < wanted:
            raise WorkError(f"imitate: {self._config.teacher} never had several nodes to choose from")
        return demonstrations

    def _episode(self, scenario: PodScenario, due: int, random: np.random.Generator) -> Demonstrations:
        """At most `due` choices of one episode, spread over it."""
        work = compiled_workload(scenario, int(random.integers(self._lessons.train_seeds)))
        seed, by_pupil = int(random.integers(2**31)), random.random() < self._config.pupil_share
        teacher = make_policy(self._config.teacher, PolicyOptions(futures=self._config.futures), seed)
        player = policy_of(self.scorer) if by_pupil and self.round > 1 else None
        # A few more than are due, since not every decision is a choice; those too many are left out by lot.
        taking = Taking(min(1.0, 1.5 * due / len(work.workload.pods)), self._config.candidates)
        world = PodsWorld(work, scenario.options)
        demonstrations = show(
            world, DemonstrationRecorder(world, self.scorer, taking, random), teacher, player
        )
        if len(demonstrations) <= due:
            return demonstrations
        return demonstrations.some(np.sort(random.choice(len(demonstrations), due, replace=False)))

    def state(self) -> Arrays:
        """All it takes to go on."""
        arrays = under("shown", dict(self._shown.arrays())) | under("scorer", linear_tensors(self.scorer))
        return with_values(arrays, {"round": self.round})


def starting_scorer(scenarios: Sequence[PodScenario], start: str) -> LinearScorer:
    """What a pupil starts from; scenarios: of the part to train on."""
    weights, gaps = starting_weights(start, compiled_workload(scenarios[0], 0))
    by_demand = np.zeros((len(DEMAND_FIGURES), *weights.shape))
    return LinearScorer(weights, by_demand, usual_demand(scenarios), gaps)


def policy_of(scorer: LinearScorer) -> RulePolicy:
    """The pupil as a policy."""
    return RulePolicy(RuleOptions("candidate", LINEAR, ORDERED, linear=scorer))


def fitted(
    start: LinearScorer, shown: Demonstrations, config: ImitationConfig
) -> tuple[LinearScorer, dict[str, float]]:
    """The scorer under which the teacher's choices are likeliest, near the start; how it went.

    First it is found how sharply the start's own scores tell the teacher's choice, for each kind of pod, and
    only then how to change them: a start that is always right stays as it is.
    """
    lesson = _Lesson(shown)
    sharpness = torch.zeros(len(POD_KINDS), dtype=torch.float64)
    weights = torch.from_numpy(start.weights.copy())
    gaps = torch.from_numpy(start.gaps.copy() if start.gaps.size else np.zeros(LEVELS))
    scores = lesson.scores(weights, gaps)

    def sharpened() -> Tensor:
        return scores * sharpness.clamp(max=_SHARPEST).exp()[lesson.kind][:, None]

    with few_torch_threads():
        fit([sharpness], lambda: cross_entropy(lesson.legal(sharpened())), config.iterations)
        before = sharpened()
        moved, worth = torch.zeros_like(weights), torch.zeros_like(gaps)

        def changed() -> Tensor:
            return lesson.legal(before + lesson.scores(moved, worth))

        def loss() -> Tensor:
            # Of gaps what counts is how neighbours differ: what was never seen is like what is beside it.
            return cross_entropy(changed()) + config.decay * (
                moved.square().sum() + worth.diff().square().sum()
            )

        final = fit([moved, worth] if config.gaps else [moved], loss, config.iterations)
    factors = sharpness.clamp(max=_SHARPEST).exp()
    known = config.gaps or start.gaps.size > 0
    linear_scorer = LinearScorer(
        (factors[:, None] * weights + moved).numpy(),
        start.by_demand,
        start.usual,
        (factors[SHARES_GPU] * gaps + worth).numpy() if known else np.zeros(0),
    )
    figures = {
        "loss": final,
        "agreement": agreement(changed()),
        "start_agreement": agreement(lesson.legal(before)),
    }
    return linear_scorer, figures


class _Lesson:
    """What was shown, as tensors."""

    def __init__(self, shown: Demonstrations) -> None:
        self.kind = torch.from_numpy(shown.kind)
        self._rows = torch.from_numpy(shown.rows.astype(np.float64))
        self._before, self._after = (torch.from_numpy(levels) for levels in shown.levels())
        places = torch.arange(shown.rows.shape[1])
        self._none = places >= torch.from_numpy(shown.count)[:, None]

    def scores(self, weights: Tensor, gaps: Tensor) -> Tensor:
        """[D, K]"""
        of_pairs = torch.bmm(self._rows, weights[self.kind][:, :, None])[:, :, 0]
        return of_pairs + gaps[self._after] - gaps[self._before]

    def legal(self, scores: Tensor) -> Tensor:
        """Minus infinity where there is no candidate."""
        return scores.masked_fill(self._none, -torch.inf)


def _train(
    scenarios: Sequence[PodScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    del workers
    config = configs[0]
    pupil = Pupil(scenarios, configs, saved)
    pace = StepRate(pupil.steps)
    while pupil.steps < config.steps:
        figures = pupil.learn()
        rounds_left = -(-(config.steps - pupil.steps) // config.round_steps)
        yield Update(
            number=pupil.round,
            total=pupil.round + rounds_left,
            figures={
                "steps": float(pupil.steps),
                "steps_per_second": pace.rate(pupil.steps),
                **figures,
            },
            tensors=partial(_tensors, pupil.scorer),
            state=pupil.state,
        )


def _tensors(scorer: LinearScorer) -> Arrays:
    return dict(linear_tensors(scorer))


def _start(scenarios: Sequence[PodScenario], configs: Configs) -> Arrays:
    parts = [scenario.of_part("train") for scenario in scenarios]
    return _tensors(starting_scorer(parts, configs[0].start))


def _judge(
    scenarios: Sequence[PodScenario], configs: Configs, tensors: Mapping[str, Any]
) -> dict[str, float]:
    return gains(partial(policy_of, LinearScorer(**tensors)), scenarios, configs[-1])


def _confirm(
    scenarios: Sequence[PodScenario], configs: Configs, tensors: Mapping[str, Any]
) -> dict[str, F64]:
    return confirmed_gains(partial(policy_of, LinearScorer(**tensors)), scenarios, configs[-1])


IMITATE = GradientLearner(
    world="pods",
    algorithm="imitate",
    configs=(ImitationConfig(), ImitationLessons()),
    kind="linear",
    encoding=VERSION,
    gain="gain over the strongest rule",
    about="a linear scorer that learns to choose as a slower policy does, such as the planner",
    example="--scenarios gpu --teacher planner --start learned --out runs/x",
    needs="torch",
    not_on_ray="watches its teacher in one process; es and ppo spread over Ray",
    start=_start,
    train=_train,
    judge=_judge,
    confirm=_confirm,
    tells=("loss", "agreement"),
)
