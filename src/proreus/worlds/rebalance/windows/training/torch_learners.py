"""The learners over windows that need torch: QMIX, PPO, double DQN and DQN.

They learn from the same lanes (`training.lanes`) and are judged in the same way, as `es` is. Each starts from
a rule that is a linear score of moves: the first network decides as that rule does, and what is handed out is
never worse. What they learn plays as a policy that bids (`policies.networks.bidder`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from torch import nn

from proreus.contract.lanes import Arrays, Lanes
from proreus.kernels.arrays import F64
from proreus.learning.ddqn import DDQNConfig, ddqn
from proreus.learning.learner import Configs, GradientLearner
from proreus.learning.learner_state import check_device, check_memory, first_network, weights_of
from proreus.learning.ppo import PPOConfig, ppo
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.learning.settings import at_least_one, not_negative
from proreus.learning.step import Update
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.linear_start import with_scorer
from proreus.policies.networks.q_network import QNetwork
from proreus.policies.networks.row_networks import ActorCritic, QMIXNetwork
from proreus.workers.processes import Workers
from proreus.worlds.rebalance.windows.encoding.offers import CHOICES, SIZES, VERSION
from proreus.worlds.rebalance.windows.policies.adaptive import USUAL_PRICE
from proreus.worlds.rebalance.windows.policies.catalogue import OFFERING, bidding_policy
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig, WindowsGoal, starting_weights
from proreus.worlds.rebalance.windows.training.lanes import JoinedLanes, LaneSettings, WindowLanes, pool_of


@dataclass(frozen=True)
class WindowLessons:
    """What is trained on, where it starts and how it is judged."""

    horizon: int = 96
    """Windows of an episode, from a random place of the training part on."""
    train_seeds: int = 24
    """How many deployments there are to train on, where windows are generated."""
    price: float = USUAL_PRICE
    """What a migration costs: 1 is as much as all requests of one node in one window above the threshold."""
    start: str = "rule"
    """What the first network decides as: the balance rule, `learned` (as it is for the first scenario), or a
    run of es or a checkpoint of one."""
    sharpness: float = 0.1
    """How far apart the first network holds moves: so many times what the start scores them."""
    validation_seeds: int = 8
    """Deployments, or stretches of a recorded one, by which the policy is judged."""
    confirm_seeds: int = 24
    """Those after them that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 10
    """Updates between judgements; the learner is saved as often."""
    patience: int = 0
    """End after so many judgements without a new best; 0: never."""

    def __post_init__(self) -> None:
        at_least_one(self, "horizon", "train_seeds", "validation_seeds", "confirm_seeds", "evaluate_every")
        not_negative(self, "price", "patience")
        if not self.sharpness > 0.0:
            raise UsageError(f"sharpness: {self.sharpness} is not above 0")


@dataclass(frozen=True)
class WindowLaneLessons(WindowLessons):
    """The same for learners that play many runs side by side."""

    lanes: int = 16
    """Runs that are played side by side, of each scenario."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "lanes")


@dataclass(frozen=True)
class WindowsQMIXConfig(QMIXConfig):
    """Settings of QMIX over pods."""

    steps: int = 200_000
    """Choices to learn from, over all lanes; rounded up to whole chunks."""
    n_step: int = 8
    """Rewards that are summed before the target networks' estimate takes over; at most `chunk`."""
    discount: float = 0.95
    """What a reward counts one choice later."""
    capacity: int = 50_000
    """Transitions that are remembered; each holds two observations (9 kB)."""


@dataclass(frozen=True)
class WindowsPPOConfig(PPOConfig):
    """Settings of PPO over moves."""

    steps: int = 300_000
    """Choices to learn from, over all lanes; rounded up to whole updates."""
    learning_rate: float = 3e-4
    """Of Adam, at the start; it falls linearly to a tenth."""
    discount: float = 0.95
    """What a reward counts one choice later."""
    entropy: float = 0.0
    """Weight of the entropy bonus at the start; it falls linearly to zero."""
    target_kl: float = 0.01
    """An update stops early once the policy has moved this far; 0: never."""


@dataclass(frozen=True)
class WindowsDDQNConfig(DDQNConfig):
    """Settings of double dueling DQN over moves."""

    steps: int = 100_000
    """Decisions to learn from, in all."""
    n_step: int = 8
    """Rewards that are summed before the network's own estimate takes over."""
    discount: float = 0.95
    """What a reward counts one decision later."""
    batch_size: int = 128
    """Transitions per update."""
    capacity: int = 50_000
    """Transitions that are remembered; each holds two observations (9 kB)."""
    warm_up: int = 1_000
    """Decisions before the first update."""
    update_every: int = 4
    """Decisions per update."""
    epsilon_values: tuple[float, ...] = (0.9, 0.5, 0.2, 0.2)
    """The chance of a random action at those points, linear in between."""


@dataclass(frozen=True)
class WindowsDQNConfig(WindowsDDQNConfig):
    """Settings of DQN over moves: one network names and values actions, replay draws evenly."""

    priority_exponent: float = 0.0
    """How much large errors are preferred in replay: 0 not at all, 1 in proportion (alpha)."""


def _of_windows(scenarios: Sequence[WindowScenario], algorithm: str) -> tuple[WindowScenario, ...]:
    for scenario in scenarios:
        if not hasattr(scenario, "windows"):
            raise UsageError(
                f"{algorithm} learns from windows of requests, and {scenario.name!r} is none of them"
            )
    return tuple(scenarios)


@lru_cache(maxsize=2)
def _goal(scenarios: tuple[WindowScenario, ...], lessons: WindowLessons) -> WindowsGoal:
    """The judge that `es` has, and where training starts."""
    config = MovesESConfig(
        price=lessons.price,
        start=lessons.start,
        train_seeds=lessons.train_seeds,
        validation_seeds=lessons.validation_seeds,
        confirm_seeds=lessons.confirm_seeds,
    )
    return WindowsGoal(config, scenarios, ThreadPoolExecutor(1, "judge"))


@lru_cache(maxsize=4)
def _start_of(scenario: WindowScenario, start: str) -> F64:
    """[features] of the scorer that training starts from, and that makes the offers."""
    return starting_weights(MovesESConfig(start=start), scenario)


def _lanes(scenarios: tuple[WindowScenario, ...], lessons: WindowLessons) -> Lanes:
    settings = LaneSettings("train", lessons.horizon, _start_of(scenarios[0], lessons.start), lessons.price)
    count = lessons.lanes if isinstance(lessons, WindowLaneLessons) else 1
    parts = [WindowLanes(pool_of(each, lessons.train_seeds), count, settings) for each in scenarios]
    return parts[0] if len(parts) == 1 else JoinedLanes(parts)


def _learner(
    names: tuple[str, str, str],
    configs: Configs,
    network: Callable[[int, int, int], nn.Module],
    learn: Callable[..., Iterator[Update]],
) -> GradientLearner:
    """One of them: (algorithm, kind of policy, about); `learn` takes a config, lanes, a saved state and the
    first weights."""
    algorithm, kind, about = names

    def first(scenarios: tuple[WindowScenario, ...], asked: Configs) -> Arrays:
        """The network that decides as the start does."""
        config, lessons = asked
        try:
            drawn = weights_of(first_network(network, config, SIZES))
            return with_scorer(kind, drawn, _start_of(scenarios[0], lessons.start), lessons.sharpness)
        except ValueError as error:
            raise UsageError(f"{algorithm}: hidden {config.hidden}: {error}") from error

    def handed_out(
        network_of: Callable[[], Arrays], scenarios: tuple[WindowScenario, ...], asked: Configs
    ) -> Arrays:
        """A network with the scorer that makes it offers."""
        return {**network_of(), OFFERING: _start_of(scenarios[0], asked[-1].start)}

    def start(scenarios: Sequence[WindowScenario], asked: Configs) -> Arrays:
        known = _of_windows(scenarios, algorithm)
        return handed_out(lambda: first(known, asked), known, asked)

    def train(
        scenarios: Sequence[WindowScenario], asked: Configs, workers: Workers, saved: Arrays | None
    ) -> Iterator[Update]:
        del workers  # these networks are small: the lanes play in one thread
        known, (config, lessons) = _of_windows(scenarios, algorithm), asked
        check_device(algorithm, config.device)
        if not isinstance(lessons, WindowLaneLessons) and len(known) != 1:
            raise UsageError(f"{algorithm}: plays one episode at a time; name one scenario with --scenarios")
        if hasattr(config, "capacity"):
            observation = 4 * (CHOICES * SIZES[0] + SIZES[1]) + CHOICES
            check_memory(algorithm, config.capacity, observation, "any number of nodes")
        for update in learn(config, _lanes(known, lessons), saved, first(known, asked)):
            yield replace(update, tensors=partial(handed_out, update.tensors, known, asked))

    def policy_of(tensors: Arrays) -> MovePolicy:
        try:
            return bidding_policy("candidate", kind, tensors)
        except ValueError as error:
            raise WorkError(f"{algorithm}: {error}; a lower learning rate may help") from error

    def judge(scenarios: Sequence[WindowScenario], asked: Configs, tensors: Arrays) -> dict[str, float]:
        return _goal(_of_windows(scenarios, algorithm), asked[-1]).gains(policy_of(tensors))

    def confirm(scenarios: Sequence[WindowScenario], asked: Configs, tensors: Arrays) -> dict[str, F64]:
        return _goal(_of_windows(scenarios, algorithm), asked[-1]).confirmed_gains(policy_of(tensors))

    return GradientLearner(
        world="rebalance",
        algorithm=algorithm,
        configs=configs,
        kind=kind,
        encoding=VERSION,
        gain="gain over the best rule",
        about=about,
        example=f"--scenarios windows/serial --out runs/{algorithm}",
        needs="torch",
        not_on_ray="learns in one process; es spreads over Ray",
        start=start,
        train=train,
        judge=judge,
        confirm=confirm,
        tells=("return", "loss", "entropy" if algorithm == "ppo" else "epsilon"),
    )


QMIX = _learner(
    ("qmix", "agents", "pods as agents that bid to move, and a mixer of their values"),
    (WindowsQMIXConfig(), WindowLaneLessons()),
    QMIXNetwork,
    qmix,
)
# A move that is hardly worth it must be hardly ever tried: there are many of them, and each costs.
PPO = _learner(
    ("ppo", "actor", "a network that bids, which starts as the balance rule"),
    (WindowsPPOConfig(), WindowLaneLessons(sharpness=50.0)),
    ActorCritic,
    ppo,
)
DDQN = _learner(
    ("ddqn", "q", "a network that values every offered move, by double DQN with prioritised replay"),
    (WindowsDDQNConfig(), WindowLessons()),
    QNetwork,
    ddqn,
)
DQN = _learner(
    ("dqn", "q", "the same by DQN, replay drawn evenly"),
    (WindowsDQNConfig(), WindowLessons()),
    QNetwork,
    partial(ddqn, double=False),
)
