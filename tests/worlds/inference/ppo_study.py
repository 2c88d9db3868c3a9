"""What PPO comes to in the world `inference`: trained with three seeds, judged on traces of the part `test`.

    PYTHONPATH=src python -m tests.worlds.inference.ppo_study OUT

Two learners on `steady` and `surge`: the agent in the loop of the document (reward of an interval), and what
`proreus train inference --algo ppo` does (weighed GPU-hours). Beside them, on the same traces: the rule that
they start from, doing nothing, `threshold`, chance, and the strongest rules. One process for each training.
It writes OUT/inference-loop.json and OUT/inference-ppo.json as `docs/results` keeps them, the agents, and the
checkpoints.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.improvement import improvement
from proreus.learning.run import Task, learn
from proreus.learning.run_folder import read_improvement
from proreus.model.estimate import estimate
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.checkpoint import load_checkpoint
from proreus.workers.processes import Workers
from proreus.worlds.inference.document.agent import PPOAgent
from proreus.worlds.inference.document.baselines import RandomAgent, RuleAgent
from proreus.worlds.inference.document.training import LoopLessons, evaluate, train
from proreus.worlds.inference.encoding.residual import VERSION
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.rules.controller import Controller
from proreus.worlds.inference.policies.steered_rule import first_rule
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.training.torch_learners import PPO

SCENARIOS, SEEDS = ("steady", "surge"), (1, 2, 3)
LOOP_RULES = ("predictive", "chiron", "threshold", "static", "random")
WORLD_RULES = ("predictive", "tokenscale", "chiron", "plan", "threshold", "static")
MEASURES = {"weighed_gpu_hours": "h", "gpu_hours": "h", "slo_attainment": "%"}
COMMAND = "PYTHONPATH=src python -m tests.worlds.inference.ppo_study OUT"
Figures = dict[str, list[float]]


def _loop_rule(name: str, rule: str, traces: range) -> Figures:
    scenario = PRESETS[name]
    if rule == "random":
        rewards = np.concatenate([evaluate(scenario, RandomAgent(seed), [seed]) for seed in traces])
        return {"reward": rewards.tolist()}
    controller = POLICIES.make(rule)
    assert isinstance(controller, Controller)
    return {"reward": evaluate(scenario, RuleAgent(controller), traces).tolist()}


def _loop(name: str, seed: int, asked: argparse.Namespace, passes: int) -> Figures:
    begin, lines, out, traces = time.perf_counter(), list[str](), asked.out, _traces(asked)
    agent = PPOAgent({"seed": seed})
    lessons = LoopLessons(passes=passes, traces=48, judge_every=max(passes // 6, 1))
    late = _late_after(asked.seconds)
    trained = train(PRESETS[name], agent, lessons, lines.append, late)
    lines += ["ended early: its time was over"] * late()
    lines += [trained.improvement.words, f"{time.perf_counter() - begin:.0f} s"]
    agent.save(out / f"loop-{name}-{seed}.safetensors")
    (out / f"loop-{name}-{seed}.log").write_text("\n".join(lines) + "\n")
    judged = PPOAgent.load(out / f"loop-{name}-{seed}.safetensors")
    return {"reward": evaluate(PRESETS[name], judged, traces).tolist()}


def _world_rule(name: str, rule: str, traces: range) -> Figures:
    return _measured(name, POLICIES.make(rule), traces)


def _measured(name: str, policy: AnyPolicy, traces: range) -> Figures:
    scenario = PRESETS[name]
    played = [play(scenario, scenario.load(seed), policy, seed).measures for seed in traces]
    return {measure: [measures[measure] for measures in played] for measure in MEASURES}


def _traces(asked: argparse.Namespace) -> range:
    return range(asked.first, asked.first + asked.traces)


def _late_after(seconds: float) -> Callable[[], bool]:
    until = time.perf_counter() + seconds
    return lambda: time.perf_counter() > until


def _world(name: str, seed: int, asked: argparse.Namespace, steps: int) -> Figures:
    begin, lines, out, traces = time.perf_counter(), list[str](), asked.out, _traces(asked)
    folder, late = out / f"ppo-{name}-{seed}", _late_after(asked.seconds)
    config, lessons = PPO.configs
    task = Task(
        [PRESETS[name]], (replace(config, seed=seed, steps=steps), lessons), Workers(1), folder, False
    )
    lines += [status.line for status in learn(PPO, task, late, lambda summary: None) if status.line]
    policy = POLICIES.make(str(folder / "best"))
    if read_improvement(folder) is None:  # its time was over: whether it is better is looked at all the same
        best = load_checkpoint(folder / "best", VERSION).tensors
        start = PPO.start(task.scenarios, task.configs)
        found = improvement(*(PPO.confirm(task.scenarios, task.configs, one) for one in (start, best)))
        lines += ["ended early: its time was over", found.words]
        policy = first_rule() if found.better is None else policy
    lines.append(f"{time.perf_counter() - begin:.0f} s")
    (out / f"ppo-{name}-{seed}.log").write_text("\n".join(lines) + "\n")
    (folder / "state.safetensors").unlink(missing_ok=True)
    return _measured(name, policy, traces)


def _rows(scenario: str, found: Mapping[str, Figures], units: Mapping[str, str]) -> list[dict[str, Any]]:
    """The figures of every policy; of what was trained, trace by trace, how far it is ahead of each rule."""
    rows = []
    for policy, figures in found.items():
        for measure, values in figures.items():
            better = "lower" if measure.endswith("gpu_hours") else "higher"
            rows.append(_row(scenario, policy, (measure, units[measure], better), np.array(values)))
        if not policy.startswith("ppo"):
            continue
        first = next(iter(figures))
        sign = -1.0 if first.endswith("gpu_hours") else 1.0
        for rule in found:
            if not rule.startswith("ppo"):
                ahead = sign * (np.array(figures[first]) - np.array(found[rule][first]))
                rows.append(_row(scenario, policy, (f"ahead_of_{rule}", units[first], "higher"), ahead))
    return rows


def _row(scenario: str, policy: str, measure: tuple[str, str, str], values: F64) -> dict[str, Any]:
    name, unit, better = measure
    found = estimate(values.tolist())
    about = {"scenario": scenario, "policy": policy, "measure": name, "unit": unit, "better": better}
    return {**about, "mean": found.mean, "low": found.low, "high": found.high, "n": found.n}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="ppo_study", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--traces", type=int, default=30, help="of the part `test` that all are judged on")
    parser.add_argument("--first", type=int, default=30, help="of them: earlier ones chose the start")
    parser.add_argument("--learners", nargs="+", default=["loop", "world"], choices=["loop", "world"])
    parser.add_argument("--passes", type=int, nargs=2, default=(600, 240), help="of the loop: steady, surge")
    parser.add_argument("--steps", type=int, nargs=2, default=(92_160, 69_120), help="of PPO: steady, surge")
    parser.add_argument("--seconds", type=float, default=320.0, help="after which a training ends early")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    command = " ".join((COMMAND, *arguments[1:]))
    begin = time.perf_counter()
    _world_rule("steady", "predictive", range(1))  # kernels are compiled once, for all processes
    _loop_rule("steady", "static", range(1))
    _say(f"compiled in {time.perf_counter() - begin:.0f} s")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.workers, mp_context=context) as pool:
        loop: dict[str, dict[str, Any]] = {name: {} for name in SCENARIOS}
        world: dict[str, dict[str, Any]] = {name: {} for name in SCENARIOS}
        for place, name in reversed(list(enumerate(SCENARIOS))):  # the longest first
            for seed in SEEDS:
                if "loop" in asked.learners:
                    loop[name][f"ppo-{seed}"] = pool.submit(_loop, name, seed, asked, asked.passes[place])
                if "world" in asked.learners:
                    world[name][f"ppo-{seed}"] = pool.submit(_world, name, seed, asked, asked.steps[place])
        for name in SCENARIOS:
            for rule in LOOP_RULES if "loop" in asked.learners else ():
                loop[name][rule] = pool.submit(_loop_rule, name, rule, _traces(asked))
            for rule in WORLD_RULES if "world" in asked.learners else ():
                world[name][rule] = pool.submit(_world_rule, name, rule, _traces(asked))
        for learner, kept, jobs, units in (
            ("loop", "inference-loop", loop, {"reward": "an interval"}),
            ("world", "inference-ppo", world, MEASURES),
        ):
            if learner not in asked.learners:
                continue
            rows = [
                row
                for name in SCENARIOS
                for row in _rows(name, {policy: job.result() for policy, job in jobs[name].items()}, units)
            ]
            content = {"command": command, "world": "inference", "rows": rows}
            (asked.out / f"{kept}.json").write_text(json.dumps(content, indent=1) + "\n")
            _say(f"{kept}: {len(rows)} rows after {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
