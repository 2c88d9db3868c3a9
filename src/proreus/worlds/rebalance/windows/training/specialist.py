"""What `proreus tune rebalance` trains: a scorer of moves for the user's windows."""

from __future__ import annotations

from dataclasses import replace

from proreus.learning.specialist import Specialist, Starts
from proreus.policies.catalogue import LEARNED
from proreus.worlds.rebalance.windows.encoding.moves import FIRST_SIZE
from proreus.worlds.rebalance.windows.policies.adaptive import USUAL_PRICE
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, balance_weights
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.demand import expert_weights
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig
from proreus.worlds.rebalance.windows.training.learners import ES


def starts(scenario: WindowScenario) -> Starts:
    """What ships, as it is for this demand, and the strongest rule; of both what a search changes."""
    rule = {"balance": balance_weights()[FIRST_SIZE:]}
    policy = make_move_policy(LEARNED)
    expert = expert_weights(policy, scenario) if isinstance(policy, MovePolicy) else None
    return rule if expert is None else {LEARNED: expert[FIRST_SIZE:], **rule}


_LEARNER = replace(
    ES,
    configs=(
        MovesESConfig(
            generations=100_000,
            sigma=0.2,
            price=USUAL_PRICE,  # that of what ships: a gain is not bought with more migrations alone
            deployments=4,
            validation_seeds=10,
            evaluate_every=2,
        ),
    ),
)

SPECIALIST = Specialist(
    learners={"violations": _LEARNER},
    strongest={"violations": "balance"},
    rivals=("hotspot@0.5", "hotspot@0.6", "hotspot@0.7"),
    starts=starts,
    beside=("migrations", "hit"),
    cautions=(
        "What decides are requests above the threshold; what migrations cost you, only you know. Their "
        "number stands in the table, and --budget bounds it.",
        "The draws are of the requests that were given. Where yours change (other pods, other hours), tune "
        "again.",
    ),
)
