"""The bound: a rule that sees what will come."""

from __future__ import annotations

import math
from typing import ClassVar

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.state.observation import InferenceObservation


class Oracle(Controller):
    """Sees what will come, and has instances ready when it does: a bound, not a controller."""

    use: ClassVar[dict[Role, float]] = {"prompt": 0.95, "token": 0.5, "mixed": 0.9}
    """The share of what instances can do that is asked of them."""

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """For the busiest moment until the next instance could be ready, and a little beyond."""
        if seen.future is None:
            return {}
        ahead = seen.start_seconds + 2 * seen.interval
        step = max(seen.interval, 5.0)
        moments = [seen.now + step * place for place in range(max(math.ceil(ahead / step), 1))]
        rates = [seen.future(begin, begin + step) for begin in moments]
        targets: dict[Role, Target] = {}
        for pool in seen.pools:
            ability = seen.ability(pool.role)
            prompts = max(rate[1] for rate in rates) / ability.prompt_tokens
            tokens = sum(rate[2] for rate in rates) / len(rates) / ability.output_tokens
            load = {"prompt": prompts, "token": tokens, "mixed": prompts + tokens}[pool.role]
            backlog = pool.pending_tokens / ability.prompt_tokens / 10.0 if pool.role != "token" else 0.0
            count = max(math.ceil((load + backlog) / self.use[pool.role]), 1)
            targets[pool.role] = Target(count, {"busiest": load, "backlog": backlog})
        return targets
