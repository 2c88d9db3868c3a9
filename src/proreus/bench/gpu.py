"""`proreus bench gpu`: PPO with gradients on a CUDA device, beside the kernels on the same machine's cores.

The worlds play on the host's cores in both; only who computes the gradients differs. Same world, network,
minibatches and epochs as `bench train`; more lanes as well, because a GPU wants large minibatches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from proreus.bench.train import EPOCHS, MINIBATCHES, new_batch
from proreus.contract.benchmark import BenchRow, claim
from proreus.learning.device import Device, uses_cuda
from proreus.workers.cores import available_cores
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.fused_ppo import FusedPPO, FusedPPOConfig

CASES = (
    (7, 200, 64, 128),
    (7, 200, 1024, 128),
    (100, 1_500, 64, 128),
    (100, 1_500, 512, 128),
    (1_000, 15_000, 128, 32),
)
"""Nodes, pods of an episode, lanes, choices of each lane per update."""
_UPDATES = 3
_SECONDS = 4.0


def bench_gpu(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Steps per second with gradients on the GPU, and where the time goes; needs a CUDA device."""
    del data
    uses_cuda("cuda")
    for nodes, pods, lanes, steps in CASES:
        workload = compile_workload(generate("small", 0, nodes=nodes, pods=pods))
        tell(f"{nodes} nodes, {lanes} lanes: kernels on the cores")
        host = rate_of(workload, (lanes, steps), "cpu")
        tell(f"{nodes} nodes, {lanes} lanes: gradients on the GPU")
        gpu = rate_of(workload, (lanes, steps), "cuda")
        what = f"PPO at {nodes} nodes, {lanes} lanes x {steps}"
        name = f"kernels, {available_cores()} cores"
        yield claim(f"{what}, learning included", "steps/s", gpu.per_second, peer=(host.per_second, name))
        yield claim(f"{what}, of it playing on the cores", "%", gpu.playing, peer=(host.playing, name))


@dataclass(frozen=True)
class Rate:
    """What the median update did."""

    per_second: float
    playing: float
    """Percent of the time that the worlds played."""


def rate_of(workload: Compiled, shape: tuple[int, int], device: Device) -> Rate:
    """Train for a few seconds; shape: lanes, and choices of each per update."""
    lanes, steps = shape
    config = FusedPPOConfig(
        steps=10_000 * lanes * steps,
        rollout_steps=steps,
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        target_kl=0.0,
        device=device,
    )
    learner = FusedPPO(config, new_batch(workload, lanes))
    try:
        learner.learn()
        rates, playing = list[float](), list[float]()
        begin = time.perf_counter()
        while len(rates) < _UPDATES or time.perf_counter() - begin < _SECONDS:
            rates.append(learner.learn().figures["steps_per_second"])
            playing.append(learner.aside["playing"])
    finally:
        learner.close()
    return Rate(statistics.median(rates), 100.0 * statistics.median(playing))
