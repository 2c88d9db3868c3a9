"""PPO over numbered actions: for comparison, and for objectives of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.judge import Judge, confirming
from proreus.learning.learner import Configs, GradientLearner
from proreus.learning.learner_state import check_device, first_network, weights_of
from proreus.learning.ppo import PPOConfig, ppo
from proreus.learning.settings import at_least_one
from proreus.learning.update import Update
from proreus.model.errors import UsageError, WorkError
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.networks.rows import ActorCritic
from proreus.workers.processes import Workers
from proreus.worlds.inference.encoding.actions import SIZES, VERSION
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.chooser import Chooser
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.outcome import MEASURES
from proreus.worlds.inference.training.lanes import lanes_of


@dataclass(frozen=True)
class InferencePPOConfig(PPOConfig):
    """Settings of PPO over changes of pools."""

    steps: int = 50_000
    """Decisions to learn from, over all lanes."""
    hidden: int = 32
    """Width of the network's layers."""
    discount: float = 0.98
    """What a reward counts one decision later: a start is over after a dozen."""


@dataclass(frozen=True)
class InferenceLessons:
    """What is trained on and how it is judged."""

    lanes: int = 4
    """Runs that are played side by side."""
    validation_runs: int = 3
    """Runs by which the policy is judged."""
    confirm_runs: int = 6
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 20
    """Updates between judgements; the learner is saved as often."""

    def __post_init__(self) -> None:
        at_least_one(self, "lanes", "validation_runs", "confirm_runs", "evaluate_every")


def _the_one(scenarios: Sequence[InferenceScenario]) -> InferenceScenario:
    if len(scenarios) != 1:
        raise UsageError("ppo: lanes are of one scenario; name one with --scenarios")
    return scenarios[0]


def _train(
    scenarios: Sequence[InferenceScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    del workers  # the network is small: the lanes play in one thread
    config, lessons = configs
    check_device("ppo", config.device)
    yield from ppo(config, lanes_of(_the_one(scenarios), lessons.lanes), saved)


def _start(scenarios: Sequence[InferenceScenario], configs: Configs) -> Arrays:
    del scenarios
    return weights_of(first_network(ActorCritic, configs[0], SIZES))


def _policy(tensors: Arrays) -> AnyPolicy:
    try:
        return Chooser("candidate", bidder_of("actor", tensors, SIZES))
    except ValueError as error:
        raise WorkError(f"ppo: {error}; a lower learning rate may help") from error


def _played(scenario: InferenceScenario, seed: int, policy: AnyPolicy) -> Mapping[str, float]:
    return play(scenario, scenario.load(seed), policy, seed).measures


def _judge_of() -> Judge[InferenceScenario, AnyPolicy]:
    return Judge(_played, POLICIES.make, MEASURES)


def _judge(scenarios: Sequence[InferenceScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    policy = _policy(tensors)
    return _judge_of().gains(lambda: policy, scenarios, configs[-1].validation_runs)


def _confirm(scenarios: Sequence[InferenceScenario], configs: Configs, tensors: Arrays) -> dict[str, F64]:
    policy, lessons = _policy(tensors), configs[-1]
    seeds = confirming(lessons.validation_runs, lessons.confirm_runs)
    return _judge_of().each(lambda: policy, scenarios, seeds)


PPO = GradientLearner(
    world="inference",
    algorithm="ppo",
    configs=(InferencePPOConfig(), InferenceLessons()),
    kind="actor",
    encoding=VERSION,
    gain="fewer weighed GPU-hours than the best rule",
    about="a network that scores every change of the pools",
    example="--scenarios steady --steps 50000 --out runs/inference-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    start=_start,
    train=_train,
    judge=_judge,
    confirm=_confirm,
    tells=("return", "loss", "entropy"),
)
