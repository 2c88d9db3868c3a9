"""Training of the document's agent: many passes, judged on traces that it does not learn from.

    trained = train(PRESETS["surge"], PPOAgent({"seed": 1}))
    print(trained.improvement.words)
    trained.agent.save("agent.safetensors")

What is handed out is what was best on the traces it was judged on, where that is better than the start on
others too; else it is the start. So it is never worse than the arbiter that it began at, but by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.evaluation import confirming
from proreus.learning.improvement import Improvement, improvement
from proreus.learning.settings import at_least_one
from proreus.worlds.inference.document.agent import PPOAgent
from proreus.worlds.inference.document.application import applications_of
from proreus.worlds.inference.document.simulator import Agent, TraceRLSimulator
from proreus.worlds.inference.scenarios import InferenceScenario

Say = Callable[[str], None]


@dataclass(frozen=True)
class LoopLessons:
    """What is learned from and how it is judged."""

    passes: int = 256
    """Over traces to learn from."""
    traces: int = 64
    """Different ones; after the last the first comes again."""
    judge_every: int = 32
    """Passes between judgements."""
    validation_runs: int = 8
    """Traces by which the agent is judged."""
    confirm_runs: int = 16
    """Traces after those that say, at the end, how much better the best is than the start."""

    def __post_init__(self) -> None:
        at_least_one(self, "passes", "traces", "judge_every", "validation_runs", "confirm_runs")


@dataclass(frozen=True, eq=False)
class TrainedAgent:
    """What training hands out."""

    agent: PPOAgent
    improvement: Improvement
    """Over the start, in reward of an interval."""
    curve: tuple[float, ...]
    """Mean reward on the traces it was judged on, of the start and of every judgement (the better of two ways
    to play: by drawing, or by the likeliest choice)."""


def simulator_of(scenario: InferenceScenario, seed: int, agent: Agent) -> TraceRLSimulator:
    """The loop of the document over the requests of a scenario."""
    trace = scenario.load(seed)
    cluster, applications = applications_of(scenario, trace, seed)
    return TraceRLSimulator(trace, cluster, applications, end_time=scenario.load_.seconds, agent=agent)


def evaluate(scenario: InferenceScenario, agent: Agent, seeds: Sequence[int]) -> F64:
    """Mean reward of an interval, by trace; nothing is learned."""
    means = []
    for seed in seeds:
        simulator = simulator_of(scenario, seed, agent)
        simulator.run(learn=False)
        means.append(np.mean([reward.total for reward in simulator.rewards]))
    return np.array(means)


def train(
    scenario: InferenceScenario,
    agent: PPOAgent,
    lessons: LoopLessons | None = None,
    say: Say | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> TrainedAgent:
    """Let an agent learn on the part `train` of a scenario; `say` hears of every judgement.

    Where `stopped` says so between two judgements, it ends early.
    """
    lessons, tell = lessons or LoopLessons(), say or (lambda line: None)
    learning, judging = scenario.of_part("train"), scenario.of_part("valid")
    seen = range(lessons.validation_runs)
    start = best = agent.weights
    began = draws = agent.draws
    curve = [most := float(evaluate(judging, agent, seen).mean())]
    tell(f"start: {most:+.4f}")
    for number in range(1, lessons.passes + 1):
        simulator_of(learning, (number - 1) % lessons.traces, agent).run()
        if number % lessons.judge_every and number < lessons.passes:
            continue
        likeliest, drawn = _both_ways(judging, agent, seen)
        curve.append(max(likeliest, drawn))
        returns = agent.figures.get("return", np.nan)
        tell(f"{number} passes: {likeliest:+.4f}, drawn {drawn:+.4f}, return {returns:+.4f}")
        if curve[-1] > most:
            most, best, draws = curve[-1], agent.weights, drawn > likeliest
        if stopped():
            break
    found = Improvement()
    if best is not start:
        others = confirming(lessons.validation_runs, lessons.confirm_runs)
        agent.weights, agent.draws = best, draws
        ours = evaluate(judging, agent, others)
        agent.weights, agent.draws = start, began
        found = improvement({scenario.name: evaluate(judging, agent, others)}, {scenario.name: ours})
    agent.weights, agent.draws = (start, began) if found.better is None else (best, draws)
    return TrainedAgent(agent, found, tuple(curve))


def _both_ways(scenario: InferenceScenario, agent: PPOAgent, seeds: Sequence[int]) -> tuple[float, float]:
    """By its likeliest choices, and by drawing as it learns: the first may still be those of the start where
    the second has moved on."""
    means = []
    for agent.draws in (False, True):
        means.append(float(evaluate(scenario, agent, seeds).mean()))
    return means[0], means[1]
