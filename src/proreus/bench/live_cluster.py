"""A generated cluster for `proreus bench live`: zones, GPU nodes, some hundred apps with constraints of their
own, and pods by the apps' popularity. Everything follows from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from proreus.model.node import HOSTNAME, ZONE, Effect, Node, Taint, Toleration
from proreus.model.pod import GpuRequest, Pod, PodAffinity, PodSpec, PodTerm, SpreadConstraint
from proreus.model.resources import GIB, MIB, Resources
from proreus.model.selectors import match_labels
from proreus.model.workload import DisruptionBudget

APPS = 250
_ZONES = ("east", "north", "west")
_SIZES = ((16, 64), (32, 128), (64, 256), (96, 384))
"""Cores and GiB of a node."""
GPU_EVERY = 10
_GPUS = 8
_MODELS = ("A100", "T4")
_GPU_TAINT = Taint("gpu", "", Effect.NO_SCHEDULE)
_IMAGES_PER_NODE = 25
_PROTECTED = 40
_CORES = (100, 250, 250, 500, 500, 1_000, 2_000)
_MEMORY = (128, 256, 512, 1_024, 2_048)


@dataclass(frozen=True)
class GeneratedCluster:
    """Nodes, the apps' specs with their weights, and budgets."""

    nodes: tuple[Node, ...]
    specs: tuple[PodSpec, ...]
    weights: tuple[float, ...]
    budgets: tuple[DisruptionBudget, ...]

    def pods(self, seed: int) -> Iterator[Pod]:
        """Pods without end, popular apps more often."""
        rng = random.Random(seed)
        number = 0
        while True:
            for spec in rng.choices(self.specs, self.weights, k=1_000):
                yield Pod(f"pod-{number}", spec)
                number += 1


def generate_cluster(nodes: int, seed: int) -> GeneratedCluster:
    """A cluster of so many nodes."""
    rng = random.Random(seed)
    images = [f"registry/app-{app}:1" for app in range(APPS)]
    budgets = tuple(
        DisruptionBudget(f"app-{app}", match_labels({"app": f"app-{app}"}), max_unavailable=1)
        for app in range(0, APPS, APPS // _PROTECTED)
    )
    return GeneratedCluster(
        nodes=tuple(_node(rng, n, images) for n in range(nodes)),
        specs=tuple(_spec(rng, app, images[app]) for app in range(APPS)),
        weights=tuple(1.0 / (1 + app) ** 0.5 for app in range(APPS)),
        budgets=budgets,
    )


def _node(rng: random.Random, n: int, images: list[str]) -> Node:
    name, (cores, memory) = f"node-{n}", rng.choice(_SIZES)
    gpu = n % GPU_EVERY == 0
    labels = {ZONE: _ZONES[n % len(_ZONES)], "size": str(cores), HOSTNAME: name}
    return Node(
        name=name,
        allocatable=Resources(cpu=1_000 * cores, memory=memory * GIB, ephemeral=100 * GIB, pods=110),
        gpu_count=_GPUS if gpu else 0,
        gpu_model=rng.choice(_MODELS) if gpu else "",
        labels=tuple(sorted(labels.items())),
        taints=(_GPU_TAINT,) if gpu else (),
        images=tuple((image, rng.randrange(50, 900) * MIB) for image in rng.sample(images, _IMAGES_PER_NODE)),
    )


def _spec(rng: random.Random, app: int, image: str) -> PodSpec:
    """One app in ten wants GPUs; of the others some spread, some keep apart, some listen on the host."""
    selector = match_labels({"app": f"app-{app}"})
    gpu = app % 10 == 9
    trait = rng.choice(("plain", "plain", "plain", "soft", "soft", "hard", "apart", "near", "port"))
    apart = PodAffinity(preferred=((50, PodTerm(selector, HOSTNAME)),))
    near = PodAffinity(preferred=((20, PodTerm(match_labels({"app": f"app-{app // 2}"}), ZONE)),))
    spread = SpreadConstraint(selector, ZONE, max_skew=1 if trait == "soft" else 1_000, hard=trait == "hard")
    wanted = rng.choice((GpuRequest(1, 500), GpuRequest(1, 1_000), GpuRequest(2, 1_000), GpuRequest(1, 250)))
    return PodSpec(
        requests=Resources(cpu=rng.choice(_CORES), memory=rng.choice(_MEMORY) * MIB),
        gpu=wanted if gpu else GpuRequest(),
        labels=(("app", f"app-{app}"),),
        priority=rng.choice((0, 0, 0, 100, 1_000)),
        tolerations=(Toleration("gpu", exists=True),) if gpu else (),
        spread=(spread,) if trait in ("soft", "hard") else (),
        anti_affinity=apart if trait == "apart" else PodAffinity(),
        affinity=near if trait == "near" else PodAffinity(),
        host_ports=(("", "TCP", 9_000 + app),) if trait == "port" else (),
        images=(image,),
    )
