"""The document's training script, judged: does learning pay on `ServerlessSchedulingEnv`?

    pip install -c constraints.txt -e '.[learn,sb3]'
    python examples/07_serverless_learning.py --learners PPO --seeds 0 --steps 20000
    python examples/07_serverless_learning.py --json docs/results/serverless-learning.json

The rows to place, the ten nodes, the networks, the hyper-parameters of PPO and the 100,000 steps are the
document's; the environment is made with `flat=True`, so that `MlpPolicy` takes its observations. PPO, DQN,
MaskablePPO and the PPO of this package learn with several seeds each and are judged on episodes that none of
them saw, beside the rules, any legal node (`random`), any node at all (`blind`) and the best of the ten
constant actions. `--models` keeps what was trained: what is there already is not trained again, and PPO goes
on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from proreus.envs import ServerlessSchedulingEnv
from proreus.learning.ppo import PPOConfig, ppo
from proreus.model.estimate import estimate
from proreus.worlds.functions.datasets.rows import RowTerms, demand_of_rows
from proreus.worlds.functions.env import reward_named
from proreus.worlds.functions.policies.catalogue import network_policy, rule_policy
from proreus.worlds.functions.policies.policy import FunctionsRulePolicy
from proreus.worlds.functions.simulation.batch import EpisodeBatch
from proreus.worlds.functions.state.compile import compile_demands
from proreus.worlds.functions.training.lanes import FunctionRowLanes

SB3: dict[str, Any] = {"PPO": PPO, "MaskablePPO": MaskablePPO, "DQN": DQN}
NATIVE = "native PPO"
RULES = ("warm_cost@60", "cheapest", "ensure", "bpbf", "bpff", "kube", "least_utilised")
HELD_OUT = 1_000_000
"""Rows from this seed on are for evaluation; training draws those of small seeds."""
SAVED_EVERY = 10_240
"""Steps of PPO; five of its updates."""
POOL, LANES = 256, 64
Chooser = Callable[[ServerlessSchedulingEnv, Any, dict[str, Any]], int]
"""From the environment, its observation and its info to an action."""


def load_dataset(seed: int) -> Iterator[dict[str, Any]]:
    """The document's instances to place: replace this by your own data."""
    draw = np.random.default_rng(seed)
    while True:
        yield {
            "cpu_request": draw.uniform(0.1, 4.0),
            "mem_request": draw.uniform(0.1, 8.0),
            "io_network": draw.uniform(10, 100),
            "io_disk": draw.uniform(100, 1000),
            "requests": int(draw.integers(1, 100)),
        }


def make_env(seed: int) -> ServerlessSchedulingEnv:
    """The document's environment over the rows of that seed."""
    env = ServerlessSchedulingEnv(num_nodes=10, num_functions=5, flat=True)
    env.set_dataset(load_dataset(seed))
    return env


def make_model(name: str, seed: int) -> BaseAlgorithm:
    """PPO as in the document; DQN with the discount of the paper behind it."""
    env = DummyVecEnv([lambda: make_env(seed)])
    env.seed(seed)
    if name == "DQN":
        return DQN(
            "MlpPolicy",
            env,
            learning_rate=5e-4,
            gamma=0.95,
            batch_size=64,
            buffer_size=50_000,
            learning_starts=1_000,
            target_update_interval=500,
            exploration_fraction=0.3,
            policy_kwargs={"net_arch": [128, 128]},
            seed=seed,
        )
    model: BaseAlgorithm = SB3[name](
        "MlpPolicy",
        env,
        learning_rate=3e-4,
        n_steps=2048,
        batch_size=64,
        gamma=0.99,
        policy_kwargs={"net_arch": {"pi": [128, 128], "vf": [128, 128]}},
        seed=seed,
    )
    return model


def learned_model(name: str, seed: int, path: Path, steps: int) -> BaseAlgorithm:
    """A model trained and saved; one of PPO that was interrupted goes on where it was saved last."""
    model, begun = make_model(name, seed), path.with_suffix(".begun.zip")
    if name == "DQN":  # explores by the share of all steps that is done
        model.learn(steps)
        model.save(path)
        return model
    if begun.exists():
        model = SB3[name].load(begun, env=model.get_env())
    while model.num_timesteps < steps:
        model.learn(min(SAVED_EVERY, steps - model.num_timesteps), reset_num_timesteps=False)
        model.save(begun)
    begun.replace(path)
    return model


def sb3_chooser(name: str, seed: int, arguments: argparse.Namespace) -> Chooser:
    """The model of that name and seed, from the folder of models or trained."""
    path = arguments.models / f"{name}-{seed}-{arguments.steps}.zip"
    model = SB3[name].load(path) if path.exists() else learned_model(name, seed, path, arguments.steps)

    def choose(env: ServerlessSchedulingEnv, seen: Any, info: dict[str, Any]) -> int:
        masks = {"action_masks": info["action_mask"]} if name == "MaskablePPO" else {}
        return int(model.predict(seen, deterministic=True, **masks)[0])

    return choose


def native_chooser(seed: int, arguments: argparse.Namespace) -> Chooser:
    """The PPO of this package: rows of features for each node, many episodes at once, the same reward."""
    path = arguments.models / f"native-{seed}-{arguments.native_steps}.safetensors"
    if path.exists():
        tensors: dict[str, Any] = load_file(path)
    else:
        draw, rows, env = np.random.default_rng(seed), load_dataset(seed), make_env(seed)
        terms = RowTerms(env.num_functions, env.settings.gap)
        demands = [
            demand_of_rows([next(rows) for _ in range(env.settings.rows)], terms, draw) for _ in range(POOL)
        ]
        work = compile_demands(demands, env.settings.terms, "fixed", env.settings.keep_seconds)
        reward: Any = reward_named("latency_cost", env.settings.beta)
        lanes = FunctionRowLanes(EpisodeBatch(work, LANES, reward=reward, waits=False))
        config = PPOConfig(steps=arguments.native_steps, rollout_steps=64, hidden=32, seed=seed)
        for update in ppo(config, lanes):
            tensors = update.tensors()
        save_file(tensors, path)
    return rule_chooser(network_policy(NATIVE, tensors, places_only=True))


def trained(name: str, seed: int, arguments: argparse.Namespace) -> Chooser:
    """The learner of that name on the command line."""
    return native_chooser(seed, arguments) if name == "native" else sb3_chooser(name, seed, arguments)


def rule_chooser(policy: FunctionsRulePolicy) -> Chooser:
    """A rule or a network of this package."""

    def choose(env: ServerlessSchedulingEnv, seen: Any, info: dict[str, Any]) -> int:
        observation = env.observation
        assert observation is not None
        return int(policy.decide(observation).node)

    return choose


def drawn_chooser(legal_only: bool) -> Chooser:
    """Any node, or any that has room."""
    draw = np.random.default_rng(0)

    def choose(env: ServerlessSchedulingEnv, seen: Any, info: dict[str, Any]) -> int:
        mask = info["action_mask"]
        return int(draw.choice(np.flatnonzero(mask) if legal_only else mask.size))

    return choose


def constant_chooser(node: int) -> Chooser:
    """The same node always."""
    return lambda env, seen, info: node


def judged(choose: Chooser, episodes: int) -> np.ndarray[Any, Any]:
    """[episodes, 3]: return, objective in %, share of illegal actions in %; the same episodes for all."""
    table = []
    for episode in range(episodes):
        env = make_env(HELD_OUT + episode)
        seen, info = env.reset(seed=episode)
        total, steps, illegal, over = 0.0, 0, 0, False
        while not over:
            seen, reward, over, _, info = env.step(choose(env, seen, info))
            total, steps, illegal = total + reward, steps + 1, illegal + info["illegal"]
        table.append((total, info["measures"]["objective"], 100.0 * illegal / steps))
    return np.array(table)


def best_of(table: dict[str, np.ndarray[Any, Any]]) -> str:
    """Whose return is highest."""
    return max(table, key=lambda name: float(table[name][:, 0].mean()))


def rows_of(name: str, runs: list[np.ndarray[Any, Any]], random: Any, constant: Any) -> list[dict[str, Any]]:
    """Figures of one policy: means over seeds, intervals over episodes, differences paired by episode."""
    mean = np.mean(runs, axis=0)
    worst = min(runs, key=lambda run: float(run[:, 0].mean()))
    columns = {
        "return": mean[:, 0],
        "objective": mean[:, 1],
        "illegal": mean[:, 2],
        "return over random": mean[:, 0] - random[:, 0],
        "worst seed over random": worst[:, 0] - random[:, 0],
        "return over best constant": mean[:, 0] - constant[:, 0],
    }
    rows = []
    for measure, values in columns.items():
        figure = estimate(values.tolist())
        figures = {"mean": figure.mean, "low": figure.low, "high": figure.high, "n": len(values)}
        rows.append({"scenario": "document", "policy": name, "measure": measure, **figures})
    return rows


def parse(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learners", default="PPO,MaskablePPO,DQN,native", help="which of them; '': none")
    parser.add_argument("--seeds", default="0,1,2", help="of training")
    parser.add_argument("--steps", type=int, default=100_000, help="of Stable-Baselines3, for each model")
    parser.add_argument("--native-steps", type=int, default=400_000, help="of this package's PPO")
    parser.add_argument("--episodes", type=int, default=40, help="held out")
    parser.add_argument("--models", type=Path, default=Path("models"), help="folder of trained models")
    parser.add_argument("--json", type=Path, default=None, help="write the figures there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> list[dict[str, Any]]:
    """Train what is missing, judge, print the table; returns its rows."""
    arguments = parse(words)
    torch.set_num_threads(1)
    arguments.models.mkdir(parents=True, exist_ok=True)
    learned: dict[str, list[np.ndarray[Any, Any]]] = {}
    for name in filter(None, arguments.learners.split(",")):
        label = NATIVE if name == "native" else f"{name} (SB3)"
        for seed in map(int, arguments.seeds.split(",")):
            choose = (
                native_chooser(seed, arguments) if name == "native" else sb3_chooser(name, seed, arguments)
            )
            learned.setdefault(label, []).append(judged(choose, arguments.episodes))
            print(f"{label}, seed {seed}: return {learned[label][-1][:, 0].mean():.2f}", file=sys.stderr)
    constants = {
        f"constant, node {node}": judged(constant_chooser(node), arguments.episodes) for node in range(10)
    }
    rules = {name: judged(rule_chooser(rule_policy(name)), arguments.episodes) for name in RULES}
    constant, rule = best_of(constants), best_of(rules)
    random = judged(drawn_chooser(legal_only=True), arguments.episodes)
    table = {
        "random": [random],
        "blind": [judged(drawn_chooser(legal_only=False), arguments.episodes)],
        "best constant": [constants[constant]],
        "best rule": [rules[rule]],
        **learned,
    }
    rows = [row for name in table for row in rows_of(name, table[name], random, constants[constant])]
    print(f"{arguments.episodes} held-out episodes; best constant: {constant}; best rule: {rule}")
    for row in rows:
        print(f"{row['policy']:<18} {row['measure']:<26} {row['mean']:>9.2f}", row["low"], row["high"])
    if arguments.json:
        settings = {"steps": arguments.steps, "seeds": arguments.seeds, "best": [constant, rule]}
        arguments.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
    return rows


if __name__ == "__main__":
    main()
