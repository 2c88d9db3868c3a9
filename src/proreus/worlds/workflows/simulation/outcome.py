"""What a run came to: measures, one row for each task, and where everything stands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proreus.contract.simulation import Outcome
from proreus.model.measure import Measure, by_name
from proreus.worlds.workflows.model import Arrivals
from proreus.worlds.workflows.state import columns as c
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.observation import task_name

MEASURES = by_name(
    Measure("cost", "$", "lower", "Rent and penalties together", "cost"),
    Measure("rent", "$", "lower", "Rent of machines", "rent"),
    Measure("penalty", "$", "lower", "Penalties for late workflows", "penalty"),
    Measure("late", "%", "lower", "Workflows that ended after their deadline", "late"),
    Measure("response", "s", "lower", "Time from a workflow's arrival to its end, mean", "response"),
    Measure("slr", "", "lower", "Makespan, in lower bounds (schedule length ratio)", "SLR"),
    Measure("makespan", "s", "lower", "Time from the first arrival to the last end", "makespan"),
    Measure("worked", "%", "higher", "Rented time in which machines work", "worked"),
    Measure("rentals", "", "lower", "Rentals of machines", "rentals"),
    Measure("tasks", "", "higher", "Tasks placed", "tasks"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)
COLUMNS = ("task", "workflow", "name", "machine", "start", "end", "deadline")


def measures_of(work: WorkflowsWork, state: WorkflowsState) -> dict[str, float]:
    """Those that make sense for the run so far."""
    tally, figure = state.tally, state.figure
    measures = {
        "tasks": float(tally[c.PLACEMENTS]),
        "makespan": float(figure[c.HORIZON] - work.arrival[0]),
        "rent": float(figure[c.RENT]),
        "rentals": float(tally[c.RENTALS]),
    }
    if work.option[c.BY_MAKESPAN]:
        measures["slr"] = measures["makespan"] / float(work.bound.sum())
    else:
        measures |= {"cost": float(figure[c.RENT] + figure[c.PENALTY]), "penalty": float(figure[c.PENALTY])}
        if tally[c.WHOLE]:
            measures["late"] = 100.0 * float(tally[c.LATE] / tally[c.WHOLE])
    if tally[c.WHOLE]:
        measures["response"] = float(figure[c.RESPONSE] / tally[c.WHOLE])
    rented = float(state.rented.sum())
    if rented > 0.0:
        measures["worked"] = 100.0 * float(state.worked.sum()) / rented
    return {name: measures[name] for name in MEASURES if name in measures}


def outcome_of(arrivals: Arrivals, work: WorkflowsWork, state: WorkflowsState) -> Outcome:
    """The run so far."""
    placed = np.flatnonzero(state.status >= c.PLACED)
    rows = [
        (
            task,
            int(work.workflow[task]),
            task_name(arrivals, work, task).partition(":")[2],
            int(state.node[task]),
            float(state.start[task]),
            float(state.finish[task]),
            float(work.deadline[work.workflow[task]]),
        )
        for task in placed.tolist()
    ]
    return Outcome(measures_of(work, state), COLUMNS, rows, lambda: _export(arrivals, work, state))


def _export(arrivals: Arrivals, work: WorkflowsWork, state: WorkflowsState) -> Mapping[str, object]:
    return {
        "now": float(state.figure[c.NOW]),
        "arrived": int(state.tally[c.ARRIVED]),
        "over": int(state.tally[c.OVER]),
        "tasks": {"placed": int(state.tally[c.PLACEMENTS]), "ended": int(state.tally[c.ENDED])},
        "workflows": [
            {
                "name": workflow.name,
                "arrival": float(work.arrival[number]),
                "deadline": _or_none(float(work.deadline[number])),
                "end": float(state.end[number]) if state.unplaced[number] == 0 else None,
            }
            for number, workflow in enumerate(arrivals.workflows)
        ],
        "machines": [
            {"speed": float(speed), "rented_s": float(rented), "worked_s": float(worked)}
            for speed, rented, worked in zip(work.speed, state.rented, state.worked, strict=True)
        ],
    }


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
