"""Schedulers against published figures and against an independent implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.worlds.workflows.model import Arrivals, MachineKind, Workflow, WorkflowsTerms, workflow_of
from proreus.worlds.workflows.policies.catalogue import rule_policy
from proreus.worlds.workflows.simulation.run import WorkflowsRun
from proreus.worlds.workflows.state.compile import compile_arrivals

# Topcuoglu, Hariri, Wu: Performance-effective and low-complexity task scheduling (2002), its figure 2.
SECONDS = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip
TRANSFERS = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip
RANKS = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
SAGA = json.loads((Path(__file__).parent / "saga.json").read_text())


def ten_tasks() -> Workflow:
    """The classic graph."""
    edges = {(parent - 1, child - 1): float(delay) for (parent, child), delay in TRANSFERS.items()}
    table = np.array(SECONDS, dtype=np.float64)
    plain = workflow_of(
        ("ten", "heft"), [f"n{at}" for at in range(1, 11)], table.mean(axis=1).tolist(), edges
    )
    assert plain.tasks == tuple(f"n{at}" for at in range(1, 11))
    return Workflow(
        plain.name, plain.family, plain.tasks, plain.runtime, plain.parent, plain.child, plain.size, table
    )


def planned(workflow: Workflow, terms: WorkflowsTerms, name: str) -> WorkflowsRun:
    """The plan of a rule."""
    arrivals = Arrivals("plan", (workflow,), np.zeros(1), np.full(1, np.inf), terms, ahead=True)
    run, policy = WorkflowsRun(arrivals, compile_arrivals(arrivals)), rule_policy(name)
    while (seen := run.next_decision()) is not None:
        run.apply(policy.decide(seen))
    return run


@pytest.mark.parametrize(("name", "makespan"), [("heft", 80.0), ("cpop", 86.0)])
def test_the_ten_tasks_take_as_long_as_published(name: str, makespan: float) -> None:
    run = planned(ten_tasks(), WorkflowsTerms(machines=(MachineKind(3, 1.0, 0.1),), bandwidth=1.0), name)
    assert run.outcome().measures["makespan"] == makespan
    np.testing.assert_allclose(run.work.up, RANKS, atol=5e-4)


def _given(row: dict[str, Any]) -> tuple[Workflow, WorkflowsTerms]:
    edges = {(parent, child): size for parent, child, size in row["edges"]}
    names = [f"t{at:02d}" for at in range(len(row["runtime"]))]
    machines = tuple(MachineKind(1, speed, 0.1) for speed in row["speeds"])
    return workflow_of(("saga", "saga"), names, row["runtime"], edges), WorkflowsTerms(
        machines=machines, bandwidth=1.0
    )


@pytest.mark.parametrize("name", ["heft", "cpop"])
@pytest.mark.parametrize("row", SAGA, ids=range(len(SAGA)))
def test_an_independent_implementation_agrees(row: dict[str, Any], name: str) -> None:
    workflow, terms = _given(row)
    run = planned(workflow, terms, name)
    assert run.outcome().measures["makespan"] == pytest.approx(row[name]["makespan"], rel=1e-9)
    placed = {task: int(node) for task, node in zip(workflow.tasks, run.state.node, strict=True)}
    assert [placed[f"t{at:02d}"] for at in range(len(workflow))] == row[name]["nodes"]


def test_there_are_enough_random_graphs() -> None:
    assert len(SAGA) >= 50
