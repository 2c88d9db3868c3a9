"""`proreus bench train`: choices per second of PPO, learning included, beside Stable-Baselines3.

All three train on the same world (generated services and batch work, pods drawn anew every episode,
reward completion) in one process on all cores, one after the other:

- ours: 64 lanes x 128 choices, 4 epochs of 4 minibatches, the size-free scorer, fused kernels;
- plain: SB3's PPO and MlpPolicy (64 x 64) on one Gymnasium env with the hyper-parameters people start with
  (2,048 steps, minibatches of 64, 10 epochs, learning rate 3e-4);
- batched: SB3's PPO fed by the very same 64 lanes, the very same network in torch, action masks, 128
  choices, minibatches and epochs.

The peers' env is our Numba world, so the ratio is that of training, not of a slow simulator. Rates are
medians over whole updates after a first one that is not counted; no update stops early. The peers run
with one torch thread and with one per core, and the better rate counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proreus.contract.benchmark import BenchRow, claim
from proreus.model.errors import UsageError
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.batched_lanes import BatchedPods
from proreus.worlds.pods.training.fused_ppo import FusedPPO, FusedPPOConfig

PLAIN_GOAL, BATCHED_GOAL = 20.0, 4.0
"""How many times the peers' rate ours should be."""
SIZES = ((7, 200), (100, 1_500))
"""Nodes and pods of an episode."""
LANES, STEPS, EPOCHS, MINIBATCHES = 64, 128, 4, 4
_UPDATES = 3
_SECONDS = 3.0
_PLAIN_EPOCHS = 10


def bench_train(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """PPO at 7 and at 100 nodes; needs no data, and the extras `learn` and `sb3`."""
    del data
    try:
        from proreus.bench.train_peers import batched_rate, plain_rate
    except ImportError as error:
        raise UsageError(f"bench train needs the extras learn and sb3: {error}") from error
    for nodes, pods in SIZES:
        workload = compile_workload(generate("small", 0, nodes=nodes, pods=pods))
        tell(f"{nodes} nodes: ours")
        ours = our_rate(workload, EPOCHS)
        tell(f"{nodes} nodes: SB3, one env")
        plain = plain_rate(new_batch(workload, 1), _UPDATES)
        tell(f"{nodes} nodes: SB3, the same {LANES} lanes and network")
        batched = batched_rate(new_batch(workload, LANES), _UPDATES)
        tell(f"{nodes} nodes: ours again")
        ours = statistics.mean([ours, our_rate(workload, EPOCHS)])
        what = f"PPO at {nodes} nodes, learning included"
        yield claim(
            f"{what}, against plain SB3",
            "steps/s",
            ours,
            goal=PLAIN_GOAL * plain,
            peer=(plain, "SB3, one Gymnasium env, 10 epochs"),
        )
        yield claim(
            f"{what}, against batched SB3",
            "steps/s",
            ours,
            goal=BATCHED_GOAL * batched,
            peer=(batched, "SB3, same lanes, network, minibatches"),
        )
        tell(f"{nodes} nodes: ours, as many epochs as plain SB3")
        yield claim(
            f"{what}, {_PLAIN_EPOCHS} epochs as plain SB3",
            "steps/s",
            our_rate(workload, _PLAIN_EPOCHS),
            peer=(plain, "SB3, one Gymnasium env, 10 epochs"),
        )


def new_batch(workload: Compiled, lanes: int) -> BatchedPods:
    """The world that all three train on."""
    return BatchedPods(workload, lanes, 0, 0, "completion")


def our_rate(workload: Compiled, epochs: int) -> float:
    """Choices per second of our PPO, the median over updates."""
    size = LANES * STEPS
    config = FusedPPOConfig(
        steps=1_000 * size,
        rollout_steps=STEPS,
        epochs=epochs,
        minibatches=MINIBATCHES,
        target_kl=0.0,
        device="cpu",  # as the peers
    )
    learner = FusedPPO(config, new_batch(workload, LANES))
    try:
        learner.learn()
        rates: list[float] = []
        begin = time.perf_counter()
        while len(rates) < _UPDATES or time.perf_counter() - begin < _SECONDS:
            rates.append(learner.learn().figures["steps_per_second"])
    finally:
        learner.close()
    return statistics.median(rates)
