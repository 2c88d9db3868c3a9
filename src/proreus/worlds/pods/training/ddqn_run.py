"""`proreus train --algo ddqn`: double dueling DQN over scenarios, judged on held-out seeds, saved to go on.

The saved state holds the networks, the optimiser, the replay memory and the seed and actions of the current
episode, which is played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict

from proreus.learning.ddqn import DDQNConfig, DDQNProgress, ddqn
from proreus.learning.gradient_run import Arrays, GradientRun, Report, live
from proreus.learning.learner_state import (
    Stage,
    check_device,
    check_memory,
    one_torch_thread,
    saved_state,
    updates_of,
)
from proreus.learning.runs import Identity
from proreus.policies.networks.q import network_of
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.policies.q_policy import BiddingQPolicy
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.judge import held_out_gains
from proreus.worlds.pods.training.lane_env import LaneEnv
from proreus.worlds.pods.training.lessons import Lessons, training_workloads


def ddqn_identity(scenarios: Sequence[Scenario], config: DDQNConfig, lessons: Lessons) -> Identity:
    """What the run is."""
    return Identity("ddqn", "q", tuple(scenarios), {**asdict(config), **asdict(lessons)}, config.seed)


def train_ddqn(
    run: GradientRun,
    scenarios: Sequence[Scenario],
    settings: tuple[DDQNConfig, Lessons],
    *,
    stopped: Callable[[], bool],
) -> Iterator[Report]:
    """Train to the end, or until `stopped` says so between two reports; everything learned is saved then."""
    config, lessons = settings

    def judge(tensors: Arrays) -> dict[str, float]:
        network = network_of(tensors)
        return held_out_gains(
            lambda: BiddingQPolicy("candidate", network), scenarios, lessons.validation_seeds
        )

    with closing(run), one_torch_thread():
        check_device("ddqn", config.device)
        env = LaneEnv(training_workloads(scenarios, lessons), lessons, scenarios[0].options)
        observation = 4 * (env.nodes * len(PAIR_FEATURES) + len(CONTEXT_FEATURES)) + 2 * env.nodes + 2
        check_memory("ddqn", config.capacity, observation, f"{env.nodes:,} nodes")
        progress = ddqn(config, lambda: env, saved_state(run))
        updates = updates_of(map(ddqn_stage, progress), config.report_every, config.steps)
        yield from live(run, updates, judge, every=lessons.evaluate_every, stopped=stopped)


def ddqn_stage(progress: DDQNProgress) -> Stage:
    """A report of the learner, as a run records it."""
    figures = {
        "return": progress.mean_return,
        "loss": progress.loss,
        "value": progress.mean_value,
        "epsilon": progress.epsilon,
    }
    return Stage(progress.step, figures, progress.learner)
