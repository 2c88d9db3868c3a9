"""The learned controller beside the rules: all scenarios, load families that it never saw, traces kept back.

    PYTHONPATH=src python -m tests.worlds.inference.scaler_study OUT --seeds 11000 20 --bounds 5

Every policy plays the same requests. Runs are kept in OUT/runs, so that a study that was stopped goes on
where it was. It writes OUT/inference-learned.json as `docs/results` keeps it, with how far `learned` is ahead
of the rule that is best in each scenario, run by run, in percent of what that rule needs; and, for the first
`--bounds` seeds of a scenario, the bound that nobody can beat and the share of the way there.

`--scenarios azure:FILE,servegen:FOLDER` plays other recordings in place of a scenario's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from proreus.model.estimate import estimate
from proreus.workers.cores import available_cores
from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import InferenceScenario, parse
from proreus.worlds.inference.simulation.lower_bound import lower_bound

SCENARIOS = (
    *("steady", "surge", "colocated", "conversations", "spot", "hetero", "two-models", "azure", "mooncake"),
    *("drawn-sawtooth", "drawn-square", "drawn-spikes"),
    *("servegen", "day"),
)
_TEST_DAYS, _WHOLE_DAYS = 5, 5
"""Of `servegen`, all that there are; and runs of `day`, each of which takes as long as a hundred others."""
_OTHER_RUNS = 3
"""Of a recording that is no scenario's own."""
_WITHOUT_BOUND = ("servegen", "day")
"""A whole day is too large a program."""
RULES = ("predictive", "tokenscale", "chiron")
POLICIES_PLAYED = ("learned", *RULES, "plan", "oracle")
MEASURES = {"weighed_gpu_hours": "h", "slo_attainment": "%", "gpu_hours": "h", "oscillation": "an hour"}
COMMAND = "PYTHONPATH=src python -m tests.worlds.inference.scaler_study OUT --seeds 11000 20 --bounds 5"


def scenario_of(name: str) -> InferenceScenario:
    """By name; NAME:FILE plays another recording in place of the scenario's own."""
    plain, _, place = name.partition(":")
    scenario = parse(plain, None)
    return scenario if not place else replace(scenario, name=label_of(name), place=Path(place))


def label_of(name: str) -> str:
    """As results have it: NAME/RECORDING of NAME:FILE, wherever the file lies."""
    plain, _, place = name.partition(":")
    return plain if not place else f"{plain}/{Path(place).stem}"


def measured(runs: Path, name: str, policy: str, seed: int) -> dict[str, float]:
    """A run, once."""
    kept = runs / f"{label_of(name)}-{policy}-{seed}.json".replace("/", "_")
    if not kept.exists():
        scenario = scenario_of(name)
        measures = play(scenario, scenario.load(seed), POLICIES.make(policy), seed).measures
        kept.write_text(json.dumps({measure: measures[measure] for measure in MEASURES}))
    found: dict[str, float] = json.loads(kept.read_text())
    return found


def bound_of(runs: Path, name: str, seed: int) -> float:
    """Weighed GPU-hours below which nobody comes, once."""
    kept = runs / f"{label_of(name)}-bound-{seed}.json".replace("/", "_")
    if not kept.exists():
        scenario = scenario_of(name)
        spec = scenario.machines.spec()
        timings = timings_of(spec, scenario.table)
        found = lower_bound(scenario.load(seed), spec, timings, scenario.control)
        kept.write_text(json.dumps(found.weighed_gpu_hours))
    bound: float = json.loads(kept.read_text())
    return bound


def seeds_of(name: str, seeds: range) -> range:
    """Of a scenario."""
    match name:
        case _ if ":" in name:
            return seeds[:_OTHER_RUNS] if not name.startswith("servegen") else range(_OTHER_RUNS)
        case "servegen":
            return range(_TEST_DAYS)
        case "day":
            return seeds[:_WHOLE_DAYS]
        case _:
            return seeds


def rows_of(
    runs: Path, name: str, seeds: range, policies: tuple[str, ...], bounds: int, processes: Executor
) -> list[dict[str, Any]]:
    """Of one scenario; `bounds`: seeds of which the bound is found."""
    jobs = {
        policy: [processes.submit(measured, runs, name, policy, seed) for seed in seeds]
        for policy in policies
    }
    found = {policy: [job.result() for job in row] for policy, row in jobs.items()}
    rows = [
        row_of(
            label_of(name),
            policy,
            (measure, unit, "higher" if unit == "%" else "lower"),
            [run[measure] for run in played],
        )
        for policy, played in found.items()
        for measure, unit in MEASURES.items()
    ]
    costs = {
        policy: np.array([run["weighed_gpu_hours"] for run in played]) for policy, played in found.items()
    }
    best = min(RULES, key=lambda rule: costs[rule].mean())
    ahead = 100.0 * (costs[best] - costs["learned"]) / costs[best].mean()
    rows.append(row_of(label_of(name), "learned", ("ahead_of_best", "%", "higher"), ahead.tolist()))
    if bounds and name not in _WITHOUT_BOUND and ":" not in name:
        least = list(processes.map(bound_of, repeat(runs), repeat(name), seeds[:bounds]))
        rows.append(row_of(name, "bound", ("weighed_gpu_hours", "h", "lower"), least))
        ours, theirs = (costs[policy][:bounds].mean() for policy in ("learned", best))
        way = 100.0 * (theirs - ours) / (theirs - np.mean(least))
        rows.append(row_of(name, "learned", ("way_to_bound", "%", "higher"), [float(way)]))
    return rows


def row_of(name: str, policy: str, measure: tuple[str, str, str], values: list[float]) -> dict[str, Any]:
    """Of a measure (its name, its unit, what is better), as `docs/results` keeps it."""
    what, unit, better = measure
    found = estimate(values)
    about = {"scenario": name, "policy": policy, "measure": what, "unit": unit, "better": better}
    return {**about, "mean": found.mean, "low": found.low, "high": found.high, "n": found.n}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="scaler_study", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(1_000, 20), help="the first, and how many")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--policies", default=",".join(POLICIES_PLAYED))
    parser.add_argument("--bounds", type=int, default=0, help="seeds of which the bound is found")
    asked = parser.parse_args(arguments)
    runs = asked.out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    seeds = range(asked.seeds[0], sum(asked.seeds))
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(available_cores()) as processes:
        for name in asked.scenarios.split(","):
            played = tuple(asked.policies.split(","))
            found = rows_of(runs, name, seeds_of(name, seeds), played, asked.bounds, processes)
            rows += found
            told = [
                f"{row['policy']} {row['mean']:.2f}"
                + ("" if row["low"] is None else f" ± {row['mean'] - row['low']:.2f}")
                for row in found
                if row["measure"] == "weighed_gpu_hours" or row["measure"].startswith("ahead")
            ]
            sys.stdout.write(f"{name}: {', '.join(told)}\n")
            sys.stdout.flush()
            content = {"command": COMMAND, "world": "inference", "rows": rows}
            (asked.out / "inference-learned.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
