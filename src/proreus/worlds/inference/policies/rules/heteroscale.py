"""HeteroScale: both pools follow the tokens that are generated."""

from __future__ import annotations

import math

from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.rules.controller import Controller, Target
from proreus.worlds.inference.policies.rules.work import USE_OF_ABILITY, work_lately, works
from proreus.worlds.inference.state.observation import InferenceObservation


class HeteroScale(Controller):
    """Generated tokens a second for each instance are held, within a tenth; prompts have their fixed share.

    One signal moves both pools, so that they keep their ratio: prompt instances for each token instance, as
    the last hour's requests need them. Where tokens come 1.2 times as slowly as promised, everything grows
    by a fifth at once.
    """

    band = 0.1
    window = 60.0
    """Seconds over which tokens are counted."""
    panics_at, panic_growth = 1.2, 1.2

    def targets(self, seen: InferenceObservation) -> dict[Role, Target]:
        """In proportion, or a fifth more; what a panic has started is waited for."""
        signal = "token" if any(pool.role == "token" for pool in seen.pools) else "mixed"
        usual = works(seen).mean(axis=0)
        tokens = work_lately(seen, self.window)[signal] / USE_OF_ABILITY  # type: ignore[index]
        of_signal = float(usual[[pool.role for pool in seen.pools].index(signal)])  # type: ignore[arg-type]
        needed = {
            pool.role: tokens * float(each) / max(of_signal, 1e-9)
            for pool, each in zip(seen.pools, usual, strict=True)
        }
        share = sum(needed.values()) / max(sum(pool.coming for pool in seen.pools), 1)
        late, starting = seen.traffic.tbt_slack, any(pool.starting for pool in seen.pools)
        growth = self.panic_growth if late > self.panics_at and not starting else 1.0
        targets: dict[Role, Target] = {}
        for pool in seen.pools:
            because = {"instances needed": needed[pool.role], "of those there are": share, "late by": late}
            count = pool.coming if abs(share - 1.0) <= self.band else math.ceil(needed[pool.role])
            if late > self.panics_at:
                count = max(count, math.ceil(pool.coming * growth))
            targets[pool.role] = Target(max(count, 1), because)
        return targets
