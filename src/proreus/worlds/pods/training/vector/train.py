"""PPO of a vector model in simulated clusters, judged on held-out seeds: `proreus models train`.

Without a cluster the model is size-free and learns on generated clusters of mixed sizes, half of the time
with a mask that says where a task may go, half of the time without one, as the simulator's plugin asks.
With a cluster it learns that cluster: the jobs are generated, the nodes are given, and the model remembers
figures about each node that the vector does not say. Jobs of the k8s simulator's own files are never
trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.contract.scenario import Part, seed_of
from proreus.kernels.arrays import F32, F64
from proreus.learning.device import Device
from proreus.learning.evaluation import confirming
from proreus.learning.gradient_run import GradientRun
from proreus.learning.improvement import Gains, Improvement, improvement, same_weights
from proreus.learning.optimiser import linear
from proreus.learning.run_folder import NamedScenario, RunIdentity
from proreus.learning.step import Update
from proreus.model.errors import UsageError
from proreus.model.experience import Experience
from proreus.worlds.pods.policies.vector.mlp import initial_tensors
from proreus.worlds.pods.policies.vector.model import (
    MLP,
    SCORER,
    VECTOR_ENCODING,
    VectorModel,
    Weights,
    model_of,
)
from proreus.worlds.pods.policies.vector.scorer import MEMORY, initial_parameters, part
from proreus.worlds.pods.scenarios import SEEDS_APART
from proreus.worlds.pods.training.vector.course import Course, Way, gains, play
from proreus.worlds.pods.training.vector.recorded_ppo import VectorPPO, VectorPPOSettings


@dataclass(frozen=True)
class VectorRunConfig:
    """What a run depends on, besides the course."""

    updates: int = 200
    """Updates of the model."""
    episodes: int = 12
    """Workloads that are played for each update."""
    train_seeds: int = 400
    """How many seeds, from 1000 on, workloads are drawn with."""
    validation_seeds: int = 12
    """How many seeds, from 2000 on, the model is judged on."""
    confirm_seeds: int = 24
    """How many seeds after those say, at the end, how much better the best is than the start."""
    judge_every: int = 5
    """Updates between judgements."""
    learning_rate: float = 3e-3
    """Of Adam, at the start."""
    learning_rate_end: float = 3e-4
    """At the end; in between it falls linearly."""
    entropy: float = 0.01
    """Weight of the entropy bonus."""
    kind: str = SCORER
    """The network: "vector-scorer", or "vector-mlp", which needs a cluster."""
    device: Device = "cpu"
    """Where forward passes of batches and gradients are computed."""
    seed: int = 0
    """Of the first parameters, of the draws and of the order of minibatches."""

    def __post_init__(self) -> None:
        counts = ("updates", "episodes", "train_seeds", "validation_seeds", "confirm_seeds", "judge_every")
        for name in counts:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")
        if not 0.0 < self.learning_rate_end <= self.learning_rate:
            raise UsageError("the learning rate must be above 0 and not rise")


@dataclass(frozen=True)
class VectorReport:
    """One update, and what came of judging it."""

    update: int
    decisions: int
    """Learned from so far."""
    reward: float
    """Mean over the decisions of this update."""
    figures: dict[str, float]
    validation: dict[str, float] | None
    """Gains in percent over the strongest rule."""
    is_best: bool
    improvement: Improvement | None = None
    """Of the best over the start, with the last update."""


def train_vector(
    folder: Path,
    course: tuple[str, Course],
    config: VectorRunConfig,
    stopped: Callable[[], bool],
) -> Iterator[VectorReport]:
    """Train to the end, or until `stopped` says so between two updates; course: what to call it, and it."""
    name, cluster = course
    identity = RunIdentity(
        world="pods",
        algorithm="ppo",
        kind=config.kind,
        encoding=VECTOR_ENCODING,
        scenarios=(NamedScenario(name),),
        config=asdict(config),
        seed=config.seed,
        gain="gain over the strongest rule",
        length="updates",
    )
    run = GradientRun(folder, identity, resume=False)
    random = np.random.default_rng(config.seed)
    learner = VectorPPO(first_weights(cluster, config.seed, config.kind), _settings(config))
    decisions = 0
    try:
        start = {name: tensor.copy() for name, tensor in learner.weights().tensors.items()}
        run.begin(start, judge(_model(learner), cluster, config.validation_seeds), ())
        for update in range(1, config.updates + 1):
            done = (update - 1) / max(config.updates - 1, 1)
            learner.rate = linear(config.learning_rate, config.learning_rate_end, done)
            episodes = _episodes(_model(learner), cluster, config, random)
            figures = learner.update(episodes)
            decisions += int(figures["decisions"])
            reward = float(np.concatenate([episode.rewards for episode in episodes]).mean())
            now = Update(
                number=update,
                total=config.updates,
                figures={**figures, "reward": reward, "steps": float(decisions)},
                tensors=lambda: learner.weights().tensors,
                state=lambda: learner.weights().tensors,
            )
            last = update == config.updates or stopped()
            validation, is_best = None, False
            if last or update % config.judge_every == 0:
                validation = judge(_model(learner), cluster, config.validation_seeds)
                is_best = run.keep(now.tensors(), validation, now)
            run.add(now, validation)
            improved = _ended(run, start, cluster, config) if update == config.updates else None
            yield VectorReport(update, decisions, reward, figures, validation, is_best, improved)
            if last:
                return
    finally:
        run.close()


def judge(model: VectorModel, cluster: Course, seeds: int) -> dict[str, float]:
    """Mean gains in percent over the strongest rule, on validation seeds."""
    held_out = _drawn_with("valid", range(seeds))
    by_measure: dict[str, float] = {}
    for way in _ways(cluster):
        mean, makespan = gains(model, cluster, held_out, way).mean(axis=0).tolist()
        by_measure |= {f"mean completion, {way}": mean, f"makespan, {way}": makespan}
    return by_measure


def _drawn_with(purpose: Part, seeds: Iterable[int]) -> tuple[int, ...]:
    """The seeds of a part, as workloads are drawn with them."""
    return tuple(seed_of(purpose, seed, SEEDS_APART) for seed in seeds)


def _ways(cluster: Course) -> tuple[Way, ...]:
    """Nodes that look the same to a model without a memory are told apart by a draw, or by a mask."""
    return ("likeliest",) if cluster.nodes else ("drawn", "masked")


def _ended(run: GradientRun, start: Arrays, cluster: Course, config: VectorRunConfig) -> Improvement:
    """What the best came to on seeds that it was not chosen on; where it is no better, it is the start."""
    best = run.best.tensors
    seeds = _drawn_with("valid", confirming(config.validation_seeds, config.confirm_seeds))

    def confirm(tensors: Arrays) -> Gains:
        model = model_of(config.kind, tensors, Path())
        by_measure: dict[str, F64] = {}
        for way in _ways(cluster):
            each = gains(model, cluster, seeds, way)
            by_measure |= {f"mean completion, {way}": each[:, 0], f"makespan, {way}": each[:, 1]}
        return by_measure

    improved = Improvement() if same_weights(best, start) else improvement(confirm(start), confirm(best))
    run.end(improved, start)
    return improved


def _settings(config: VectorRunConfig) -> VectorPPOSettings:
    # A decision's reward says all that came of it: no discounted future.
    return VectorPPOSettings(
        learning_rate=config.learning_rate,
        discount=0.0,
        gae_lambda=0.0,
        entropy=config.entropy,
        minibatch=512,
        target_kl=0.05,
        memory_rate=10.0,
        seed=config.seed,
        threads=0,
        device=config.device,
    )


def _model(learner: VectorPPO) -> VectorModel:
    weights = learner.weights()
    return model_of(weights.kind, weights.tensors, Path())


def _episodes(
    model: VectorModel, cluster: Course, config: VectorRunConfig, random: np.random.Generator
) -> list[Experience]:
    seeds = _drawn_with("train", random.integers(config.train_seeds, size=config.episodes).tolist())
    return [
        play(model, cluster.compiled(seed), random, masked=not cluster.nodes and k % 2 == 0)
        for k, seed in enumerate(seeds)
    ]


def first_weights(cluster: Course, seed: int, kind: str = SCORER) -> Weights:
    """Weights that place on empty nodes first, at random among them; memories near zero.

    Of the plain network: random ones, with every action about as likely.
    """
    if kind == MLP:
        if not cluster.nodes:
            raise UsageError(f"a {MLP} knows one cluster: say which")
        count = len(cluster.nodes)
        return Weights(MLP, dict(initial_tensors(2 * count + 2, 2 * count + 2, seed)))
    parameters = empty_first(initial_parameters(seed))
    random = np.random.default_rng([seed, 7])
    memory = random.normal(0.0, 0.1, (len(cluster.nodes), MEMORY)).astype(np.float32)
    return Weights(SCORER, {"parameters": parameters} | ({"memory": memory} if len(memory) else {}))


def empty_first(initial: F32) -> F32:
    """Parameters whose bids are higher for empty nodes, and low for preemption, delay and rejection.

    Unit 0 carries the rule, unit 1 is always 1; the other units start as they were, with bids near zero.
    """
    parameters = initial.copy()
    for name in ("remembered", "context"):
        part(parameters, name)[:, 0] = 0.0
    node, second = part(parameters, "node"), part(parameters, "second")
    node[:, 0] = (0.0, 0.0, 0.0, 1.0)  # empty
    second[0, :] = 0.0
    second[:, :2] = 0.0
    second[0, 0] = 1.0
    part(parameters, "second_bias")[1] = 1.0
    part(parameters, "place")[0] = 4.0
    part(parameters, "preempt")[1] = -8.0
    part(parameters, "offsets")[:2] = -6.0
    return parameters
