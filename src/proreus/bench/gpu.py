"""`proreus bench gpu`: worlds and PPO on a CUDA device, beside the host's lanes, SB3 and a naive graph.

Same world, network, minibatches and epochs as `bench train`. In one run, one after the other:

- ours: worlds, advantages, minibatches and optimiser on the device (`--worlds device`), with rollout alone;
- the naive graph: the least that an environment in torch can do, rollout alone;
- gradients on the device, worlds on the host's cores (`--worlds host`);
- kernels: everything on the host's cores;
- SB3, fed by the same kind of lanes, where it is installed.

Then rollouts of virtual machines, and members of the two evolutions whose population plays at once.

`--device cpu` measures the same columns at small sizes with the same code, without a GPU and without goals.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from proreus.bench.train import EPOCHS, MINIBATCHES, new_batch
from proreus.contract.benchmark import BenchRow, claim
from proreus.learning.device import Device, uses_cuda
from proreus.model.errors import UsageError
from proreus.workers.cores import available_cores
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.training.fused_ppo import FusedPPO, FusedPPOConfig


@dataclass(frozen=True)
class Case:
    """A size of the world, and how much of it is played at once."""

    nodes: int
    pods: int
    """Of an episode."""
    lanes: int
    """On the device."""
    steps: int
    """Of each lane per update."""
    host: tuple[int, int]
    """Lanes and choices of each, where the worlds play on the host."""
    goal: float | None
    """Choices per second, learning included."""


CASES = {
    "cuda": (
        Case(7, 200, 32_768, 32, (1_024, 128), 10e6),
        Case(100, 1_500, 8_192, 16, (512, 128), 1e6),
        Case(1_000, 15_000, 1_024, 8, (128, 32), 0.1e6),
    ),
    "cpu": (Case(4, 30, 16, 8, (16, 8), None),),
}
ROLLOUTS = {"cuda": (5, 16_384, 32, (64, 128), 110_000), "cpu": (2, 16, 8, (16, 8), 2_000)}
"""Of virtual machines: servers, lanes on the device, steps, lanes and choices of the host, the trace's."""
SEARCHES = {"cuda": (256, 32, (5, 60, 110_000), 1_213), "cpu": (2, 2, (1, 3, 2_000), 2)}
"""Members on the device and on the host; servers, starts of each and machines of the trace; nodes of GPU
pods, openb's number."""
NAIVE_SHARE = 0.5
"""Of the naive graph's rate, with all of the world's rules."""
_UPDATES = 3
_SECONDS = {"cuda": 4.0, "cpu": 0.2}


def bench_gpu(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    device: Annotated[Literal["cuda", "cpu"], "Where the worlds play; cpu: small sizes, no goals."] = "cuda",
) -> Iterator[BenchRow]:
    """Choices per second of playing alone and with learning, bytes moved; needs the extra `learn`."""
    del data
    if importlib.util.find_spec("torch") is None:
        raise UsageError("bench gpu needs torch: pip install 'proreus[learn]'")
    if device == "cuda" and not _has_cuda():
        raise UsageError(
            "bench gpu: no CUDA device here, or torch without CUDA; --device cpu measures small sizes"
        )
    for case in CASES[device]:
        yield from _rows(case, device, tell)
    yield from _other_rows(device, tell)


def _other_rows(device: Literal["cuda", "cpu"], tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Virtual machines, and populations, beside the host's cores."""
    from proreus.bench import population_rates as rates

    seconds, cores = _SECONDS[device], f"{available_cores()} cores"
    runs = rates.RolloutSize(*ROLLOUTS[device])
    name = f"vms@{runs.servers}, {runs.lanes} lanes x {runs.steps}"
    tell(f"{name}: runs on the device, and on the host")
    played = rates.vms_rollouts(runs, device, seconds)
    peer = (played.host, f"runs on one core, {runs.host[0]} lanes")
    yield claim(f"{name}: rollout alone", "choices/s", played.device, peer=peer)
    size = rates.SearchSize(*SEARCHES[device])
    for name, measure in (
        (f"vms@{size.vms[0]}, {size.population} members x {size.vms[1]} starts", rates.vms_generations),
        (f"gpu@{size.pods}, {size.population} members", rates.pods_generations),
    ):
        tell(f"{name}: rated on the device, and {size.host} of them on the cores")
        rated = measure(size, device, seconds)
        yield claim(f"{name}: es", "members/min", rated.device, peer=(rated.host, f"kernels, {cores}"))


def _has_cuda() -> bool:
    return uses_cuda("auto")


def _rows(case: Case, device: Literal["cuda", "cpu"], tell: Callable[[str], None]) -> Iterator[BenchRow]:
    import torch

    from proreus.bench.device_rates import device_rates
    from proreus.bench.naive_graph import NaiveEnv

    workload = compile_workload(generate("small", 0, nodes=case.nodes, pods=case.pods))
    name = f"{case.nodes} nodes, {case.lanes} lanes x {case.steps}"
    tell(f"{name}: worlds on the device")
    effort = (_UPDATES, _SECONDS[device])
    ours = device_rates(workload, (case.lanes, case.steps), device, effort)
    tell(f"{name}: the naive graph")
    naive = NaiveEnv(case.lanes, case.nodes, torch.device(device)).rate(effort[1])
    least = NAIVE_SHARE * naive if device == "cuda" else None
    yield claim(f"{name}: rollout alone", "choices/s", ours.rollout, goal=least, peer=(naive, "naive graph"))
    with_learning = f"{name}: learning included"
    lanes, steps = case.host
    if device == "cuda":
        tell(f"{name}: gradients on the device, worlds on the cores")
        gradients = rate_of(workload, case.host, "cuda", effort)
        peer = (gradients.per_second, f"worlds on {available_cores()} cores, {lanes} lanes")
        yield claim(with_learning, "choices/s", ours.learning, goal=case.goal, peer=peer)
    tell(f"{name}: kernels on the cores")
    kernels = rate_of(workload, case.host, "cpu", effort)
    peer = (kernels.per_second, f"kernels, {available_cores()} cores, {lanes} lanes")
    yield claim(with_learning, "choices/s", ours.learning, goal=case.goal, peer=peer)
    if importlib.util.find_spec("stable_baselines3") is not None:
        from proreus.bench.train_peers import batched_rate

        tell(f"{name}: SB3 on {lanes} lanes of the host")
        sb3 = batched_rate(new_batch(workload, lanes), 1, (lanes, steps))
        yield claim(with_learning, "choices/s", ours.learning, peer=(sb3, "SB3 on the CPU, batched"))
    yield claim(f"{name}: steps of a lane with a choice", "%", ours.choosing)
    yield claim(f"{name}: rollout, moved", "bytes/choice", ours.bytes_per_choice)
    yield claim(f"{name}: rollout, of the memory's bandwidth", "%", ours.bandwidth)


@dataclass(frozen=True)
class Rate:
    """What the median update did."""

    per_second: float
    playing: float
    """Percent of the time that the worlds played."""


def rate_of(workload: Compiled, shape: tuple[int, int], device: Device, effort: tuple[int, float]) -> Rate:
    """Train with worlds on the host; shape: lanes, choices of each per update; effort: updates, seconds."""
    lanes, steps = shape
    config = FusedPPOConfig(
        steps=10_000 * lanes * steps,
        rollout_steps=steps,
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        target_kl=0.0,
        device=device,
        worlds="host",
    )
    learner = FusedPPO(config, new_batch(workload, lanes))
    try:
        learner.learn()
        rates, playing = list[float](), list[float]()
        begin = time.perf_counter()
        while len(rates) < effort[0] or time.perf_counter() - begin < effort[1]:
            rates.append(learner.learn().figures["steps_per_second"])
            playing.append(learner.aside["playing"])
    finally:
        learner.close()
    return Rate(statistics.median(rates), 100.0 * statistics.median(playing))
