"""From workflows, machines and terms to columns, once; objects end here."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I32
from proreus.kernels.structs import pack
from proreus.model.errors import UsageError
from proreus.worlds.workflows.model import HOUR, Arrivals, Workflow, WorkflowsTerms
from proreus.worlds.workflows.state import columns as c
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.graph import GRAPH_FEATURES, task_features
from proreus.worlds.workflows.state.ranks import downward_ranks, lower_bound, upward_ranks


def seconds_on(workflow: Workflow, terms: WorkflowsTerms) -> F64:
    """[T, N] what each task takes on each machine."""
    if workflow.seconds_on is None:
        return workflow.runtime[:, None] / terms.speeds[None, :]
    if workflow.seconds_on.shape != (len(workflow), terms.nodes):
        raise UsageError(f"{workflow.name}: its seconds are not those of {terms.nodes} machines")
    return workflow.seconds_on


def critical_path(workflow: Workflow, terms: WorkflowsTerms) -> float:
    """Seconds of the longest path, every task on its fastest machine and no transfer."""
    edges = _grouped(workflow.parent, workflow.child, workflow.size, len(workflow))
    fastest = np.ascontiguousarray(seconds_on(workflow, terms).min(axis=1))
    return float(upward_ranks(fastest, edges[0], edges[1], np.zeros(workflow.size.size)).max())


def compile_arrivals(arrivals: Arrivals) -> WorkflowsWork:
    """The work as columns for kernels."""
    terms, workflows = arrivals.terms, arrivals.workflows
    counts = [len(workflow) for workflow in workflows]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    duration = np.concatenate([seconds_on(workflow, terms) for workflow in workflows])
    runtime = np.concatenate([workflow.runtime for workflow in workflows])
    parent = np.concatenate([workflow.parent + at for workflow, at in zip(workflows, first, strict=False)])
    child = np.concatenate([workflow.child + at for workflow, at in zip(workflows, first, strict=False)])
    delay = np.concatenate([workflow.size for workflow in workflows]) / terms.bandwidth
    tasks = int(first[-1])
    child_from, after, child_delay = _grouped(parent, child, delay, tasks)
    parent_from, before, parent_delay = _grouped(child, parent, delay, tasks)
    usual = np.ascontiguousarray(duration.mean(axis=1))
    up = upward_ranks(usual, child_from, after, child_delay)
    down = downward_ranks(usual, parent_from, before, parent_delay)
    tail = upward_ranks(runtime, child_from, after, np.zeros_like(child_delay)) - runtime
    owner = np.repeat(np.arange(len(workflows), dtype=np.int32), counts)
    due = np.where(np.isfinite(arrivals.deadline), arrivals.deadline, 0.0)
    graph = np.zeros((tasks, len(GRAPH_FEATURES)), dtype=np.float32)
    task_features(runtime, child_from, after, child_delay, graph)
    return pack(
        WorkflowsWork(
            duration=duration,
            runtime=runtime,
            workflow=owner,
            parent_from=parent_from,
            parent=before,
            parent_delay=parent_delay,
            child_from=child_from,
            child=after,
            child_delay=child_delay,
            up=up,
            down=down,
            tail=tail,
            latest=due[owner] - up,
            sub_deadline=_sub_deadlines(up, usual, first, arrivals),
            graph=graph,
            arrival=arrivals.arrival.astype(np.float64),
            deadline=arrivals.deadline.astype(np.float64),
            first=first,
            bound=np.maximum([_bound(workflow, terms) for workflow in workflows], 1e-9),
            speed=terms.speeds.astype(np.float64),
            price=terms.prices / HOUR,
            kind=np.repeat(
                np.arange(len(terms.machines)), [machine.count for machine in terms.machines]
            ).astype(np.int32),
            term=_terms(terms),
            option=_options(arrivals),
        )
    )


def _terms(terms: WorkflowsTerms) -> F64:
    values = np.zeros(c.TERMS)
    values[c.BILLING], values[c.BOOT] = terms.billing, terms.boot
    values[c.LATE_FEE], values[c.LATE_RATE] = terms.late_fee, terms.late_rate / HOUR
    return values


def _options(arrivals: Arrivals) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    options = np.zeros(c.OPTIONS, dtype=np.int64)
    options[c.AHEAD] = arrivals.ahead
    options[c.BY_MAKESPAN] = not np.isfinite(arrivals.deadline).any()
    return options


def _bound(workflow: Workflow, terms: WorkflowsTerms) -> float:
    edges = _grouped(workflow.parent, workflow.child, workflow.size, len(workflow))
    fastest = np.ascontiguousarray(seconds_on(workflow, terms).min(axis=1))
    runtime = workflow.runtime if workflow.seconds_on is None else None
    return lower_bound(fastest, edges, terms.speeds, runtime)


def _sub_deadlines(up: F64, usual: F64, first: I32, arrivals: Arrivals) -> F64:
    """[T] ProLiS's: a task gets the share of its workflow's time that stands before its end in the ranks."""
    sub_deadlines = np.full(up.size, np.inf)
    for number, arrival in enumerate(arrivals.arrival):
        if not np.isfinite(arrivals.deadline[number]):
            continue
        part = slice(first[number], first[number + 1])
        behind = (up[part] - usual[part]) / max(float(up[part].max()), 1e-9)
        sub_deadlines[part] = arrival + (arrivals.deadline[number] - arrival) * (1.0 - behind)
    return sub_deadlines


def _grouped(by: I32, other: I32, value: F64, tasks: int) -> tuple[I32, I32, F64]:
    """(where the edges of each task begin [T + 1], the task at their other end [E], their value [E])."""
    order = np.lexsort((other, by))
    begins = np.searchsorted(by[order], np.arange(tasks + 1)).astype(np.int32)
    return begins, np.ascontiguousarray(other[order], dtype=np.int32), np.ascontiguousarray(value[order])


def new_state(work: WorkflowsWork) -> WorkflowsState:
    """A run that `begin` starts."""
    (tasks, nodes), count = work.duration.shape, work.arrival.size
    integers, floats = (
        (np.zeros(tasks, dtype=np.int32) for _ in range(4)),
        (np.zeros(tasks) for _ in range(3)),
    )
    machines = (np.zeros(nodes) for _ in range(6))
    return pack(
        WorkflowsState(
            status=np.zeros(tasks, dtype=np.int8),
            missing=next(integers),
            node=next(integers),
            start=next(floats),
            finish=next(floats),
            ready=next(integers),
            turn=np.zeros(tasks, dtype=np.int64),
            passed=np.zeros(tasks, dtype=np.int8),
            unplaced=np.zeros(count, dtype=np.int32),
            to_do=np.zeros(count),
            end=np.zeros(count),
            slot_start=np.zeros((nodes, tasks)),
            slot_end=np.zeros((nodes, tasks)),
            slots=np.zeros(nodes, dtype=np.int32),
            past=np.zeros(nodes, dtype=np.int32),
            busy_until=next(machines),
            since=next(machines),
            until=next(machines),
            rented=next(machines),
            worked=next(machines),
            ending=next(floats),
            ender=next(integers),
            possible=next(machines),
            tally=np.zeros(c.TALLIES, dtype=np.int64),
            figure=np.zeros(c.FIGURES),
        )
    )
