"""MaskablePPO of sb3-contrib on virtual machines, beside random, rules and the package's own PPO.

    pip install -c constraints.txt -e '.[learn,sb3]'
    python examples/06_maskable_ppo.py --seeds 0 1 2

A run ends with the first machine that fits nowhere; machines that were deleted give back what they took.
Every placement is worth 1, so values are near 1 / (1 - gamma) in every state, and SB3 clips the gradients of
actor and critic together: rewards are scaled by 1 - gamma here. `RowsPolicy` scores the row of every place
with the same weights, where an `MlpPolicy` has weights of its own for each.

It shows how they are plugged in and judged, and no triumph: docs/lab/training.md says what was tried.

Everybody plays the same runs of a generated trace that nobody was trained on. The intervals are of 95 %, of
the differences to random, run by run.
"""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

import proreus
from proreus.contract.lanes import Choices
from proreus.envs import VIRTUAL_MACHINES, SchedEnv
from proreus.envs.sb3 import RowsPolicy, make_sb3_env
from proreus.learning.ppo import PPOConfig, ppo
from proreus.policies.networks.row_networks import ActorCritic
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import run_end
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.training.episodes import episodes

HELD_OUT = 1_000_000
"""Seed of the trace that everybody is judged on."""
APART = 550
"""Machines between two starts: about as many as a run places, so that runs share few."""
RULES = ("random", "first_fit", "best_fit", "balance_fit")
GAMMA = 0.99
HIDDEN, SIDE_BY_SIDE = 64, 50


def scaled(env: Any, worth: float, info: dict[str, Any]) -> float:
    """A placement as a share of what placing for ever is worth."""
    return (1.0 - GAMMA) * worth


def trained(seed: int, steps: int) -> MaskablePPO:
    """MaskablePPO after so many steps."""
    settings: dict[str, Any] = {"encoding": "rows", "reward": scaled}
    env = make_sb3_env(VIRTUAL_MACHINES, count=16, seed=1_000 * seed, flat=False, **settings)
    model = MaskablePPO(
        RowsPolicy,
        env,
        learning_rate=lambda left: 1e-3 * (0.1 + 0.9 * left),
        n_steps=256,
        batch_size=512,
        n_epochs=4,
        gamma=GAMMA,
        ent_coef=0.003,
        seed=seed,
        policy_kwargs={"hidden": HIDDEN},
    )
    return model.learn(steps)


class Actor:
    """The network of the package's own PPO, asked as `MaskablePPO.predict` is."""

    def __init__(self, seed: int, steps: int) -> None:
        *_, last = ppo(PPOConfig(steps=steps, seed=seed, hidden=HIDDEN), episodes("recovering", 64))
        self._network = ActorCritic(HIDDEN, *SIZES)
        self._network.load_state_dict(
            {name: torch.from_numpy(array) for name, array in last.tensors().items()}
        )

    def predict(self, seen: dict[str, NDArray[Any]], deterministic: bool, action_masks: NDArray[Any]) -> Any:
        """(The likeliest legal place of each, nothing)."""
        choices = Choices(
            seen["rows"].reshape(len(action_masks), -1, SIZES[0]), seen["context"], action_masks
        )
        with torch.inference_mode():
            return self._network(*map(torch.from_numpy, choices))[0].argmax(1).numpy(), None


def placed_by(model: MaskablePPO | Actor, env: SchedEnv, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Machines placed in the runs from these starts by the likeliest choices, many runs side by side."""
    placed = np.zeros(starts.size)
    for first in range(0, starts.size, SIDE_BY_SIDE):
        running = {run: copy.deepcopy(env) for run in range(first, min(first + SIDE_BY_SIDE, starts.size))}
        seen = {run: run_env.reset(int(starts[run]))[0] for run, run_env in running.items()}
        while running:
            stacked = {
                name: np.stack([seen[run][name].reshape(-1) for run in running])
                for name in ("rows", "context")
            }
            masks = np.stack([run_env.action_masks() for run_env in running.values()])
            stacked["action_mask"] = masks.astype(np.int8)
            chosen, _ = model.predict(stacked, deterministic=True, action_masks=masks)
            for (run, run_env), place in zip(list(running.items()), chosen, strict=True):
                seen[run], reward, ended, _, _ = run_env.step(int(place))
                placed[run] += reward
                if ended:
                    del running[run]
    return placed


def main(words: list[str] | None = None) -> dict[str, NDArray[np.float64]]:
    """Train, judge, print the table; returns the machines placed in every run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=131_072, help="training steps of each model")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of MaskablePPO")
    parser.add_argument("--runs", type=int, default=200, help="held-out runs")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)  # networks this small are fastest so

    starts = APART * np.arange(arguments.runs)
    env = SchedEnv(trace=generate_vms(APART * (arguments.runs + 4), HELD_OUT), part="test", encoding="rows")
    ends = np.array([run_end("test", start, len(env.trace)) for start in starts.tolist()])
    runs = planned_runs(env.world.work, env.options, starts, ends=ends)
    table = {}
    for name in RULES:
        figures, _ = play_runs(runs, proreus.make_policy("vms", name, seed=0))
        table[name] = np.array([float(run.placed) for run in figures])
    for seed in arguments.seeds:
        for name, make in (("MaskablePPO", trained), ("proreus ppo", Actor)):
            began = time.process_time()
            model = make(seed, arguments.steps)
            print(f"{name}, seed {seed}: {time.process_time() - began:.0f} s of one core", flush=True)
            table[f"{name}, seed {seed}"] = placed_by(model, env, starts)

    print(f"\nmachines placed, {arguments.runs} held-out runs, {arguments.steps:,} steps")
    print(f"{'policy':<22} {'mean':>7} {'over random':>16}")
    for name, placed in table.items():
        ahead = placed - table["random"]
        error = 1.96 * np.std(ahead, ddof=1) / np.sqrt(ahead.size) if ahead.size > 1 else 0.0
        print(f"{name:<22} {placed.mean():>7.1f} {ahead.mean():>+8.1f} ± {error:>5.1f}")
    return table


if __name__ == "__main__":
    main()
