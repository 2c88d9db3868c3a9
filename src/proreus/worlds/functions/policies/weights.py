"""The rule `warm_cost` as weights of the network that learners move: what the objective says, read off rows.

The first hidden unit hands a weighted sum of a row's features through all layers of the network that PPO
trains (`policies.networks.rows.ActorCritic`, its actor alone): that is the rule. Other units start with
random weights and no say. Every kind of weight has a step of its own, so that one width of a search fits all.
"""

from __future__ import annotations

import numpy as np

from proreus.policies.networks.tensor_layout import TensorPart
from proreus.worlds.functions.encoding.rows import FEATURES, SIZES

ABOVE = 100.0
"""Added to the rule's sum, so that a rectifier lets it through."""
RULE = {
    "share of the price that becomes due": -1.0,
    "stretch of a request that ran there now": -0.7,
    "the same above 70 %": -3.5,
    "stretch, times the function's share of requests": -0.5,
    "CPU reserved": 0.4,
    "log instances there": 0.3,
    "waits": -20.0,
    "benefit of being warm": 0.05,
    "price of keeping where it is the only instance": -0.3,
    "price of keeping, shared with the others there": -0.45,
    "price of keeping where nobody works there": -0.25,
    "log seconds": 0.2,
}
"""Set by hand on the training part; the rest is zero."""
_DRAWN = 7
"""The seed of the first weights of units without a say."""


def parts_of(hidden: int) -> tuple[TensorPart, ...]:
    """The searched network with so many hidden units."""
    rows, context = SIZES
    draw = np.random.default_rng(_DRAWN)
    of_row = draw.normal(0.0, 0.5, (hidden, rows))
    of_row[0] = [RULE.get(name, 0.0) for name in FEATURES]
    bias, logit = np.zeros(hidden), np.zeros((1, hidden))
    bias[0], logit[0, 0] = ABOVE, 1.0
    row_step, context_step = np.full((hidden, rows), 0.3), np.full((hidden, context), 0.3)
    context_step[0] = 0.0  # the same for all rows: it cannot change an order
    logit_step, bias_step = np.full((1, hidden), 0.5), np.full(hidden, 0.2)
    logit_step[0, 0] = bias_step[0] = 0.0  # how much the rule's sum counts is said by its weights
    still, none = np.zeros((hidden, hidden)), np.zeros((hidden, 2 * hidden + context))
    return (
        TensorPart("actor.of_row.weight", of_row, row_step),
        TensorPart("actor.of_row.bias", bias, bias_step),
        TensorPart("actor.of_context.weight", np.zeros((hidden, context)), context_step),
        TensorPart("actor.deeper.weight", np.eye(hidden), still),
        TensorPart("actor.deeper.bias", np.zeros(hidden), np.zeros(hidden)),
        TensorPart("actor.whole.weight", none, np.zeros_like(none)),
        TensorPart("actor.whole.bias", np.zeros(hidden), np.zeros(hidden)),
        TensorPart("from_whole.weight", still.copy(), still.copy()),
        TensorPart("logit.weight", logit, logit_step),
    )
