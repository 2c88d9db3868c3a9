"""`proreus train vms --algo qmix|ppo|ddqn`: networks over servers, judged on held-out starts, saved to go on.

All three learn from the same runs and are judged in the same way; what they learn plays as a policy that bids
(`policies.vms.bidder`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import assert_never

from proreus.learning.ddqn import DDQNConfig, ddqn
from proreus.learning.gradient_run import Arrays, GradientRun, Report, live
from proreus.learning.learner_state import (
    LearnerState,
    Stage,
    check_device,
    check_memory,
    one_torch_thread,
    saved_state,
    updates_of,
)
from proreus.learning.ppo import ServersPPOConfig, ServersPPOProgress, servers_ppo
from proreus.learning.qmix import QMIXConfig, QMIXProgress, qmix
from proreus.learning.runs import Identity
from proreus.model.errors import WorkError
from proreus.worlds.pods.training.ddqn_run import ddqn_stage
from proreus.worlds.vms.encoding.rows import CONTEXT_FEATURES, ROW_FEATURES, VERSION
from proreus.worlds.vms.policies.bidder import bidder_of
from proreus.worlds.vms.policies.columns import BIDDING
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.training.judge import LaneLessons, VmsLessons, VmsSchool
from proreus.worlds.vms.training.servers import OneLane


@dataclass(frozen=True)
class ServersDDQNConfig(DDQNConfig):
    """Settings of double dueling DQN over servers."""

    steps: int = 150_000
    """Decisions to learn from, in all."""
    n_step: int = 32
    """Rewards that are summed before the network's own estimate takes over."""
    batch_size: int = 128
    """Transitions per update."""
    capacity: int = 100_000
    """Transitions that are remembered; each holds two observations (5 servers: 1 kB)."""
    warm_up: int = 1_000
    """Decisions before the first update."""
    update_every: int = 8
    """Decisions per update."""


Config = QMIXConfig | ServersPPOConfig | ServersDDQNConfig


def servers_identity(scenario: str, config: Config, lessons: VmsLessons) -> Identity:
    """What the run is."""
    algorithm, kind = _names(config)
    settings = {**asdict(config), **asdict(lessons)}
    gain = "% better than the best rule"
    return Identity(algorithm, kind, (scenario,), settings, config.seed, "vms", VERSION, gain)


def train_servers(
    run: GradientRun, school: VmsSchool, config: Config, *, stopped: Callable[[], bool]
) -> Iterator[Report]:
    """Train to the end, or until `stopped` says so between two updates; everything learned is saved then."""
    algorithm, kind = _names(config)

    def judge(tensors: Arrays) -> dict[str, float]:
        try:
            policy = VmRulePolicy("candidate", BIDDING, bidder=bidder_of(kind, tensors))
        except ValueError as error:
            raise WorkError(f"{algorithm}: {error}; a lower learning rate may help") from error
        return {school.name: school.gain(policy)}

    with closing(run), one_torch_thread():
        check_device(algorithm, config.device)
        stages, each = _stages(school, config, saved_state(run))
        updates = updates_of(stages, each, config.steps)
        yield from live(run, updates, judge, every=school.lessons.evaluate_every, stopped=stopped)


def _names(config: Config) -> tuple[str, str]:
    """(algorithm, kind of the policy that it learns)."""
    match config:
        case QMIXConfig():
            return "qmix", "agents"
        case ServersPPOConfig():
            return "ppo", "actor"
        case ServersDDQNConfig():
            return "ddqn", "q"
        case _:
            assert_never(config)


def _stages(school: VmsSchool, config: Config, resume: LearnerState | None) -> tuple[Iterator[Stage], int]:
    """(how the learner comes along, decisions between two stages)."""
    servers = school.options.server_count
    observation = 4 * (2 * servers * len(ROW_FEATURES) + len(CONTEXT_FEATURES)) + 2 * servers
    match config:
        case QMIXConfig():
            check_memory("qmix", config.capacity, observation, f"{servers:,} servers")
            env = school.servers(_lanes(school))
            return map(_qmix_stage, qmix(config, env, resume)), config.chunk * env.lanes
        case ServersPPOConfig():
            env = school.servers(_lanes(school))
            return map(_ppo_stage, servers_ppo(config, env, resume)), config.rollout_steps * env.lanes
        case ServersDDQNConfig():
            check_memory("ddqn", config.capacity, observation, f"{servers:,} servers")
            one = OneLane(school.servers(1))
            return map(ddqn_stage, ddqn(config, lambda: one, resume)), config.report_every
        case _:
            assert_never(config)


def _lanes(school: VmsSchool) -> int:
    assert isinstance(school.lessons, LaneLessons), "of a learner that plays many runs"
    return school.lessons.lanes


def _qmix_stage(progress: QMIXProgress) -> Stage:
    figures = {
        "return": progress.mean_return,
        "loss": progress.loss,
        "value": progress.mean_value,
        "epsilon": progress.epsilon,
    }
    return Stage(progress.steps, figures, progress.learner)


def _ppo_stage(progress: ServersPPOProgress) -> Stage:
    figures = {
        "return": progress.mean_return,
        "loss": progress.loss,
        "entropy": progress.entropy,
        "kl": progress.kl,
    }
    return Stage(progress.steps, figures, progress.learner)
