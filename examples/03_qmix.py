"""Agents that bid for virtual machines: QMIX and PPO on the world `vms`, beside random, first and best fit.

    pip install 'proreus[learn]'
    python examples/03_qmix.py --steps 60000 --servers 5

Machines that find no room wait, and the reward of a placement is -log(1 + waiting time). Everybody is judged
on the same held-out stretch of a generated trace, which nobody was trained on. What was learned decides for
any number of servers: `--judge-servers` says on how many it is judged. Results differ a lot from seed to
seed: try a few.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch

from proreus.cluster.columns import I64
from proreus.learning.mac import MACArguments, VectorMAC
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.learning.servers import ServersState, VmsServers, rows_of
from proreus.learning.servers_ppo import ServersPPOConfig, servers_ppo
from proreus.policies.server_networks import ServerActorCritic
from proreus.traces.vm_generate import generate_vms
from proreus.worlds.vms.batch import BEST_FIT_ACTION, FIRST_FIT_ACTION, BatchSettings
from proreus.worlds.vms.world import SCENARIOS, compile_trace, with_servers

MACHINES, TRAINING = 20_000, 15_000
"""Machines of the trace; runs of training start before the second figure, runs of the judgement after it."""
Choose = Callable[[ServersState], I64]


def servers(count: int, lanes: int, starts: BatchSettings) -> VmsServers:
    """So many runs side by side in which machines wait."""
    options = with_servers(SCENARIOS["waiting"], count)
    trace = generate_vms(MACHINES, seed=0)
    return VmsServers(compile_trace(trace, options.double), options, lanes, starts)


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--servers", type=int, default=5)
    parser.add_argument("--judge-servers", type=int, default=0, help="0: as many as were trained on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # networks this small are fastest so

    training = servers(arguments.servers, 16, BatchSettings(0, TRAINING))
    # Less exploration than by default: a random choice in five keeps the cluster full by itself.
    # So few choices are replayed more often.
    config = QMIXConfig(
        steps=arguments.steps,
        seed=arguments.seed,
        chunk=32,
        discount=0.95,
        epsilon_values=(0.5, 0.2, 0.01, 0.01),
    )
    for progress in qmix(config, training):
        print(f"\rqmix {progress.steps:,} choices, return {progress.mean_return:.1f}", end="", flush=True)
    print()
    ppo = ServersPPOConfig(
        steps=arguments.steps, seed=arguments.seed, rollout_steps=64, minibatches=4, discount=0.95
    )
    for update in servers_ppo(ppo, training):
        print(f"\rppo {update.steps:,} choices, return {update.mean_return:.1f}", end="", flush=True)
    print()

    count = arguments.judge_servers or arguments.servers
    judged = servers(count, 64, BatchSettings(TRAINING, MACHINES - 1_000))
    mac = VectorMAC(MACArguments(count), progress.learner.mac.agent)
    random = np.random.default_rng(arguments.seed)
    policies: dict[str, Choose] = {
        "random": lambda s: np.array([random.choice(np.flatnonzero(legal)) for legal in s.avail]),
        "first fit": lambda s: np.full(len(s.avail), FIRST_FIT_ACTION),
        "best fit": lambda s: np.full(len(s.avail), BEST_FIT_ACTION),
        "qmix": lambda s: mac.select_actions(s._asdict(), 0.0),
        "ppo": greedy(update.network, judged),
    }
    print(f"held out, {count} servers: mean return of 64 runs (0 is best: nobody waits)")
    for name, choose in policies.items():
        print(f"  {name:10s} {judge(judged, choose, seed=9):10.1f}")


if __name__ == "__main__":
    main()
