"""One run: ask for a decision, carry it out, until every task of every workflow has its place."""

from __future__ import annotations

import operator

import numpy as np

from proreus.contract.gantt import Gantt
from proreus.contract.replay import OUTSIDE, Move, Stage, levels_of
from proreus.contract.simulation import Look, Outcome
from proreus.contract.text_bars import MOST_LINES, bar
from proreus.model.errors import IllegalDecision
from proreus.worlds.workflows.model import Arrivals, Assign, Decision, Pass, Wait
from proreus.worlds.workflows.simulation.kernel import begin, is_over, put
from proreus.worlds.workflows.simulation.outcome import outcome_of
from proreus.worlds.workflows.state import columns as c
from proreus.worlds.workflows.state.columns import WorkflowsState, WorkflowsWork
from proreus.worlds.workflows.state.compile import new_state
from proreus.worlds.workflows.state.observation import WorkflowsObservation, task_name
from proreus.worlds.workflows.state.offer import offered


class WorkflowsRun:
    """As `contract.simulation` says, pictures included."""

    def __init__(self, arrivals: Arrivals, work: WorkflowsWork) -> None:
        self.arrivals, self.work = arrivals, work
        self.state: WorkflowsState = new_state(work)
        begin(work, self.state)
        self._last: Move | None = None

    def next_decision(self) -> WorkflowsObservation | None:
        """The ready tasks and the machines; None when all tasks are placed."""
        return None if is_over(self.state) else WorkflowsObservation(self.arrivals, self.work, self.state)

    def apply(self, decision: Decision | int, /) -> float:
        """Place a task or wait; what it was worth. An illegal decision changes nothing."""
        observation = self.next_decision()
        if observation is None:
            raise IllegalDecision("all tasks are placed")
        task, node = self._meant(decision, observation)
        self._last = None if task < 0 else Move(task_name(self.arrivals, self.work, task), OUTSIDE, node)
        return float(put(self.work, self.state, task, node))

    def _meant(self, decision: Decision | int, observation: WorkflowsObservation) -> tuple[int, int]:
        match decision:
            case Wait() | Pass():
                if not observation.may_wait:
                    raise IllegalDecision("nothing will happen by itself: there is nothing to wait for")
                return (c.WAITS if isinstance(decision, Wait) else c.PASSES), 0
            case Assign(task, node):
                numbers = _whole(task), _whole(node)
                if not (0 <= numbers[0] < self.state.status.size) or self.state.status[numbers[0]] != c.READY:
                    raise IllegalDecision(f"task {task!r} is not ready")
                if not 0 <= numbers[1] < observation.machines:
                    raise IllegalDecision(f"machine {node!r}: they are 0..{observation.machines - 1}")
                return numbers
        action, machines = _whole(decision), observation.machines
        if action == machines:
            return self._meant(Pass(), observation)
        if not 0 <= action < machines:
            raise IllegalDecision(f"action {action}: they are 0..{machines}")
        return observation.offered, action

    def subject(self) -> str:
        """The task on offer."""
        return (
            "" if is_over(self.state) else task_name(self.arrivals, self.work, offered(self.work, self.state))
        )

    def outcome(self) -> Outcome:
        """What the run has come to so far."""
        return outcome_of(self.arrivals, self.work, self.state)

    def screen(self) -> list[str]:
        """A bar for each machine: how long it is busy, of the longest."""
        tally, figure = self.state.tally, self.state.figure
        head = (
            f"{figure[c.NOW]:,.0f} s: {tally[c.PLACEMENTS]:,} tasks placed, {tally[c.READIES]:,} ready; "
            f"{tally[c.ARRIVED]:,} workflows came, {tally[c.OVER]:,} are over; "
            f"${figure[c.RENT]:,.2f} rent, ${figure[c.PENALTY]:,.2f} penalty"
        )
        busy, rented = self._busy(), self.state.until > figure[c.NOW]
        longest = max(float(busy.max()), 1e-9)
        bars = [
            f"machine {node:3d} ▕{bar(seconds / longest)}▏{seconds:10,.0f} s {'rented' if paid else ''}"
            for node, (seconds, paid) in enumerate(zip(busy.tolist(), rented.tolist(), strict=True))
        ]
        return [head, *bars[:MOST_LINES]]

    def _busy(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.maximum(self.state.busy_until - self.state.figure[c.NOW], 0.0)

    def stage(self) -> Stage:
        """The machines; how much of the time to the furthest end each has its work."""
        names = tuple(
            f"machine {node} (speed {speed:g})" for node, speed in enumerate(self.work.speed.tolist())
        )
        return Stage(
            "machine", names, ("busy ahead", "rented"), idle="nothing was placed", all_moves=False, clock=True
        )

    def look(self) -> Look:
        """The machines now, with the last task that was placed."""
        tally, figure, state = self.state.tally, self.state.figure, self.state
        now = float(figure[c.NOW])
        # A plan has no clock of its own: it is drawn by how far it reaches.
        time = float(figure[c.HORIZON]) if self.work.option[c.AHEAD] else now
        busy, rented = self._busy(), state.until > now
        ahead = busy / max(float(busy.max()), 1e-9)
        series = {
            "ready": float(tally[c.READIES]),
            "workflows": float(tally[c.ARRIVED] - tally[c.OVER]),
            "rented": float(rented.sum()),
            "busy": float((busy > 0).sum()),
            "cost": float(figure[c.RENT] + figure[c.PENALTY]),
        }
        levels = levels_of(np.stack([ahead, rented.astype(np.float64)], axis=1)[:, None, :])
        moves, self._last = () if self._last is None else (self._last,), None
        return Look(time, int(tally[c.PLACEMENTS]), series, (busy > 0).astype(np.float64), levels, moves)

    def gantt(self) -> Gantt:
        """The tasks that are placed, coloured by workflow."""
        placed = np.flatnonzero(self.state.status >= c.PLACED)
        names = [f"{number}: {workflow.name}" for number, workflow in enumerate(self.arrivals.workflows)]
        return Gantt(
            rows=tuple(f"machine {node} ({speed:g})" for node, speed in enumerate(self.work.speed.tolist())),
            groups=tuple(names),
            row=self.state.node[placed].astype(np.int32),
            group=self.work.workflow[placed].astype(np.int32),
            begin=self.state.start[placed],
            end=self.state.finish[placed],
            note="A bar is a task, a colour a workflow; machines with speed. Time from the start of the run.",
        )

    def told(self, before: Look | None, now: Look) -> str:
        """So many tasks."""
        return f"{now.count:,} tasks placed, {now.series['rented']:,.0f} machines rented"

    def facts(self) -> tuple[str, ...]:
        """The size of the run."""
        return (
            f"{self.work.speed.size:,} machines",
            f"{self.work.arrival.size:,} workflows",
            f"{self.work.workflow.size:,} tasks",
        )


def _whole(value: object) -> int:
    """A whole number, as Python or NumPy has it."""
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what it is asked is what it finds out
    except TypeError:
        raise IllegalDecision(f"{value!r} is neither a decision nor the number of one") from None
