"""PPO over the same rows: for comparison, and where rewards of single decisions say enough."""

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
from proreus.policies.networks.rows import ActorCritic
from proreus.workers.processes import Workers
from proreus.worlds.functions.encoding.rows import SIZES, VERSION
from proreus.worlds.functions.play import play
from proreus.worlds.functions.policies.catalogue import network_policy, rule_policy
from proreus.worlds.functions.policies.policy import RulePolicy
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.outcome import MEASURES
from proreus.worlds.functions.training.lanes import lanes_of


@dataclass(frozen=True)
class FunctionsPPOConfig(PPOConfig):
    """Settings of PPO over placements."""

    steps: int = 200_000
    """Decisions to learn from, over all lanes."""
    hidden: int = 32
    """Width of the network's layers."""
    discount: float = 0.99
    """What a reward counts one decision later."""


@dataclass(frozen=True)
class FunctionsLessons:
    """What is trained on and how it is judged."""

    lanes: int = 32
    """Runs that are played side by side."""
    validation_runs: int = 6
    """Runs by which the policy is judged."""
    confirm_runs: int = 30
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 20
    """Updates between judgements; the learner is saved as often."""

    def __post_init__(self) -> None:
        at_least_one(self, "lanes", "validation_runs", "confirm_runs", "evaluate_every")


def _the_one(scenarios: Sequence[FunctionsScenario]) -> FunctionsScenario:
    if len(scenarios) != 1:
        raise UsageError("ppo: lanes are of one scenario; name one with --scenarios")
    return scenarios[0]


def _train(
    scenarios: Sequence[FunctionsScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    del workers  # the network is small: the lanes play in one thread
    config, lessons = configs
    check_device("ppo", config.device)
    yield from ppo(config, lanes_of(_the_one(scenarios), lessons.lanes), saved)


def _start(scenarios: Sequence[FunctionsScenario], configs: Configs) -> Arrays:
    del scenarios
    return weights_of(first_network(ActorCritic, configs[0], SIZES))


def _policy(tensors: Arrays) -> RulePolicy:
    try:
        return network_policy("candidate", tensors)
    except ValueError as error:
        raise WorkError(f"ppo: {error}; a lower learning rate may help") from error


def _played(scenario: FunctionsScenario, seed: int, policy: RulePolicy) -> Mapping[str, float]:
    return play(scenario, scenario.load(seed), policy, seed).measures


def _judge(scenarios: Sequence[FunctionsScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    policy = _policy(tensors)
    judge = Judge[FunctionsScenario, RulePolicy](_played, rule_policy, MEASURES)
    return judge.gains(lambda: policy, scenarios, configs[-1].validation_runs)


def _confirm(scenarios: Sequence[FunctionsScenario], configs: Configs, tensors: Arrays) -> dict[str, F64]:
    policy, lessons = _policy(tensors), configs[-1]
    judge = Judge[FunctionsScenario, RulePolicy](_played, rule_policy, MEASURES)
    seeds = confirming(lessons.validation_runs, lessons.confirm_runs)
    return judge.each(lambda: policy, scenarios, seeds)


PPO = GradientLearner(
    world="functions",
    algorithm="ppo",
    configs=(FunctionsPPOConfig(), FunctionsLessons()),
    kind="actor",
    encoding=VERSION,
    gain="less than the best rule, in the measure's unit",
    about="a network that bids",
    example="--scenarios busy@60 --steps 200000 --out runs/functions-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    start=_start,
    train=_train,
    judge=_judge,
    confirm=_confirm,
    tells=("return", "loss", "entropy"),
)
