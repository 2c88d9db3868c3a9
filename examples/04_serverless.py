"""Serverless placement with Stable-Baselines3, then with the trainer of this package: train, save, evaluate,
infer.

    pip install -c constraints.txt -e '.[learn,sb3]'
    python examples/04_serverless.py --steps 20000
    python examples/04_serverless.py --race --steps 40000 --curve curve.csv

PPO and DQN know no masks: an illegal action counts as the first legal one. Every model is judged by the
measure `objective` (response time and cost, less is better) on the same held-out episodes. `--rows` injects
instances to place from a generator of rows in place of the world's own requests. `--race` trains PPO of
Stable-Baselines3 and then PPO of this package until it is as good, and says how long each took.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from proreus.envs import ServerlessSchedulingEnv
from proreus.learning.ppo import PPOConfig, ppo
from proreus.worlds.functions.policies.catalogue import network_policy, rule_policy
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.training.goal import played
from proreus.worlds.functions.training.lanes import lanes_of

EPISODES = 20
"""Held out: those of the part `test`; training uses the part `train`."""
ILLEGAL: dict[str, Any] = {"illegal": "first", "illegal_penalty": 0.0}
"""So that the rewards of an episode add up to minus its objective."""
SCENARIO = FunctionsScenario("environment", load_share=0.25, seconds=60.0, functions=5)
"""What the environment plays unless rows are injected."""


def load_rows(seed: int) -> Iterator[dict[str, Any]]:
    """Instances to place, one after the other: replace this by your own data."""
    draw = np.random.default_rng(seed)
    while True:
        yield {
            "cpu_request": draw.uniform(0.1, 4.0),
            "mem_request": draw.uniform(0.1, 8.0),
            "io_network": draw.uniform(10, 100),
            "io_disk": draw.uniform(100, 1000),
            "requests": int(draw.integers(1, 100)),
        }


def make_env(arguments: argparse.Namespace, part: str = "train") -> ServerlessSchedulingEnv:
    """The environment, with rows injected where that is asked for."""
    env = ServerlessSchedulingEnv(num_nodes=10, num_functions=5, reward="objective", part=part, **ILLEGAL)
    if arguments.rows:
        env.set_dataset(load_rows(seed=0 if part == "train" else 1))
    return env


def make_model(name: str, arguments: argparse.Namespace) -> BaseAlgorithm:
    """The model of that name; observations are a dict, so the policy is MultiInputPolicy."""
    env = DummyVecEnv([lambda: make_env(arguments)])
    env.seed(arguments.seed)
    common: dict[str, Any] = {"gamma": 0.99, "verbose": 0, "seed": arguments.seed}
    if name == "DQN":
        return DQN("MultiInputPolicy", env, buffer_size=20_000, learning_starts=200, **common)
    kind = PPO if name == "PPO" else MaskablePPO
    layers = {"net_arch": {"pi": [128, 128], "vf": [128, 128]}}
    steps = min(2_048, max(64, arguments.steps // 4))
    return kind(
        "MultiInputPolicy",
        env,
        learning_rate=3e-4,
        n_steps=steps,
        batch_size=64,
        policy_kwargs=layers,
        **common,
    )


def evaluate(model: BaseAlgorithm, arguments: argparse.Namespace) -> list[float]:
    """The objective of held-out episodes, decided without dice."""
    env, objectives = make_env(arguments, "test"), []
    for episode in range(arguments.episodes):
        seen, _ = env.reset(seed=episode)
        over, info = False, {}
        while not over:
            if isinstance(model, MaskablePPO):
                action, _ = model.predict(seen, deterministic=True, action_masks=env.action_masks())
            else:
                action, _ = model.predict(seen, deterministic=True)
            seen, _, over, _, info = env.step(int(action))
        objectives.append(float(info["measures"]["objective"]))
    return objectives


def infer(name: str, path: Path, arguments: argparse.Namespace) -> None:
    """Load a saved model and let it decide."""
    kinds: dict[str, type[BaseAlgorithm]] = {"PPO": PPO, "DQN": DQN, "MaskablePPO": MaskablePPO}
    env = DummyVecEnv([lambda: make_env(arguments, "test")])
    model: Any = kinds[name].load(path, env=env)
    seen = env.reset()
    for _ in range(3):
        masks = {"action_masks": get_action_masks(env)} if name == "MaskablePPO" else {}
        actions, _ = model.predict(seen, deterministic=True, **masks)
        seen, rewards, _, _ = env.step(actions)
        print(f"{name}: an instance starts on node {actions[0]}, reward {rewards[0]:.3f}")


def native_objective(tensors: dict[str, Any], episodes: int) -> float:
    """The mean objective of a network of this package, which keeps idle instances as the environment does."""
    policy = network_policy("native", tensors, places_only=True)
    return float(np.mean([played(work, policy)[0] for work in held_out(episodes)]))


def held_out(episodes: int) -> list[Any]:
    """The work that `evaluate` plays: an environment draws the number of its episode from its seed."""
    draws = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))) for seed in range(episodes)]
    return [SCENARIO.of_part("test").load(int(draw.integers(1_000_000))).work for draw in draws]


def train_native(arguments: argparse.Namespace, target: float | None) -> list[tuple[float, int, float]]:
    """(seconds, steps, objective) after each update; it ends where the objective is below the target."""
    lanes = lanes_of(SCENARIO, 64, keeper="fixed", waits=False)
    config = PPOConfig(steps=arguments.steps * 8, rollout_steps=32, hidden=32, seed=arguments.seed)
    curve, spent, began = [], 0.0, time.perf_counter()
    for update in ppo(config, lanes):
        spent += time.perf_counter() - began
        objective = native_objective(update.tensors(), arguments.episodes)
        curve.append((spent, int(update.figures["steps"]), objective))
        if target is not None and objective <= target:
            break
        began = time.perf_counter()
    return curve


class Curve(BaseCallback):
    """(seconds, steps, objective) now and then, the time of judging left out."""

    def __init__(self, arguments: argparse.Namespace, every: int) -> None:
        super().__init__()
        self.arguments, self.every, self.spent = arguments, every, 0.0
        self.found: list[tuple[float, int, float]] = []

    def _on_training_start(self) -> None:
        self.began = time.perf_counter()

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            self.spent += time.perf_counter() - self.began
            objective = float(np.mean(evaluate(self.model, self.arguments)))
            self.found.append((self.spent, self.num_timesteps, objective))
            self.began = time.perf_counter()
        return True


def race(arguments: argparse.Namespace) -> tuple[float, float]:
    """(seconds of Stable-Baselines3 to its best, seconds of this package to the same quality)."""
    model, curve = make_model("PPO", arguments), Curve(arguments, max(arguments.steps // 10, 1))
    model.learn(arguments.steps, callback=curve)
    seconds, steps, target = curve.found[-1]
    print(f"Stable-Baselines3 PPO: objective {target:.2f} after {steps:,} steps, {seconds:.1f} s")
    native = train_native(arguments, target)
    reached = native[-1][2] <= target
    spent, steps, objective = native[-1]
    print(f"this package's PPO: objective {objective:.2f} after {steps:,} steps, {spent:.1f} s")
    print(f"{seconds / spent:.1f} times faster" if reached else "it did not get there")
    if arguments.curve:
        with arguments.curve.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("learner", "seconds", "steps", "objective"))
            writer.writerows(("sb3", *row) for row in curve.found)
            writer.writerows(("native", *row) for row in native)
    return seconds, native[-1][0]


def parse(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000, help="training steps per model")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="held-out episodes")
    parser.add_argument("--rows", action="store_true", help="inject rows in place of generated requests")
    parser.add_argument("--race", action="store_true", help="PPO of both, by the clock")
    parser.add_argument("--curve", type=Path, default=None, help="CSV file of the race")
    parser.add_argument("--save", type=Path, default=Path("models"), help="folder for the trained models")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> dict[str, float]:
    """Train, save, evaluate, infer; returns the mean objectives."""
    arguments = parse(words)
    torch.set_num_threads(1)
    if arguments.race:
        ours, theirs = race(arguments)
        return {"sb3 s": ours, "native s": theirs}
    table = {}
    for name in ("PPO", "DQN", "MaskablePPO"):
        model = make_model(name, arguments)
        model.learn(arguments.steps)
        path = arguments.save / f"{name.lower()}_serverless"
        model.save(path)
        table[name] = float(np.mean(evaluate(model, arguments)))
        infer(name, path, arguments)
    if not arguments.rows:
        table["native PPO"] = train_native(arguments, None)[-1][2]
        rule = rule_policy("least_utilised")
        table["least_utilised"] = float(
            np.mean([played(work, rule)[0] for work in held_out(arguments.episodes)])
        )
    print(f"\n{arguments.episodes} held-out episodes, {arguments.steps} steps; less is better")
    for name, objective in table.items():
        print(f"{name:<16} {objective:>8.2f}")
    return table


if __name__ == "__main__":
    main()
