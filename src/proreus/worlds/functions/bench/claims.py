"""Speed claims of the world `functions`: the batched kernel against the same environment in plain NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from proreus.contract.benchmark import BenchRow, claim
from proreus.kernels.arrays import I64, Bool
from proreus.worlds.functions.bench.peer import PlainEnv
from proreus.worlds.functions.model import Demand
from proreus.worlds.functions.play import ALL, run_rule
from proreus.worlds.functions.policies.catalogue import rule_policy
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.batch import EpisodeBatch
from proreus.worlds.functions.simulation.kernel import begin
from proreus.worlds.functions.simulation.rewards import reward_named
from proreus.worlds.functions.state.columns import DECISIONS
from proreus.worlds.functions.state.compile import compile_demands, new_runs

SCENARIO = FunctionsScenario("bench", load_share=0.25, seconds=60.0, functions=5, part="train")
"""What `proreus/Functions-v0` plays by default."""
_EPISODES, _LANES, _KEPT = 32, (16, 64, 256), 60.0
_SECONDS, _GOAL, _APART = 3.0, 1_000.0, 500


def bench_functions(data: Path | None, say: Callable[[str], None]) -> Iterator[BenchRow]:
    """Steps a second of CPU time in one thread, with observations, masks and new episodes."""
    del data
    demands = [SCENARIO.demand(seed) for seed in range(_EPISODES)]
    say("plain NumPy environment")
    plain = plain_rate(demands, _SECONDS)
    say("batched kernel")
    batch, lanes = max((batch_rate(demands, lanes, _SECONDS), lanes) for lanes in _LANES)
    of = f"batched kernel, {lanes} lanes, the best of {', '.join(map(str, _LANES))}"
    yield claim(of, "steps/s", batch, peer=(plain, "plain NumPy Gymnasium environment"))
    yield claim(f"{of}, over the plain environment", "times", batch / plain, goal=_GOAL)
    for name in ("least_utilised", "warm_cost"):
        say(f"{name} in the kernel")
        yield claim(f"{name}, busy, both kinds of decision", "decisions/s", rule_rate(name))


def first_legal(legal: Bool) -> I64:
    """The first node with room in every lane: the cheapest policy there is."""
    return legal.argmax(axis=1)


def plain_rate(demands: list[Demand], seconds: float) -> float:
    """Steps a second of CPU time, the first legal node each time, over all episodes as often as it takes."""
    env = PlainEnv(demands, SCENARIO.terms, kept=_KEPT)
    steps, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for episode in range(len(demands)):
            _, info = env.reset(options={"episode": episode})
            over = False
            while not over:
                _, _, over, _, info = env.step(int(info["action_mask"].argmax()))
                steps += 1
    return steps / (time.process_time() - began)


def batch_rate(demands: list[Demand], lanes: int, seconds: float) -> float:
    """Steps a second of CPU time, the choice of actions left out of it; the same amounts are observed.

    The clock runs once lanes are anywhere in their episodes, as all begin with cold starts at first.
    """
    work = compile_demands(demands, SCENARIO.terms, "fixed", _KEPT)
    reward = reward_named("latency_cost", SCENARIO.terms.beta)
    batch = EpisodeBatch(work, lanes, reward=reward, shares=False)  # type: ignore[arg-type]
    steps = batch.reset(0)
    for _ in range(_APART):
        steps = batch.step(first_legal(steps.legal))
    spent, count = 0.0, 0
    while spent < seconds:
        actions = first_legal(steps.legal)
        began = time.process_time()
        steps = batch.step(actions)
        spent += time.process_time() - began
        count += lanes
    return count / spent


def rule_rate(name: str) -> float:
    """Decisions a second of a rule over whole runs, the best of several."""
    demand = FunctionsScenario("busy").demand(0)
    work = compile_demands([demand], SCENARIO.terms)
    runs, best = new_runs(work), 0.0
    for _ in range(6):
        begin(work, runs, 0, 0)
        began = time.process_time()
        run_rule(work, runs, 0, rule_policy(name).rule_for(work.price.size), ALL)
        best = max(best, float(np.int64(runs.tally[0, DECISIONS])) / (time.process_time() - began))
    return best
