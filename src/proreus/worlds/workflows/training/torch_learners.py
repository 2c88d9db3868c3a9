"""PPO over the same rows: for comparison, and where rewards of single decisions say enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proreus.contract.lanes import Arrays
from proreus.learning.judge import Judge
from proreus.learning.learner import Configs, GradientLearner
from proreus.learning.learner_state import check_device, one_torch_thread
from proreus.learning.ppo import PPOConfig, ppo
from proreus.learning.settings import at_least_one
from proreus.learning.update import Update
from proreus.model.errors import UsageError, WorkError
from proreus.workers.processes import Workers
from proreus.worlds.workflows.encoding.rows import VERSION
from proreus.worlds.workflows.play import play
from proreus.worlds.workflows.policies.catalogue import rule_policy
from proreus.worlds.workflows.policies.policy import RulePolicy
from proreus.worlds.workflows.scenarios import WorkflowsScenario
from proreus.worlds.workflows.simulation.outcome import MEASURES
from proreus.worlds.workflows.training.goal import network_policy
from proreus.worlds.workflows.training.lanes import lanes_of


@dataclass(frozen=True)
class WorkflowsPPOConfig(PPOConfig):
    """Settings of PPO over placements."""

    steps: int = 200_000
    """Decisions to learn from, over all lanes."""
    hidden: int = 32
    """Width of the network's layers."""
    discount: float = 0.998
    """What a dollar counts one decision later: a workflow has a hundred of them."""


@dataclass(frozen=True)
class WorkflowsLessons:
    """What is trained on and how it is judged."""

    lanes: int = 8
    """Runs that are played side by side."""
    validation_runs: int = 6
    """Runs by which the policy is judged."""
    evaluate_every: int = 20
    """Updates between judgements; the learner is saved as often."""

    def __post_init__(self) -> None:
        at_least_one(self, "lanes", "validation_runs", "evaluate_every")


def _the_one(scenarios: Sequence[WorkflowsScenario]) -> WorkflowsScenario:
    if len(scenarios) != 1:
        raise UsageError("ppo: lanes are of one scenario; name one with --scenarios")
    return scenarios[0]


def _train(
    scenarios: Sequence[WorkflowsScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    del workers  # the network is small: the lanes play in one thread
    config, lessons = configs
    with one_torch_thread():
        check_device("ppo", config.device)
        yield from ppo(config, lanes_of(_the_one(scenarios), lessons.lanes), saved)


def _judge(scenarios: Sequence[WorkflowsScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    try:
        policy = network_policy(tensors)
    except ValueError as error:
        raise WorkError(f"ppo: {error}; a lower learning rate may help") from error

    def played(scenario: WorkflowsScenario, seed: int, one: RulePolicy) -> dict[str, float]:
        return play(scenario, scenario.load(seed), one, seed).measures

    judge = Judge[WorkflowsScenario, RulePolicy](played, rule_policy, MEASURES)
    return judge.gains(lambda: policy, scenarios, configs[-1].validation_runs)


PPO = GradientLearner(
    world="workflows",
    algorithm="ppo",
    configs=(WorkflowsPPOConfig(), WorkflowsLessons()),
    kind="actor",
    encoding=VERSION,
    gain="less than the best rule, in the measure's unit",
    about="a network that bids",
    example="--scenarios busy@10 --steps 200000 --out runs/workflows-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    train=_train,
    judge=_judge,
    tells=("return", "loss", "entropy"),
)
