"""The weights of the network that an evolution strategy searches, as one vector around a rule.

The network is the one that PPO trains (`policies.networks.rows.ActorCritic`, its actor alone). Its first
hidden unit hands a weighted sum of a row's features through all layers, which is a rule: where there is rent,
what a placement costs now and will probably cost; where the makespan is the aim, HEFT. The other units start
with random weights and no say. Every kind of weight has a step of its own, so that one width of the search
fits all. HEFT stays as it is: it is within a few percent of what any schedule can reach, so that the noise of
a search would cost more than it finds. Units other than the first are silent there.
"""

from __future__ import annotations

import numpy as np

from proreus.policies.networks.tensor_layout import TensorPart
from proreus.worlds.workflows.encoding.rows import CONTEXT, FEATURES, SIZES

_ABOVE = 300.0
"""Added to the rule's sum, so that a rectifier lets it through."""
_RULE = {
    "passes": -0.3,
    "dollars of rent": -1.4,
    "dollars of newly paid time behind it that others will use": 0.8,
    "dollars of the fee, if the rest runs at this speed or is spread over what is rented": -0.9,
    "dollars of its own time, if the rest runs at this speed": -1.1,
    "dollars of its own time until all work that is here is done, where it waits for that": -0.4,
    "dollars of everyone's time until all work that is here is done": -0.2,
    "dollars of its own time until the machine is free": -1.2,
    "the machine is not free": -100.0,
    "log seconds that it takes": -0.001,
    "makespan: ends later than elsewhere, in ranks": -2.0,
}
_MAKESPAN = "makespan"
_DRAWN = 7
"""The seed of the first weights of units without a say."""


def parts_of(hidden: int) -> tuple[TensorPart, ...]:
    """The searched network with so many hidden units."""
    rows, context = SIZES
    draw = np.random.default_rng(_DRAWN)
    of_row = draw.normal(0.0, 0.5, (hidden, rows))
    of_row[0] = [_RULE.get(name, 0.0) for name in FEATURES]
    bias = np.zeros(hidden)
    bias[0] = _ABOVE
    logit = np.zeros((1, hidden))
    logit[0, 0] = 1.0
    logit_step = np.full((1, hidden), 0.5)
    logit_step[0, 0] = 0.0  # how much the rule's sum counts is said by its weights
    bias_step = np.full(hidden, 0.2)
    bias_step[0] = 0.0
    deeper = np.eye(hidden)
    deeper_step = np.full((hidden, hidden), 0.1)
    deeper_step[0] = 0.0
    deeper_step[:, 0] = 0.0
    row_step = np.full((hidden, rows), 0.2)
    row_step[0] = [0.0 if name.startswith(_MAKESPAN) else 0.3 for name in FEATURES]
    context_step = np.full((hidden, context), 0.3)
    context_step[0] = 0.0  # the same for all rows: it cannot change an order
    context_step[:, 0] = 0.0
    of_context = np.zeros((hidden, context))
    of_context[1:, CONTEXT.index("makespan is the aim")] = -_ABOVE
    none = np.zeros((hidden, 2 * hidden + context))
    return (
        TensorPart("actor.of_row.weight", of_row, row_step),
        TensorPart("actor.of_row.bias", bias, bias_step),
        TensorPart("actor.of_context.weight", of_context, context_step),
        TensorPart("actor.deeper.weight", deeper, deeper_step),
        TensorPart("actor.deeper.bias", np.zeros(hidden), np.zeros(hidden)),
        TensorPart("actor.whole.weight", none, np.zeros_like(none)),
        TensorPart("actor.whole.bias", np.zeros(hidden), np.zeros(hidden)),
        TensorPart("from_whole.weight", np.zeros((hidden, hidden)), np.zeros((hidden, hidden))),
        TensorPart("logit.weight", logit, logit_step),
    )
