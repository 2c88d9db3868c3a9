"""Writes down what an independent implementation, SAGA 2.0.2 (PyPI `anrg-saga`, MIT), makes of random graphs.

SAGA asks for z3, pygraphviz, wfcommons and more, which no test of this project should need. So its answers
are kept in a small file beside the tests and this script says how they came about. In an environment of its
own:

    pip install networkx numpy pydantic scipy matplotlib pandas tqdm pysmt
    pip install --no-deps anrg-saga==2.0.2
    python tests/oracles/record_saga.py tests/worlds/workflows/saga.json

Two things are put right on the way, as Topcuoglu, Hariri and Wu (2002) define them; all else is SAGA's:

- the mean transfer time of a rank is taken over pairs of different machines. SAGA's networks have an edge
  from each machine to itself, on which nothing takes any time, and its mean counts these;
- the downward rank of a task adds the mean time of its *parent*. SAGA 2.0.2 adds the task's own.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from saga import Network, NetworkEdge, TaskGraph  # type: ignore[import-not-found]
from saga.schedulers import cpop  # type: ignore[import-not-found]
from saga.schedulers.heft import HeftScheduler  # type: ignore[import-not-found]

GRAPHS = 60


def downward_rank(network: Any, graph: Any) -> dict[str, float]:
    """The paper's."""
    ranks: dict[str, float] = {}
    usual = {task.name: np.mean([task.cost / node.speed for node in network.nodes]) for task in graph.tasks}
    for task in graph.topological_sort():
        earliest = [
            ranks[edge.source]
            + usual[edge.source]
            + np.mean([edge.size / link.speed for link in network.edges])
            for edge in graph.in_edges(task.name)
        ]
        ranks[task.name] = float(max(earliest, default=0.0))
    return ranks


cpop.downward_rank = downward_rank


def network_of(speeds: list[float]) -> Any:
    """Machines that are linked with speed 1; `edges`, of which means are taken, has no edge to itself."""
    names = [str(node) for node in range(len(speeds))]
    links = [NetworkEdge(source=a, target=b, speed=1.0) for a in names for b in names if a < b]
    own = [NetworkEdge(source=name, target=name, speed=math.inf) for name in names]
    nodes = list(zip(names, speeds, strict=True))
    whole = Network.create(nodes=nodes, edges=[*links, *own])
    without = Network(nodes=whole.nodes, edges=frozenset(links))
    without.__dict__["graph"] = whole.graph
    return without


def instance(seed: int) -> dict[str, Any]:
    """A random graph whose tasks have parents among those before them."""
    draw = np.random.default_rng(seed)
    tasks, nodes = int(draw.integers(6, 16)), int(draw.integers(2, 6))
    edges = []
    for child in range(1, tasks):
        count = int(draw.integers(1, min(child, 3) + 1))
        for parent in sorted(draw.choice(child, size=count, replace=False).tolist()):
            edges.append([parent, child, round(float(draw.uniform(1.0, 60.0)), 3)])
    return {
        "speeds": [round(float(speed), 3) for speed in draw.uniform(0.5, 3.0, nodes)],
        "runtime": [round(float(seconds), 3) for seconds in draw.uniform(5.0, 50.0, tasks)],
        "edges": edges,
    }


def answered(given: dict[str, Any]) -> dict[str, Any]:
    """The instance with the makespan of each scheduler and where it puts the tasks."""
    tasks = [(f"t{at:02d}", cost) for at, cost in enumerate(given["runtime"])]
    edges = [(f"t{parent:02d}", f"t{child:02d}", size) for parent, child, size in given["edges"]]
    graph, network = TaskGraph.create(tasks=tasks, dependencies=edges), network_of(given["speeds"])
    answer = dict(given)
    for name, scheduler in (("heft", HeftScheduler()), ("cpop", cpop.CpopScheduler())):
        schedule = scheduler.schedule(network, graph)
        placed = {task.name: int(task.node) for tasks in schedule.mapping.values() for task in tasks}
        answer[name] = {
            "makespan": float(schedule.makespan),
            "nodes": [placed[f"t{at:02d}"] for at in range(len(given["runtime"]))],
        }
    return answer


if __name__ == "__main__":
    rows = [json.dumps(answered(instance(seed))) for seed in range(GRAPHS)]
    Path(sys.argv[1]).write_text("[\n" + ",\n".join(rows) + "\n]\n")
