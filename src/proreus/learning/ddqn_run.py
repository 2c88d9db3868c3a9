"""`proreus train --algo ddqn`: double dueling DQN over scenarios, judged on held-out seeds, saved to go on.

The saved state holds the networks, the optimiser, the replay memory and the seed and actions of the current
episode, which is played again. Networks this small are fastest on one thread, and then the result does not
depend on how many cores there are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from proreus.compare.scenario import Scenario
from proreus.encoding.context import CONTEXT_FEATURES
from proreus.encoding.pods import PAIR_FEATURES
from proreus.learning.ddqn import DDQNConfig, DDQNLearner, DDQNProgress, LearnerState, ddqn
from proreus.learning.gradient_run import Arrays, GradientRun, Report, Update, live
from proreus.learning.judge import held_out_gains
from proreus.learning.lane_env import LaneEnv
from proreus.learning.lessons import Lessons, training_workloads
from proreus.learning.runs import Identity
from proreus.model.errors import InputError, UsageError
from proreus.policies.q_network import network_of
from proreus.policies.q_policy import BiddingQPolicy

_VALUES = "values"  # what of the learner's state is not an array, as JSON
_MOST_REMEMBERED = 8 << 30


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

    with closing(run), _one_torch_thread():
        _check_device(config.device)
        env = LaneEnv(training_workloads(scenarios, lessons), lessons, scenarios[0].options)
        _check_memory(config.capacity, env.nodes)
        progress = ddqn(config, lambda: env, _state_from(run))
        yield from live(run, _updates(config, progress), judge, every=lessons.evaluate_every, stopped=stopped)


def _updates(config: DDQNConfig, progress: Iterator[DDQNProgress]) -> Iterator[Update]:
    begin, steps = time.perf_counter(), None
    for report in progress:
        now = time.perf_counter()
        made = report.step - (steps if steps is not None else report.step - config.report_every)
        learner = report.learner
        yield Update(
            number=-(-report.step // config.report_every),
            total=-(-config.steps // config.report_every),
            figures={
                "steps": float(report.step),
                "steps_per_second": made / max(now - begin, 1e-9),
                "return": report.mean_return,
                "loss": report.loss,
                "value": report.mean_value,
                "epsilon": report.epsilon,
            },
            tensors=lambda learner=learner: _tensors(learner),  # type: ignore[misc]
            state=lambda learner=learner: _state(learner),  # type: ignore[misc]
        )
        begin, steps = time.perf_counter(), report.step


def _tensors(learner: DDQNLearner) -> Arrays:
    return {name: tensor.cpu().numpy().copy() for name, tensor in learner.network.state_dict().items()}


def _state(learner: DDQNLearner) -> Arrays:
    captured = learner.capture()
    values = np.frombuffer(json.dumps(captured.values).encode(), dtype=np.uint8)
    return {**captured.arrays, _VALUES: values}


def _state_from(run: GradientRun) -> LearnerState | None:
    if run.saved is None:
        return None
    arrays = dict(run.saved)
    try:
        values: dict[str, Any] = json.loads(arrays.pop(_VALUES).tobytes())
    except (KeyError, ValueError) as error:
        raise InputError(f"cannot be resumed: {error}", file=run.path) from error
    return LearnerState(arrays, values)


def _check_device(name: str) -> None:
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"ddqn: device {name!r}: {str(error).splitlines()[0]}") from error


def _check_memory(capacity: int, nodes: int) -> None:
    """Refuse a replay memory that would not fit most machines, before hours of training fill it."""
    observation = 4 * (nodes * len(PAIR_FEATURES) + len(CONTEXT_FEATURES)) + 2 * nodes + 2
    needed = 2 * capacity * observation
    if needed > _MOST_REMEMBERED:
        raise UsageError(
            f"ddqn: remembering {capacity:,} decisions on {nodes:,} nodes takes {needed / 2**30:.0f} GiB: "
            f"at most {_MOST_REMEMBERED // (2 * observation):,} fit (--capacity)"
        )


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
