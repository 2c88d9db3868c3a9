"""`proreus models train`: PPO of the service's model, judged on held-out seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.output import new_console, waiting, write_json
from proreus.cli.training_progress import interrupt_noted
from proreus.learning.device import Device, device_name
from proreus.model.errors import UsageError
from proreus.worlds.pods.datasets.k8ssim import read_nodes
from proreus.worlds.pods.policies.vector.model import MLP
from proreus.worlds.pods.training.vector.course import Course
from proreus.worlds.pods.training.vector.train import VectorRunConfig, train_vector


@dataclass(frozen=True)
class VectorArguments:
    """Flags of `proreus models train`."""

    nodes: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The k8s simulator's node file: learn this cluster. Without it the model serves clusters of any size."""
    kind: Literal["vector-scorer", "vector-mlp"] = "vector-scorer"
    """The network: one in which every node bids by the same weights (with --nodes, and by what is known of
    it), or the k8s simulator's plain one, which tells nodes apart by their place and needs --nodes."""
    device: Device = "cpu"
    """Where forward passes of batches and gradients are computed; playing takes the cores."""
    updates: int = 200
    """Updates of the model."""
    episodes: int = 12
    """Workloads that are played for each update."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/vector")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    example = "Example: proreus models train --nodes nodes.yaml --updates 200 --out runs/cluster"
    arguments = parse(VectorArguments, "proreus models train", words, example)
    prepare(arguments.common)
    nodes = () if arguments.nodes is None else read_nodes(arguments.nodes)
    name = "generated clusters" if arguments.nodes is None else f"generated jobs on {arguments.nodes.name}"
    config = VectorRunConfig(
        updates=arguments.updates,
        episodes=arguments.episodes,
        kind=arguments.kind,
        device=arguments.device,
        seed=arguments.common.seed,
    )
    if arguments.kind == MLP and not nodes:
        raise UsageError("--kind vector-mlp: this network knows one cluster; say which with --nodes FILE")
    console = new_console(arguments.common)
    console.print(f"learning: on {device_name(arguments.device)}")
    result: dict[str, object] = {}
    with interrupt_noted() as interrupted, waiting(console, "compiling kernels, first update") as tell:
        for report in train_vector(arguments.out, (name, Course(nodes)), config, interrupted.is_set):
            said = f"update {report.update} of {config.updates}: {report.decisions:,} decisions"
            said += f", reward {report.reward:.3f}, entropy {report.figures['entropy']:.2f}"
            tell(said)
            if report.validation is not None:
                held_out = ", ".join(f"{what} {gain:+.1f} %" for what, gain in report.validation.items())
                console.print(f"{said}; held out: {held_out}{' (best so far)' if report.is_best else ''}")
                result = {"decisions": report.decisions, "validation": report.validation}
            if report.improvement is not None:
                console.print(report.improvement.words, soft_wrap=True)
                result["improvement"] = report.improvement.to_json()
    console.print(f"best checkpoint: {arguments.out / 'best'}", soft_wrap=True)
    write_json(arguments.common, result)
    if interrupted.is_set():
        raise KeyboardInterrupt(f"interrupted: the best so far is in {arguments.out / 'best'}")
    return 0
