"""Agents that bid for virtual machines: QMIX and PPO on the world `vms`, beside random, first and best fit.

    pip install -c constraints.txt -e '.[learn]'
    python examples/03_qmix.py --steps 200000 --servers 5

A run ends with the first machine that fits nowhere; machines that were deleted give back what they took.
Everybody is judged on the same held-out stretch of a generated trace, which nobody was trained on. What was
learned decides for any number of servers: `--judge-servers` says on how many it is judged. Of the networks on
the way the one that does best on a stretch between the two is kept; `proreus train vms --algo qmix|ppo` does
all this with a run folder that can be resumed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch

from proreus.contract.lanes import Arrays, Choices
from proreus.kernels.arrays import I64
from proreus.learning.ppo import PPOConfig, ppo
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.learning.step import Update
from proreus.policies.networks.row_networks import ActorCritic, QMIXNetwork, best_choice
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.simulation.world import (
    BEST_FIT_ACTION,
    FIRST_FIT_ACTION,
    SCENARIOS,
    compile_trace,
    with_servers,
)
from proreus.worlds.vms.training.lanes import BatchedVms, BatchSettings, VmRowLanes

TRAINING, CHOOSING, MACHINES = 15_000, 20_000, 30_000
"""Runs of training start before the first of these machines of the trace, those that choose among networks
before the second, those of the judgement after it."""
HIDDEN = 64
"""Width of the networks, as the learners have it by default."""
Network = TypeVar("Network", bound=torch.nn.Module)
Choose = Callable[[Choices], I64]


def servers(count: int, lanes: int, starts: BatchSettings, ending_cost: float = 0.0) -> VmRowLanes:
    """So many runs side by side; each placement is worth 1, or only the end of a run costs something."""
    options = with_servers(SCENARIOS["recovering"], count)
    trace = generate_vms(MACHINES, seed=0)
    return VmRowLanes(BatchedVms(compile_trace(trace, options.double), options, lanes, starts), ending_cost)


def judge(lanes: VmRowLanes, choose: Choose, seed: int) -> float:
    """Mean return of the first run of every lane."""
    seen, total = lanes.reset(seed), np.zeros(len(lanes))
    running = np.ones(len(lanes), dtype=np.bool_)
    while running.any():
        steps = lanes.step(choose(seen))
        seen, total = steps.choices, total + steps.own * running
        running &= ~steps.ended
    return float(total.mean())


def greedy(tensors: Arrays) -> Choose:
    """The likeliest choice of PPO's network."""
    network = loaded(ActorCritic(HIDDEN, *SIZES), tensors)

    def choose(seen: Choices) -> I64:
        with torch.inference_mode():
            logits, _ = network(*(torch.from_numpy(array) for array in seen))
        choices: I64 = logits.argmax(1).numpy()
        return choices

    return choose


def bidding(tensors: Arrays) -> Choose:
    """The highest bid of QMIX's agents."""
    agents = loaded(QMIXNetwork(HIDDEN, *SIZES), tensors).agents

    def choose(seen: Choices) -> I64:
        rows, context, legal = (torch.from_numpy(array) for array in seen)
        with torch.inference_mode():
            choices: I64 = best_choice(agents.bids(rows, context), legal).numpy()
        return choices

    return choose


def loaded(network: Network, tensors: Arrays) -> Network:
    """The network with these weights."""
    network.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
    return network


def kept(
    name: str, lanes: VmRowLanes, updates: Iterator[Update], policy: Callable[[Arrays], Choose]
) -> Choose:
    """The policy that does best in `lanes`, of those that training passes through."""
    best, most = None, -np.inf
    for update in updates:
        if update.number % 3 == 0:
            choose = policy(update.tensors())
            score = judge(lanes, choose, seed=5)
            if score > most:
                best, most = choose, score
            steps = update.figures["steps"]
            print(f"\r{name} {steps:,.0f} choices, held out {score:.1f}, best {most:.1f}", end="", flush=True)
    print()
    if best is None:
        raise SystemExit(f"{name}: more steps are needed, such as --steps 50000")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--servers", type=int, default=5)
    parser.add_argument("--judge-servers", type=int, default=0, help="0: as many as were trained on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # networks this small are fastest so

    starts = BatchSettings(0, TRAINING)
    # Less exploration than by default: a random choice in five fills the cluster up by itself.
    config = QMIXConfig(steps=arguments.steps, seed=arguments.seed, epsilon_values=(0.5, 0.2, 0.02, 0.02))
    choosing = servers(arguments.servers, 32, BatchSettings(TRAINING, CHOOSING - 1_000))
    training = servers(arguments.servers, 64, starts, ending_cost=10.0)
    qmix_choice = kept("qmix", choosing, qmix(config, training), bidding)
    own_reward = servers(arguments.servers, 64, starts)
    ppo_config = PPOConfig(steps=arguments.steps, seed=arguments.seed)
    ppo_choice = kept("ppo", choosing, ppo(ppo_config, own_reward), greedy)

    count = arguments.judge_servers or arguments.servers
    judged = servers(count, 64, BatchSettings(CHOOSING, MACHINES - 1_000))
    random = np.random.default_rng(arguments.seed)
    policies: dict[str, Choose] = {
        "random": lambda s: np.array([random.choice(np.flatnonzero(legal)) for legal in s.legal]),
        "first fit": lambda s: np.full(len(s.legal), FIRST_FIT_ACTION),
        "best fit": lambda s: np.full(len(s.legal), BEST_FIT_ACTION),
        "qmix": qmix_choice,
        "ppo": ppo_choice,
    }
    print(f"held out, {count} servers: machines placed until one fits nowhere, mean of 64 runs")
    for name, choose in policies.items():
        print(f"  {name:10s} {judge(judged, choose, seed=9):10.1f}")


if __name__ == "__main__":
    main()
