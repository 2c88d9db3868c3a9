"""What `proreus tune rebalance` trains: a scorer of moves for the user's windows."""

from __future__ import annotations

from dataclasses import replace

from proreus.learning.specialist import Specialist, Starts
from proreus.policies.catalogue import LEARNED
from proreus.worlds.rebalance.windows.encoding.figures import nearest
from proreus.worlds.rebalance.windows.encoding.moves import FIRST_SIZE
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, balance_weights
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.combining import mean_figures
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig
from proreus.worlds.rebalance.windows.training.learners import ES


def starts(scenario: WindowScenario) -> Starts:
    """What ships, as it is for this demand, and the strongest rule; of both what a search changes."""
    rule = {"balance": balance_weights()[FIRST_SIZE:]}
    policy = make_move_policy(LEARNED)
    if not isinstance(policy, MovePolicy) or policy.experts is None:
        return rule
    expert = int(nearest(mean_figures(scenario), policy.experts.stands))
    return rule if expert < 0 else {LEARNED: policy.experts.weights[expert][FIRST_SIZE:], **rule}


_LEARNER = replace(
    ES,
    configs=(
        # What is judged are violations; a migration costs little, and how many there are is told.
        MovesESConfig(
            generations=100_000,
            sigma=0.2,
            price=0.01,
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
    beside=("migrations", "hit"),
    cautions=(
        "What decides are requests above the threshold; what migrations cost you, only you know. Their "
        "number stands in the table, and --budget bounds it.",
        "The draws are of the requests that were given. Where yours change (other pods, other hours), tune "
        "again.",
    ),
)
