"""What thinking time buys: the planner with few futures and many, beside `learned` and the best rules.

    PYTHONPATH=src python -m tests.worlds.inference.planner_study OUT --seeds 11200 6

Every policy plays the same requests. Milliseconds of a decision are those of one processor: what else the
machine does is not counted. Runs are kept in OUT/runs, so that a study that was stopped goes on where it was.
It writes OUT/inference-planner.json as `docs/results` keeps it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

from proreus.contract.play import step
from proreus.contract.scenario import Part
from proreus.policies.catalogue import AnyPolicy
from proreus.worlds.inference.policies.catalogue import POLICIES, InferenceOptions
from proreus.worlds.inference.scenarios import InferenceScenario, parse
from tests.worlds.inference.scaler_study import row_of

SCENARIOS = ("steady", "surge", "colocated", "conversations", "azure")
FUTURES = (1, 8, 32, 128)
BESIDE = ("learned", "predictive", "tokenscale", "chiron")
MEASURES = {
    "weighed_gpu_hours": ("h", "lower"),
    "slo_attainment": ("%", "higher"),
    "gpu_hours": ("h", "lower"),
    "oscillation": ("an hour", "lower"),
    "decision_ms": ("ms", "lower"),
}
COMMAND = "PYTHONPATH=src python -m tests.worlds.inference.planner_study OUT --seeds 11200 6"
_PLANNER = "planner --futures "


class Timed:
    """A policy, and how long it thinks."""

    def __init__(self, policy: AnyPolicy) -> None:
        self.name, self._policy = policy.name, policy
        self.seconds: list[float] = []

    def decide(self, observation: Any, /) -> Any:
        """As the policy does."""
        begin = thread_time()
        decision = self._policy.decide(observation)
        self.seconds.append(thread_time() - begin)
        return decision

    def fresh(self, seed: int) -> Timed:
        """Of a fresh policy."""
        return Timed(self._policy.fresh(seed))


def policy_of(name: str) -> AnyPolicy:
    """By name; `planner --futures N` plays so many."""
    if name.startswith(_PLANNER):
        return POLICIES.make("planner", InferenceOptions(futures=int(name.removeprefix(_PLANNER))))
    return POLICIES.make(name)


def measured(runs: Path, scenario: InferenceScenario, policy: str, seed: int) -> dict[str, float]:
    """A run, once; the middle of its decisions' times, as kernels are compiled at the first."""
    kept = runs / f"{scenario.name}-{scenario.part}-{policy.replace(' ', '')}-{seed}.json"
    if not kept.exists():
        timed, run = Timed(policy_of(policy)), scenario.start(scenario.load(seed), seed)
        while step(run, timed):
            pass
        found = {**run.outcome().measures, "decision_ms": 1e3 * float(np.median(timed.seconds))}
        kept.write_text(json.dumps({measure: found[measure] for measure in MEASURES}))
    told: dict[str, float] = json.loads(kept.read_text())
    return told


def rows_of(runs: Path, scenario: InferenceScenario, seeds: range) -> list[dict[str, Any]]:
    """Of one scenario: all measures, and how far planners are ahead of `learned` run by run, in % of it."""
    policies = (*(f"{_PLANNER}{futures}" for futures in FUTURES), *BESIDE)
    found = {policy: [measured(runs, scenario, policy, seed) for seed in seeds] for policy in policies}
    rows = [
        row_of(scenario.name, policy, (measure, *about), [run[measure] for run in played])
        for policy, played in found.items()
        for measure, about in MEASURES.items()
    ]
    costs = {
        policy: np.array([run["weighed_gpu_hours"] for run in played]) for policy, played in found.items()
    }
    learned = costs["learned"]
    for policy in policies:
        if policy.startswith(_PLANNER):
            ahead = 100.0 * (learned - costs[policy]) / learned.mean()
            rows.append(row_of(scenario.name, policy, ("ahead_of_learned", "%", "higher"), ahead.tolist()))
    return rows


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="planner_study", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(4_000, 6), help="the first, and how many")
    parser.add_argument("--part", choices=("train", "valid", "test"), default="test")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    asked = parser.parse_args(arguments)
    runs, part = asked.out / "runs", asked.part
    runs.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in asked.scenarios.split(","):
        found = rows_of(runs, _part_of(name, part), range(asked.seeds[0], sum(asked.seeds)))
        rows += found
        told = [
            f"{row['policy']} {row['mean']:.2f}" for row in found if row["measure"] == "weighed_gpu_hours"
        ]
        sys.stdout.write(f"{name}: {', '.join(told)}\n")
        sys.stdout.flush()
        content = {"command": COMMAND, "world": "inference", "rows": rows}
        (asked.out / "inference-planner.json").write_text(json.dumps(content, indent=1) + "\n")


def _part_of(name: str, part: Part) -> InferenceScenario:
    return parse(name, None).of_part(part)


if __name__ == "__main__":
    main(sys.argv[1:])
