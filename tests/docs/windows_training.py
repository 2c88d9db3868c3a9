"""Trains QMIX, PPO, double DQN and DQN over windows and plays them beside `learned` and the rules.

    PYTHONPATH=src python -m tests.docs.windows_training --data DIR --out docs/results/rebalance-learners.json

It needs NumPy, Numba, torch, safetensors and rich, and neither Gymnasium nor a command line. Every training
is a run as `proreus train rebalance --algo NAME` makes it, in a process of its own; each has at most
`--seconds` and what it has kept by then is played. All is played on the test part, with the same seeds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from proreus.learning.learner import learner_at
from proreus.learning.run import Task, learn
from proreus.learning.run_folder import read_improvement, read_journal
from proreus.model.errors import InputError
from proreus.model.estimate import estimate
from proreus.workers.processes import Workers
from proreus.worlds.rebalance.windows.play import play
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario, needs_data, parse_window_scenario
from proreus.worlds.rebalance.windows.simulation.outcome import MEASURES
from proreus.worlds.rebalance.world import WORLD

SCENARIOS = tuple(f"windows/{name}" for name in ("serial", "parallel", "huawei-serial", "huawei-parallel"))
AHEAD_OF = "balance"
RULES = ("learned", AHEAD_OF, "hotspot@0.6")
SEEDS = 20
"""Of the test."""
TOLD = ("violations", "hit", "migrations", "migrated", "over_steps", "unmet", "reward")


@dataclass(frozen=True)
class Variant:
    """A learner with the settings that are not its usual ones."""

    algorithm: str
    steps: int
    start: str = "rule"
    settings: Mapping[str, Any] = field(default_factory=dict)


SLOW = MappingProxyType({"n_step": 3, "learning_rate": 3e-4})
"""Steps that leave the start more slowly."""
VARIANTS = {
    "ppo": Variant("ppo", 160_000),
    "qmix": Variant("qmix", 80_000),
    "ddqn": Variant("ddqn", 30_000),
    "dqn": Variant("dqn", 30_000),
    "ppo from learned": Variant("ppo", 160_000, "learned"),
    "ppo, longer": Variant("ppo", 240_000),
    "qmix, slower": Variant("qmix", 110_000, settings=SLOW),
    "ddqn, slower": Variant("ddqn", 40_000, settings={**SLOW, "learning_rate": 1e-4}),
}
USUAL = ("ppo", "qmix", "ddqn", "dqn", "ppo from learned")


@dataclass(frozen=True)
class Job:
    """One training, or one rule that is played."""

    scenario: str
    policy: str
    seed: int
    """Of the training."""
    data: Path | None
    seconds: float

    @property
    def trains(self) -> bool:
        """Whether there is anything to train."""
        return self.policy in VARIANTS


def scenario_of(name: str, data: Path | None) -> WindowScenario:
    """The scenario, where its data are."""
    return parse_window_scenario(name, data if needs_data(name) else None)


def done(job: Job) -> dict[str, Any]:
    """What a job came to: the measures of every seed of the test, and how the training went."""
    began = time.perf_counter()
    scenario = scenario_of(job.scenario, job.data)
    if not job.trains:
        return {"played": _played(scenario, job.policy), "seconds": time.perf_counter() - began}
    with tempfile.TemporaryDirectory() as folder:
        told = train(job, scenario, Path(folder) / "run")
        return {
            **told,
            "played": _played(scenario, str(Path(folder) / "run" / "best")),
            "seconds": time.perf_counter() - began,
        }


def train(job: Job, scenario: WindowScenario, folder: Path) -> dict[str, Any]:
    """A run folder; what its journal says in the end."""
    variant, ends = VARIANTS[job.policy], time.monotonic() + job.seconds
    learner = learner_at(WORLD.learners[variant.algorithm])
    config, lessons = learner.configs
    few = {"start": variant.start, "train_seeds": 16, "confirm_seeds": 16, "evaluate_every": 4}
    own = replace(config, steps=variant.steps, seed=job.seed, **variant.settings)
    configs = (own, replace(lessons, **few))
    task = Task((scenario,), configs, Workers(1), folder, resume=False)
    for _ in learn(learner, task, lambda: time.monotonic() > ends, lambda summary: None):
        pass
    journal, improvement = read_journal(folder), read_improvement(folder)
    gains = [float(np.mean(list(entry["validation"].values()))) for entry in journal if entry["validation"]]
    return {
        "steps": int(journal[-1]["steps"]),
        "whole": improvement is not None,
        "improvement": improvement,
        "validation": gains,
    }


def _played(scenario: WindowScenario, policy: str) -> list[dict[str, float]]:
    """The measures of each seed."""
    return [
        dict(play(scenario, scenario.load(seed), make_move_policy(policy, seed), seed).outcome.measures)
        for seed in range(SEEDS)
    ]


def rows_of(jobs: Sequence[Job], results: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Means with intervals over the seeds of the test, of all trainings together and of each."""
    by_policy: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        by_policy.setdefault((job.scenario, job.policy), []).append(result)
    for (scenario, policy), trainings in by_policy.items():
        for name in TOLD:
            played = np.array([[measures[name] for measures in result["played"]] for result in trainings])
            shown = {policy: played.mean(axis=0)}
            if len(trainings) > 1:
                shown |= {f"{policy}, seed {place}": each for place, each in enumerate(played)}
            (beside,) = by_policy[scenario, AHEAD_OF]
            rule = np.array([measures[name] for measures in beside["played"]])
            for who, values in shown.items():
                about = {"scenario": scenario, "policy": who, "measure": name}
                about |= {"unit": MEASURES[name].unit, "better": MEASURES[name].better}
                yield {**about, **asdict(estimate(values.tolist()))}
                # Paired by the seed of the test: the windows are the same.
                ahead = estimate((rule - values).tolist())
                yield {**about, "measure": f"{name} less than {AHEAD_OF}", "better": "", **asdict(ahead)}


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Trainings first, the long ones before the others."""
    names = []
    for name in SCENARIOS:
        try:
            scenario_of(name, arguments.data)
            names.append(name)
        except InputError as error:
            sys.stderr.write(f"{name} is left out: {error}\n")
    trained = [
        Job(name, policy, seed, arguments.data, arguments.seconds)
        for policy in arguments.variants
        for seed in range(arguments.trainings)
        for name in names
    ]
    return [*trained, *(Job(name, rule, 0, arguments.data, 0.0) for rule in RULES for name in names)]


def warm_up(arguments: argparse.Namespace) -> None:
    """Compile here what every process would compile by itself."""
    for policy in arguments.variants:
        job = Job(SCENARIOS[0], policy, 0, arguments.data, 0.0)
        with tempfile.TemporaryDirectory() as folder:
            train(job, scenario_of(job.scenario, None), Path(folder) / "run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="the folder of datasets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trainings", type=int, default=3, help="seeds of every training")
    parser.add_argument("--seconds", type=float, default=90.0, help="of one training at most")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=USUAL)
    arguments = parser.parse_args()
    began = time.monotonic()
    warm_up(arguments)
    sys.stderr.write(f"compiled after {time.monotonic() - began:.0f} s\n")
    jobs = jobs_of(arguments)
    results: list[dict[str, Any]] = [{} for _ in jobs]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, mp_context=context) as pool:
        places = {pool.submit(done, job): place for place, job in enumerate(jobs)}
        for future in as_completed(places):
            job, result = jobs[places[future]], future.result()
            results[places[future]] = result
            violations = np.mean([measures["violations"] for measures in result["played"]])
            line = f"{job.scenario} {job.policy} {job.seed}: violations {violations:.3f} %"
            line += f", {result['steps']:,} steps" if job.trains else ""
            sys.stderr.write(f"{time.monotonic() - began:.0f} s: {line}, {result['seconds']:.0f} s\n")
    trainings = [
        {"scenario": job.scenario, "policy": job.policy, "seed": job.seed}
        | {name: value for name, value in result.items() if name != "played"}
        for job, result in zip(jobs, results, strict=True)
        if job.trains
    ]
    document = {
        "command": "PYTHONPATH=src python -m tests.docs.windows_training --data DIR --out FILE",
        "world": "rebalance",
        "settings": {
            name: {"algorithm": each.algorithm, "steps": each.steps, "start": each.start, **each.settings}
            for name, each in VARIANTS.items()
            if name in arguments.variants
        },
        "rows": list(rows_of(jobs, results)),
        "trainings": trainings,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    # Networks this small are fastest with one thread, and the processes share the cores.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    main()
