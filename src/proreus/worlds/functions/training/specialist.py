"""What `proreus tune functions` trains: the network around a rule, from the shipped one on."""

from __future__ import annotations

from dataclasses import replace

from proreus.learning.specialist import Specialist, Starts, around_a_rule
from proreus.policies.checkpoint import load_checkpoint
from proreus.worlds.functions.encoding.rows import VERSION
from proreus.worlds.functions.policies.catalogue import SHIPPED
from proreus.worlds.functions.policies.weights import parts_of
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.training.goal import FunctionsESConfig
from proreus.worlds.functions.training.learners import ES

_HIDDEN = 2
"""As many units as what ships has."""


def starts(scenario: FunctionsScenario) -> Starts:
    """What ships, and the rule that the network is around."""
    shipped = load_checkpoint(SHIPPED, VERSION).tensors
    return around_a_rule("warm_cost", parts_of(_HIDDEN), shipped)


_LEARNER = replace(
    ES, configs=(FunctionsESConfig(generations=100_000, sigma=0.3, hidden=_HIDDEN, evaluate_every=2),)
)

SPECIALIST = Specialist(
    learners={"objective": _LEARNER},
    strongest={"objective": "warm_cost"},
    starts=starts,
    beside=("rfrt", "cost"),
    cautions=(
        "The objective weighs response time and cost by --beta; both stand in the table. Training takes no "
        "network that is worse in one of them for the sake of the other.",
        "The draws are of the requests that were given. Where yours change (other functions, other hours), "
        "tune again.",
    ),
)
