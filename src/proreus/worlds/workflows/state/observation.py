"""What a policy sees: the ready tasks, the machines, and what each placement would come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I32, Bool
from proreus.worlds.workflows.model import Arrivals
from proreus.worlds.workflows.state.columns import NOW, READIES, WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.offer import offered
from proreus.worlds.workflows.state.placement import added_rent, earliest_finish, inputs_possible, may_wait


@dataclass(frozen=True, eq=False)
class WorkflowsObservation:
    """Somebody must decide; the columns are live: read them, never write them."""

    arrivals: Arrivals
    work: WorkflowsWork
    state: WorkflowsState

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self.state.figure[NOW])

    @property
    def ready(self) -> I32:
        """The tasks that may be placed, the most urgent first."""
        return self.state.ready[: int(self.state.tally[READIES])].copy()

    @property
    def offered(self) -> int:
        """The task that numbered actions place."""
        return int(offered(self.work, self.state))

    @property
    def machines(self) -> int:
        return self.work.speed.size

    @property
    def may_wait(self) -> bool:
        """Whether something will happen by itself."""
        return bool(may_wait(self.work, self.state))

    def rented(self) -> Bool:
        """[N] which machines are paid for now."""
        paid: Bool = self.state.until > self.now
        return paid

    def finish(self, task: int, node: int) -> float:
        """When a ready task would end on a machine."""
        inputs_possible(self.work, self.state, task)
        return float(earliest_finish(self.work, self.state, task, node))

    def rent(self, task: int, node: int) -> float:
        """Dollars that it would add to the rent."""
        return float(added_rent(self.work, self.state, node, self.finish(task, node)))

    def action_mask(self) -> Bool:
        """bool[N + 1]: n places the task on offer on machine n; the last one passes it over."""
        mask = np.ones(self.machines + 1, dtype=np.bool_)
        mask[-1] = self.may_wait
        return mask


def task_name(arrivals: Arrivals, work: WorkflowsWork, task: int) -> str:
    """As --explain and logs have it: workflow/task, with the workflow's place in the line."""
    number = int(work.workflow[task])
    return f"{number}:{arrivals.workflows[number].tasks[task - int(work.first[number])]}"
