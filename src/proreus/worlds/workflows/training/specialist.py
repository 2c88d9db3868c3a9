"""What `proreus tune workflows` trains: the network around a rule, from the shipped one on."""

from __future__ import annotations

from dataclasses import replace

from proreus.learning.specialist import Specialist, Starts, around_a_rule
from proreus.policies.checkpoint import load_checkpoint
from proreus.worlds.workflows.encoding.rows import VERSION
from proreus.worlds.workflows.policies.catalogue import SHIPPED
from proreus.worlds.workflows.scenarios import WorkflowsScenario
from proreus.worlds.workflows.training.goal import WorkflowsESConfig
from proreus.worlds.workflows.training.learners import ES
from proreus.worlds.workflows.training.weight_vector import parts_of

_HIDDEN = 2
"""As many units as what ships has."""


def starts(scenario: WorkflowsScenario) -> Starts:
    """What ships, and the rule that the network is around."""
    shipped = load_checkpoint(SHIPPED, VERSION).tensors
    return around_a_rule("its rule", parts_of(_HIDDEN), shipped)


_LEARNER = replace(
    ES, configs=(WorkflowsESConfig(generations=100_000, sigma=0.3, hidden=_HIDDEN, evaluate_every=2),)
)

SPECIALIST = Specialist(
    learners={"cost": _LEARNER},  # where the makespan is the aim, the network is HEFT and is not moved
    strongest={"cost": "greedy", "slr": "heft"},
    starts=starts,
    beside=("late",),
    cautions=(
        "Files of workflows have no time: of every ten in order of their names five train, two choose and "
        "three judge. Workflows are drawn from them again and again, and arrive at --load.",
        "Where yours change (other workflows, other machines), tune again.",
    ),
)
