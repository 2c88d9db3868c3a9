"""Why a task goes where it goes: what every machine would have come to."""

from __future__ import annotations

from proreus.policies.networks.bidder import make_bids
from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.workflows.encoding.rows import encode
from proreus.worlds.workflows.model import Assign, Decision
from proreus.worlds.workflows.policies.columns import BIDDING, WorkflowsRule
from proreus.worlds.workflows.policies.rules import desire
from proreus.worlds.workflows.state.observation import WorkflowsObservation, task_name
from proreus.worlds.workflows.state.placement import inputs_possible

_PASSED = "passed over"


def explained(
    name: str, rule: WorkflowsRule, observation: WorkflowsObservation, decision: Decision
) -> Explanation:
    """The decision about the task that it places, or passes over."""
    task = decision.task if isinstance(decision, Assign) else observation.offered
    totals, passing = _totals(rule, observation, task)
    verdicts = tuple(
        Verdict(
            f"machine {node}",
            "",
            {
                "ends in s": observation.finish(task, node) - observation.now,
                "adds $ of rent": observation.rent(task, node),
            },
            total,
        )
        for node, total in enumerate(totals)
    )
    if passing is not None:
        verdicts += (Verdict(_PASSED, "", {}, passing),)
    chosen = f"machine {decision.node}" if isinstance(decision, Assign) else _PASSED
    outcome = f"goes to {chosen}" if isinstance(decision, Assign) else "is passed over"
    note = "Totals are what the policy compares, the highest first; the order of tasks is decided before."
    subject = task_name(observation.arrivals, observation.work, task)
    return Explanation(name, subject, decision, verdicts, note, outcome, chosen)


def _totals(
    rule: WorkflowsRule, observation: WorkflowsObservation, task: int
) -> tuple[list[float], float | None]:
    """(of each machine, of passing the task over where the policy weighs that too)."""
    work, state = observation.work, observation.state
    machines = range(observation.machines)
    if rule.kind[0] == BIDDING:
        encode(work, state, rule.rows, rule.context, rule.fits)
        make_bids(rule.bidder, rule.rows, rule.context, rule.fits, rule.bids)
        return [float(rule.bids[node]) for node in machines], float(rule.bids[observation.machines])
    inputs_possible(work, state, task)
    return [float(desire(work, state, rule, task, node)[0]) for node in machines], None
