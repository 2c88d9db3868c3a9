"""The learners of pods: an evolution strategy over a linear scorer, PPO over a scorer network; DDQN, which
needs torch, stands in `torch_learners`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, assert_never

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32, F64
from proreus.learning.device import uses_cuda
from proreus.learning.learner import Configs, EvolutionLearner, GradientLearner
from proreus.learning.settings import at_least_one
from proreus.learning.step import Update
from proreus.model.errors import UsageError
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.pair import CPU_LEFT, FGD_SCORE, ORDER, VERSION
from proreus.worlds.pods.play import warm_up
from proreus.worlds.pods.policies.scorer import initial_parameters, part
from proreus.worlds.pods.policies.scorer_policy import ScorerPolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.training.base_pods import why_on_the_host
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.distributed import lanes_of
from proreus.worlds.pods.training.evaluation import (
    Lessons,
    compiled_workload,
    confirmed_gains,
    gains,
    training_workloads,
)
from proreus.worlds.pods.training.fused_ppo import FusedPPOConfig, fused_ppo
from proreus.worlds.pods.training.goal import START_RULE, ESConfig, PodsGoal, Rater

_STEEPNESS = 0.5  # small enough for tanh to be nearly linear over the feature's range
_SHARPNESS = 300.0  # how strongly the first policy follows the rule: near ties stay open
_IN_ORDER = 0.01  # among nodes that the rule holds equal, the first in order, as the rule itself has it


@dataclass(frozen=True)
class PPOLessons(Lessons):
    """What PPO trains on, from where, and how it is judged."""

    lanes: int = 64
    """Copies of the world that are played side by side."""
    start: Literal["rule", "random"] = "rule"
    """Start from the strongest rule (one hidden unit carries its score, the rest learn what to add)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "lanes")


def _goal(scenarios: Sequence[PodScenario], config: ESConfig, pool: Executor) -> PodsGoal:
    warm_up()  # before worker processes want them all at one time
    return PodsGoal(config, scenarios, pool, rater_of(config, scenarios))


def rater_of(config: ESConfig, scenarios: Sequence[PodScenario]) -> Rater | None:
    """Where the whole population plays at once; None: on the workers. Torch is imported for a GPU alone."""
    if not uses_cuda(config.device):
        return None
    from proreus.worlds.pods.training.device.population import RATED, PopulationRater

    parts, seeds = [each.of_part("train") for each in scenarios], range(config.train_seeds)
    workloads = [compiled_workload(part, seed) for part in parts for seed in seeds]
    reason = why_on_the_host(workloads, evicts=False)
    if config.measure not in RATED:
        reason = f"--measure {config.measure} is taken on the host's cores: use --device cpu"
    if reason is None:
        return PopulationRater("cuda", config.measure)
    if config.device == "cuda":
        raise UsageError(reason)
    return None


def _note_of_populations(scenarios: Sequence[PodScenario], configs: Configs, workers: Workers) -> str:
    del workers
    return _way_told() if rater_of(configs[0], scenarios) is not None else ""


def _note_of_lanes(scenarios: Sequence[PodScenario], configs: Configs, workers: Workers) -> str:
    there = uses_cuda(configs[0].device) and _on_device(scenarios, configs, workers)
    return _way_told() if there else ""


def _way_told() -> str:
    from proreus.learning.tensor_lanes.triton_support import way_told

    return way_told()


def _train(
    scenarios: Sequence[PodScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    config, lessons = configs
    initial = _start(scenarios, configs)["parameters"]
    if _on_device(scenarios, configs, workers):
        from proreus.worlds.pods.training.device.lanes import DeviceLanes
        from proreus.worlds.pods.training.device.ppo import device_ppo

        there = DeviceLanes(
            training_workloads(scenarios, lessons),
            lessons.lanes,
            config.seed,
            lessons.horizon,
            lessons.reward,
            BatchOptions(world=scenarios[0].options, device="cuda" if uses_cuda(config.device) else "cpu"),
        )
        yield from device_ppo(config, there, initial=initial, saved=saved)
        return
    make = partial(new_batch, tuple(scenarios), config.seed, lessons)
    with lanes_of(make, lessons.lanes, config.rollout_steps, workers) as lanes:
        threads = replace(config, threads=workers.processes)
        yield from fused_ppo(threads, lanes, initial=initial, saved=saved)


def _on_device(scenarios: Sequence[PodScenario], configs: Configs, workers: Workers) -> bool:
    """Whether the worlds play where the gradients are computed."""
    config, lessons = configs
    match config.worlds:
        case "host":
            return False
        case "device":
            if workers.ray:
                raise UsageError("--worlds device: the lanes of a Ray cluster play on its cores; use host")
            if importlib.util.find_spec("torch") is None:
                raise UsageError("--worlds device needs torch: pip install 'proreus[learn]'")
            return True
        case "auto":
            return (
                not workers.ray
                and uses_cuda(config.device)
                and why_on_the_host(training_workloads(scenarios, lessons)) is None
            )
        case _:
            assert_never(config.worlds)


def _start(scenarios: Sequence[PodScenario], configs: Configs) -> Arrays:
    config, lessons = configs
    initial = initial_parameters(config.seed)
    if lessons.start == "rule":
        initial = rule_parameters(initial, gpus="fgd" in scenarios[0].yardstick()[1])
    return {"parameters": initial}


def _judge(scenarios: Sequence[PodScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    return gains(partial(ScorerPolicy, "candidate", tensors["parameters"]), scenarios, configs[-1])


def _confirm(scenarios: Sequence[PodScenario], configs: Configs, tensors: Arrays) -> dict[str, F64]:
    return confirmed_gains(partial(ScorerPolicy, "candidate", tensors["parameters"]), scenarios, configs[-1])


def new_batch(
    scenarios: tuple[PodScenario, ...], seed: int, lessons: PPOLessons, share: tuple[int, int]
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

    Unit 0 of the hidden layer carries the rule alone, nearly linearly; the other units bid nothing, so that
    learning adds to the rule what it lacks. Without an order among equals, of which a rule has many, what is
    drawn in training would be far from what plays, the highest bid.
    """
    parameters = initial.copy()
    node, place = part(parameters, "node"), part(parameters, "place")
    node[:, 0] = 0.0
    part(parameters, "context")[:, 0] = 0.0
    part(parameters, "bias")[0] = 0.0
    if gpus:
        node[FGD_SCORE, 0] = _STEEPNESS
    else:
        node[CPU_LEFT, 0] = -_STEEPNESS
    node[ORDER, 0] = _IN_ORDER * _STEEPNESS
    place[:] = 0.0
    place[0] = _SHARPNESS / _STEEPNESS
    return parameters


ES = EvolutionLearner(
    world="pods",
    algorithm="es",
    configs=(ESConfig(),),
    kind="linear",
    encoding=VERSION,
    gain=f"gain over {START_RULE}",
    about="evolution strategy over a linear scorer that starts from the strongest rule",
    example="--scenarios gpu --generations 20 --out runs/x",
    needs="cmaes",
    note=_note_of_populations,
    goal=_goal,
    threads=False,
)
PPO = GradientLearner(
    world="pods",
    algorithm="ppo",
    configs=(FusedPPOConfig(), PPOLessons()),
    kind="scorer",
    encoding=VERSION,
    gain="gain over the strongest rule",
    about="a scorer network",
    example="--scenarios gpu@20 --steps 200000 --out runs/p",
    note=_note_of_lanes,
    start=_start,
    train=_train,
    judge=_judge,
    confirm=_confirm,
    tells=("return", "entropy", "kl"),
)
