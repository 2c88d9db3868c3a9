"""Clusters and jobs in the manner of the k8s simulator, made by a generator: for training, never for results.

Servers come in three sizes with 0 to 8 GPUs and differ in speed; which server has what is drawn anew for
every seed, and the first one is a tainted master. Jobs are bursts of equal training tasks that ask for
GPUs, with CPU and memory roughly in proportion to them. The ticked runtime plays them as it plays the
simulator's own files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proreus.model.node import Node, Pace, Taint
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.k8ssim import WORK_PER_EPOCH

_CORES = (8, 16, 32)
_GPUS = (0, 2, 4, 8)
_SPEEDS = (1.0, 1.5)
_PODS_PER_NODE = 110
_MASTER = Taint("node-role.kubernetes.io/master")
_TASK_GPUS = (1, 1, 2, 2, 4, 4, 8)  # as often as they stand here
_FULLEST, _FULL = 0.6, 0.85  # share of the GPUs that jobs ask for at most: where there is room, and where not
_LATER, _LONGEST_GAP = 0.15, 40  # most jobs come in one burst; chance and seconds of a gap


def volcano_nodes(seed: int, count: int) -> tuple[Node, ...]:
    """A master and count - 1 servers of mixed kinds."""
    random = np.random.default_rng([seed, 1])
    nodes = [Node("master-0", Resources(16_000, 32 * GIB, pods=_PODS_PER_NODE), taints=(_MASTER,))]
    for k in range(1, count):
        cores = int(random.choice(_CORES))
        nodes.append(
            Node(
                f"worker-{k}",
                Resources(cores * 1000, 2 * cores * GIB, pods=_PODS_PER_NODE),
                gpu_count=int(random.choice(_GPUS)),
                pace=Pace(
                    speed=float(random.choice(_SPEEDS)), start_seconds=6.0, start_extra=2.5, start_spacing=2.0
                ),
            )
        )
    return tuple(nodes)


def volcano_jobs(seed: int, nodes: Sequence[Node], busiest: float = 0.9) -> tuple[Pod, ...]:
    """Two to five jobs of training tasks that the cluster has the GPUs for; by submission.

    busiest: tasks per node, at most. Above 1, not every task can have a node to itself.
    """
    random = np.random.default_rng([seed, 2])
    sizes = [g for g in _TASK_GPUS if g <= max(node.gpu_count for node in nodes)] or [0]
    per_gpu = (float(random.choice((0.25, 0.5, 0.5, 0.75))), float(random.uniform(0.6, 1.5)))
    jobs = int(random.integers(2, 6))
    gpus = random.choice(sizes, jobs)
    shares = random.dirichlet(np.full(jobs, 2.0))
    tasks = random.uniform(0.3, busiest) * len(nodes)
    room = (_FULLEST if busiest < 1.0 else _FULL) * sum(node.gpu_count for node in nodes)
    tasks *= min(1.0, room / max(tasks * float((shares * gpus).sum()), 1.0))
    pods: list[Pod] = []
    arrival = 1
    for k in range(jobs):
        count = max(1, round(tasks * shares[k]))
        pods += _tasks(random, (f"job-{k}", int(gpus[k]), count, arrival), per_gpu)
        if random.random() < _LATER:
            arrival += int(random.integers(1, _LONGEST_GAP))
    return tuple(pods)


def _tasks(
    random: np.random.Generator, job: tuple[str, int, int, int], per_gpu: tuple[float, float]
) -> list[Pod]:
    name, gpus, count, arrival = job
    cores = max(gpus, 1) * per_gpu[0] * random.uniform(0.9, 1.1)
    memory = int(max(gpus, 1) * per_gpu[1] * random.uniform(0.85, 1.15) * GIB)
    spec = PodSpec(
        Resources(int(cores * 1000), memory),
        gpu=GpuRequest(gpus, GPU_WHOLE if gpus else 0),
        cpu_limit=int(1.2 * cores * 1000),
    )
    work = float(random.integers(1, 4)) * WORK_PER_EPOCH
    return [Pod(f"{name}-{k}", spec, float(arrival), work, job=name) for k in range(count)]


def volcano_workload(seed: int, nodes: tuple[Node, ...], busiest: float = 0.9) -> Workload:
    """Generated jobs on the given nodes, in ticked time."""
    return Workload(f"volcano-{len(nodes)}-{seed}", nodes, volcano_jobs(seed, nodes, busiest), ticked=True)
