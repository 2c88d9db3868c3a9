"""The k8s simulator's large test with something changed, drawn by the seed: shows what was learned by heart.

The cluster, the tasks and their times are those of the simulator's files but for one thing: nodes that are
cordoned, another order of the nodes, another mix of their kinds, more or fewer tasks, other arrivals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from proreus.model.workload import Workload

_FEWEST_TASKS, _MOST_TASKS = 100, 800
_LATEST = 60
"""Seconds over which other arrivals spread."""


@dataclass(frozen=True)
class Variant:
    """One way to change the test."""

    name: str
    what: str
    """What is changed, for lists."""
    of: Callable[[Workload, np.random.Generator], Workload]


def _cordoned(count: int) -> Variant:
    def of(work: Workload, random: np.random.Generator) -> Workload:
        chosen = set(random.choice(len(work.nodes), count, replace=False).tolist())
        nodes = (replace(node, unschedulable=n in chosen) for n, node in enumerate(work.nodes))
        return replace(work, nodes=tuple(nodes))

    return Variant(f"cordoned{count}", f"{count} of the nodes cordoned", of)


def _reordered(work: Workload, random: np.random.Generator) -> Workload:
    order = random.permutation(len(work.nodes)).tolist()
    return replace(work, nodes=tuple(work.nodes[n] for n in order))


def _mixed(work: Workload, random: np.random.Generator) -> Workload:
    """Every node is of the kind of another one, drawn anew."""
    kinds = random.integers(0, len(work.nodes), len(work.nodes)).tolist()
    nodes = (
        replace(work.nodes[kind], name=node.name, labels=node.labels)
        for kind, node in zip(kinds, work.nodes, strict=True)
    )
    return replace(work, nodes=tuple(nodes))


def _tasks(work: Workload, random: np.random.Generator) -> Workload:
    """From 100 to 800 of them, of the same jobs in the same proportions."""
    count = int(random.integers(_FEWEST_TASKS, _MOST_TASKS + 1))
    places = (np.arange(count) * len(work.pods) // count).tolist()
    pods = (replace(work.pods[p], name=f"{work.pods[p].name}-{k}") for k, p in enumerate(places))
    return replace(work, pods=tuple(pods))


def _arrivals(work: Workload, random: np.random.Generator) -> Workload:
    """Each job comes at a second of its own."""
    jobs = list(dict.fromkeys(pod.job for pod in work.pods))
    times = dict(zip(jobs, random.integers(1, _LATEST + 1, len(jobs)).tolist(), strict=True))
    pods = sorted((replace(pod, arrival=float(times[pod.job])) for pod in work.pods), key=lambda p: p.arrival)
    return replace(work, pods=tuple(pods))


VARIANTS = (
    *(_cordoned(count) for count in (1, 5, 50)),
    Variant("reordered", "its nodes in another order", _reordered),
    Variant("mixed", "another mix of its kinds of nodes", _mixed),
    Variant("tasks", "100 to 800 tasks", _tasks),
    Variant("arrivals", "jobs that come at other times", _arrivals),
)


def changed(work: Workload, variant: Variant, seed: int) -> Workload:
    """The test, changed as this seed draws it."""
    return variant.of(work, np.random.default_rng([seed, 500]))
