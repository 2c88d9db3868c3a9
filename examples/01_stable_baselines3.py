"""Train tools you know on `proreus/Pods-v0`: MaskablePPO and DQN, beside the rules random and best_fit.

    pip install -c constraints.txt -e '.[learn,sb3]'
    python examples/01_stable_baselines3.py --steps 20000
    tensorboard --logdir logs

Every policy is judged on the same held-out workloads, which no model was trained on. More steps, a larger
`--nodes` or another `--encoding` are one flag away; so is another algorithm of Stable-Baselines3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm

import proreus
from proreus.envs import PodsEnv
from proreus.envs.sb3 import make_sb3_env
from proreus.worlds.pods.simulation.world import PodsOptions

HELD_OUT = 1_000_000
"""Seeds from here on are for evaluation; training uses small ones."""


def train(name: str, arguments: argparse.Namespace, settings: dict[str, Any]) -> BaseAlgorithm:
    """The model of that name, trained; hyper-parameters are those people start with."""
    log = str(arguments.logs) if arguments.logs else None
    env = make_sb3_env(count=4, seed=arguments.seed, max_steps=2_000, **settings)
    model: BaseAlgorithm
    if name == "MaskablePPO":
        model = MaskablePPO(
            "MlpPolicy",
            env,
            learning_rate=3e-4,
            n_steps=max(16, min(512, arguments.steps // 4)),
            batch_size=64,
            gamma=0.99,
            tensorboard_log=log,
            seed=arguments.seed,
            policy_kwargs={"net_arch": {"pi": [128, 128], "vf": [128, 128]}},
        )
    else:
        model = DQN(
            "MlpPolicy",
            env,
            learning_starts=min(1_000, arguments.steps // 10),
            buffer_size=20_000,
            gamma=0.99,
            tensorboard_log=log,
            seed=arguments.seed,
        )
    model.learn(arguments.steps, tb_log_name=f"{name.lower()}_pods", progress_bar=arguments.progress)
    if arguments.save:
        model.save(arguments.save / name)
    env.close()
    return model


def evaluate_model(model: BaseAlgorithm, episodes: int, settings: dict[str, Any]) -> list[float]:
    """The returns of a model's deterministic decisions on held-out workloads."""
    returns = []
    for episode in range(episodes):
        env = make_sb3_env(seed=HELD_OUT + episode, max_steps=2_000, **settings)
        observed, total, done = env.reset(), 0.0, False
        while not done:
            if isinstance(model, MaskablePPO):
                action, _ = model.predict(observed, deterministic=True, action_masks=get_action_masks(env))
            else:
                assert isinstance(observed, np.ndarray)
                action, _ = model.predict(observed, deterministic=True)
            observed, rewards, dones, _ = env.step(action)
            total, done = total + float(rewards[0]), bool(dones[0])
        returns.append(total)
        env.close()
    return returns


def evaluate_rule(name: str, episodes: int, settings: dict[str, Any]) -> list[float]:
    """The returns of a rule of the catalogue on the same workloads."""
    returns = []
    for episode in range(episodes):
        env = PodsEnv(seed=HELD_OUT + episode, **settings)
        rule = proreus.make_policy("pods", name, seed=episode)
        env.reset()
        total = 0.0
        while (observation := env.observation) is not None:
            total += env.decide(rule.decide(observation))[1]
        returns.append(total)
    return returns


def parse(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000, help="training steps per model")
    parser.add_argument("--scenario", default="gpu", help="a preset of the generator: gpu, small, medium")
    parser.add_argument("--nodes", type=int, default=7, help="nodes of the cluster")
    parser.add_argument("--encoding", choices=("features", "vector"), default="features")
    parser.add_argument("--reward", choices=("allocation", "completion"), default="allocation")
    parser.add_argument("--episodes", type=int, default=10, help="held-out workloads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="of torch: networks this small are many times slower on several",
    )
    parser.add_argument("--logs", type=Path, default=Path("logs"), help="TensorBoard folder")
    parser.add_argument("--save", type=Path, default=None, help="folder for the trained models")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=find_spec("tqdm") is not None,
        help="progress bar (needs tqdm)",
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> dict[str, list[float]]:
    """Train, evaluate, print the table; returns the figures in it."""
    arguments = parse(words)
    torch.set_num_threads(arguments.threads)
    settings: dict[str, Any] = {
        "scenario": arguments.scenario,
        "encoding": arguments.encoding,
        "reward": arguments.reward,
        "generator": {"nodes": arguments.nodes},
        "work_conserving": True,
        # Pods never leave in "gpu": those that find no room are dropped. Few attempts keep episodes short.
        "world": PodsOptions(drop_failures=arguments.scenario == "gpu", attempt_limit=5),
        "illegal": "delay",  # DQN knows no masks; MaskablePPO never makes an illegal choice
    }
    entries: dict[str, Callable[[], list[float]]] = {
        "random": lambda: evaluate_rule("random", arguments.episodes, settings),
        "best_fit": lambda: evaluate_rule("best_fit", arguments.episodes, settings),
    }
    for name in ("MaskablePPO", "DQN"):
        model = train(name, arguments, settings)
        entries[name] = lambda model=model: evaluate_model(model, arguments.episodes, settings)  # type: ignore[misc]
    table = {name: entry() for name, entry in entries.items()}
    print(f"\n{arguments.reward} reward, {arguments.episodes} held-out workloads, {arguments.steps} steps")
    print(f"{'policy':<12} {'mean':>9} {'+-':>7}")
    for name, returns in table.items():
        error = np.std(returns, ddof=1) / np.sqrt(len(returns)) if len(returns) > 1 else 0.0
        print(f"{name:<12} {np.mean(returns):>9.4f} {error:>7.4f}")
    return table


if __name__ == "__main__":
    main()
