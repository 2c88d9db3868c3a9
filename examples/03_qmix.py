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
import copy
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch

from proreus.kernels.arrays import I64
from proreus.learning.ppo import ServersPPOConfig, servers_ppo
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.policies.networks.rows import ServerActorCritic, ServerAgents
from proreus.worlds.vms.simulation.world import SCENARIOS, compile_trace, with_servers
from proreus.worlds.vms.traces.generate import generate_vms
from proreus.worlds.vms.training.lanes import BEST_FIT_ACTION, FIRST_FIT_ACTION, BatchSettings
from proreus.worlds.vms.training.mac import MACArguments, VectorMAC
from proreus.worlds.vms.training.servers import ServersState, VmsServers, rows_of

TRAINING, CHOOSING, MACHINES = 15_000, 20_000, 30_000
"""Runs of training start before the first of these machines of the trace, those that choose among networks
before the second, those of the judgement after it."""
Choose = Callable[[ServersState], I64]
Network = TypeVar("Network", bound=torch.nn.Module)


def servers(count: int, lanes: int, starts: BatchSettings, ending_cost: float = 0.0) -> VmsServers:
    """So many runs side by side; each placement is worth 1, or only the end of a run costs something."""
    options = with_servers(SCENARIOS["recovering"], count)
    trace = generate_vms(MACHINES, seed=0)
    return VmsServers(compile_trace(trace, options.double), options, lanes, starts, ending_cost)


def judge(env: VmsServers, choose: Choose, seed: int) -> float:
    """Mean return of the first run of every lane."""
    state, total = env.reset(seed), np.zeros(env.lanes)
    running = np.ones(env.lanes, dtype=np.bool_)
    while running.any():
        state, rewards, ended = env.step(choose(state))
        total += rewards * running
        running &= ~ended
    return float(total.mean())


def greedy(network: ServerActorCritic, env: VmsServers) -> Choose:
    """The likeliest choice of PPO's network."""

    def choose(state: ServersState) -> I64:
        with torch.inference_mode():
            logits, _ = network(*(torch.from_numpy(array) for array in rows_of(env, state)))
        found: I64 = logits.argmax(1).numpy()
        return found

    return choose


def bidding(agents: ServerAgents, count: int) -> Choose:
    """The highest bid of QMIX's agents."""
    mac = VectorMAC(MACArguments(count), agents)
    return lambda state: mac.select_actions(state._asdict(), 0.0)


def kept(name: str, env: VmsServers, trained: Iterator[tuple[int, Network, Choose]]) -> Network:
    """The network that does best in `env`, of those that training passes through."""
    best, most = None, -np.inf
    for number, (steps, network, choose) in enumerate(trained):
        if number % 3 == 2:
            found = judge(env, choose, seed=5)
            if found > most:
                best, most = copy.deepcopy(network), found
            print(f"\r{name} {steps:,} choices, held out {found:.1f}, best {most:.1f}", end="", flush=True)
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
    agents = kept(
        "qmix",
        choosing,
        (
            (
                progress.steps,
                progress.learner.mac.agent,
                bidding(progress.learner.mac.agent, arguments.servers),
            )
            for progress in qmix(config, servers(arguments.servers, 64, starts, ending_cost=10.0))
        ),
    )
    ppo = ServersPPOConfig(steps=arguments.steps, seed=arguments.seed)
    actor = kept(
        "ppo",
        choosing,
        (
            (update.steps, update.network, greedy(update.network, choosing))
            for update in servers_ppo(ppo, servers(arguments.servers, 64, starts))
        ),
    )

    count = arguments.judge_servers or arguments.servers
    judged = servers(count, 64, BatchSettings(CHOOSING, MACHINES - 1_000))
    random = np.random.default_rng(arguments.seed)
    policies: dict[str, Choose] = {
        "random": lambda s: np.array([random.choice(np.flatnonzero(legal)) for legal in s.avail]),
        "first fit": lambda s: np.full(len(s.avail), FIRST_FIT_ACTION),
        "best fit": lambda s: np.full(len(s.avail), BEST_FIT_ACTION),
        "qmix": bidding(agents, count),
        "ppo": greedy(actor, judged),
    }
    print(f"held out, {count} servers: machines placed until one fits nowhere, mean of 64 runs")
    for name, choose in policies.items():
        print(f"  {name:10s} {judge(judged, choose, seed=9):10.1f}")


if __name__ == "__main__":
    main()
