"""Learning of the service on a device beside the cores: `python -m proreus.bench.service_learning`.

    PYTHONPATH=src python -m proreus.bench.service_learning --device cuda --json learning.json

Updates of the default model, as the online learner makes them (PPO from recorded decisions, four epochs), by
the kernels on one core, by the kernels on all cores, and by torch on the device; then the plain network; then
one single decision, which the service makes on the CPU, by the kernel and by torch on the device. Needs
NumPy, Numba and torch alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from proreus.learning.device import device_name
from proreus.model.experience import Experience
from proreus.worlds.pods.policies.vector.mlp import initial_tensors
from proreus.worlds.pods.policies.vector.model import MLP, SCORER, Weights, model_of
from proreus.worlds.pods.policies.vector.scorer import MEMORY, initial_parameters
from proreus.worlds.pods.training.vector.gradient import Gradient, gradient_of
from proreus.worlds.pods.training.vector.recorded_ppo import VectorPPO, VectorPPOSettings
from proreus.worlds.pods.training.vector.torch_gradient import TorchGradient

SIZES = ((7, 64, 256), (7, 16_384, 4_096), (100, 4_096, 1_024), (1_000, 2_048, 512))
"""Nodes, decisions of an update, decisions of a step."""
_ROUNDS = 3
_DECISIONS = 300


@dataclass(frozen=True)
class Timed:
    """One figure, as `proreus bench` has them: torch on the device beside the kernels."""

    what: str
    unit: str
    ours: float
    peer: float
    peer_name: str

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "ratio": self.peer / self.ours, "goal": None, "ok": None}


def weights_of(kind: str, nodes: int) -> Weights:
    """An untrained model of a cluster of so many nodes."""
    if kind == MLP:
        return Weights(MLP, dict(initial_tensors(2 * nodes, 2 * nodes + 2, 0)))
    memory = np.zeros((nodes, MEMORY), dtype=np.float32)
    return Weights(SCORER, {"parameters": initial_parameters(0), "memory": memory})


def recorded(weights: Weights, nodes: int, decisions: int) -> Experience:
    """Decisions that the model drew, with a reward for the first node."""
    random = np.random.default_rng(0)
    states = random.random((decisions, 2 * nodes))
    actions_dim = 2 * nodes + 2
    model = model_of(weights.kind, weights.tensors, Path())
    actions, log_probs = model.decide_batch(states, actions_dim, None, random.random(decisions))
    return Experience(
        states=states,
        actions=actions,
        rewards=(actions == 0).astype(np.float64) + random.normal(0.0, 0.1, decisions),
        dones=np.ones(decisions, dtype=np.bool_),
        log_probs=log_probs,
        greedy=np.zeros(decisions, dtype=np.bool_),
        model_version=1,
        actions_dim=actions_dim,
    )


def seconds_of(
    kind: str, nodes: int, sizes: tuple[int, int], network: Callable[[Weights], Gradient]
) -> float:
    """The median time of an update; sizes: decisions of the update, and of a step."""
    weights = weights_of(kind, nodes)
    experience = recorded(weights, nodes, sizes[0])
    times = []
    for _ in range(_ROUNDS + 1):
        learner = VectorPPO(weights, VectorPPOSettings(minibatch=sizes[1], target_kl=0.0))
        learner.network = network(weights)
        begin = time.perf_counter()
        learner.update([experience])
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])  # the first one compiles, and wakes the device


def updates(device: str, tell: Callable[[str], None]) -> Iterator[Timed]:
    """Updates of both networks at all sizes: the device beside one core and beside all of them."""
    for kind in (SCORER, MLP):
        for nodes, decisions, step in SIZES:
            what = f"{kind}, {nodes:,} nodes, an update from {decisions:,} decisions"
            tell(what)
            sizes = (decisions, step)
            there = seconds_of(kind, nodes, sizes, partial(_on_device, device))
            # NumPy has threads of its own for the plain network: it has one figure.
            for threads, name in ((1, "kernels, one core"), (0, "kernels, all cores"))[kind == MLP :]:
                here = seconds_of(kind, nodes, sizes, partial(_on_cores, threads))
                yield Timed(what, "ms", 1e3 * there, 1e3 * here, name)


def _on_device(device: str, weights: Weights) -> Gradient:
    return TorchGradient(weights.kind, weights.tensors, device)


def _on_cores(threads: int, weights: Weights) -> Gradient:
    return gradient_of(weights.kind, weights.tensors, threads)


def decisions(device: str) -> Iterator[Timed]:
    """One decision about 14 numbers: where it is fastest."""
    nodes = 7
    weights = weights_of(SCORER, nodes)
    model = model_of(weights.kind, weights.tensors, Path())
    network = TorchGradient(weights.kind, weights.tensors, device)
    states = np.random.default_rng(1).random((_DECISIONS, 2 * nodes))

    def median(decide: Callable[[np.ndarray[Any, np.dtype[np.float64]]], object]) -> float:
        times = []
        for state in states:
            begin = time.perf_counter()
            decide(state)
            times.append(time.perf_counter() - begin)
        return 1e6 * statistics.median(times)

    by_kernel = median(lambda state: model.decide(state, 2 * nodes + 2, None, 0.5))
    by_torch = median(lambda state: int(network.forward(state[None], 2 * nodes + 2)[0].argmax()))
    yield Timed("one decision about 14 numbers, p50", "us", by_torch, by_kernel, "kernel, one core")


def main(words: list[str] | None = None) -> int:
    """Measure, print, and write JSON where it is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where torch computes")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args(words)
    name = device_name(arguments.device)
    sys.stdout.write(f"torch on {name}\n")
    rows = []

    def tell(text: str) -> None:
        sys.stderr.write(f"  {text}\n")

    for timed in itertools.chain(updates(arguments.device, tell), decisions(arguments.device)):
        sys.stdout.write(
            f"{timed.what}: {timed.ours:.2f} {timed.unit} on {arguments.device}, "
            f"{timed.peer:.2f} {timed.unit} by {timed.peer_name}\n"
        )
        sys.stdout.flush()
        rows.append(timed.row())
    if arguments.json is not None:
        machine = {"device": name, "processor": platform.processor(), "python": platform.python_version()}
        about = {"bench": "service_learning", "machine": machine, "rows": rows}
        arguments.json.write_text(json.dumps(about, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
