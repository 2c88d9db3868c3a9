"""Whether a candidate may take the place of what decides now, from how the two compare on held-out work.

The service asks it of a model that it learned online, the engine of a policy that somebody put up: what
counts as worse is the same for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Ruling = Literal["not worse", "worse", "not told apart", "too uncertain", "cannot be compared"]


@dataclass(frozen=True)
class CandidateGain:
    """Candidate minus present, where more is better."""

    mean: float
    low: float
    high: float
    """The 95 % interval."""


def rule_on(candidate_gain: CandidateGain, worst: float = 0.0, nothing: float = 0.0) -> Ruling:
    """What a difference means; only "not worse" may pass.

    "worse" is said where the whole interval is; a mean below nothing whose interval reaches beyond it is not
    told apart from no difference.

    worst: how low (0 or less) the interval may reach; nothing: what a difference of nothing may come to by
    rounding. What cannot be compared, NaN or infinite, never passes.
    """
    if (
        not math.isfinite(candidate_gain.mean)
        or not math.isfinite(worst)
        or math.isnan(candidate_gain.low + candidate_gain.high)
    ):
        return "cannot be compared"
    if candidate_gain.mean < -nothing:
        return "worse" if candidate_gain.high < -nothing else "not told apart"
    return "too uncertain" if candidate_gain.low < worst - nothing else "not worse"
