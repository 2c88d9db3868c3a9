"""What `proreus tune rebalance` trains: a scorer of moves for the user's windows."""

from __future__ import annotations

from dataclasses import replace

from proreus.learning.specialist import Specialist, Starts
from proreus.policies.catalogue import LEARNED
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.columns import LEARNED as BY_WEIGHTS
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig
from proreus.worlds.rebalance.windows.training.learners import ES


def starts(scenario: WindowScenario) -> Starts:
    """What ships, if it is one set of weights."""
    policy = make_move_policy(LEARNED)
    if isinstance(policy, MovePolicy) and policy.kind == BY_WEIGHTS:
        return {LEARNED: policy.weights}
    return {}


_LEARNER = replace(
    ES,
    configs=(
        # What is judged are violations; a migration costs little, and how many there are is told.
        MovesESConfig(
            generations=100_000,
            sigma=1.0,  # what ships moves seldom: far from where violations alone lead
            migration_price=0.05,
            excess_price=0.0,
            deployments=4,
            validation_seeds=10,
            evaluate_every=2,
        ),
    ),
)

SPECIALIST = Specialist(
    learners={"violations": _LEARNER},
    strongest={"violations": "balance"},
    starts=starts,
    own_start="its rule",
    beside=("migrations", "hit"),
    cautions=(
        "What decides are requests above the threshold; what migrations cost you, only you know. Their "
        "number stands in the table, and --budget bounds it.",
        "The draws are of the requests that were given. Where yours change (other pods, other hours), tune "
        "again.",
    ),
)
