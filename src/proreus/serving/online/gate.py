"""Whether a candidate may replace the live model, judged by a replay of decisions that neither learned from.

The decisions were drawn by some version with a known chance, so both models can be judged by them: each
decision counts as much as the model would have made it more often (importance weights w, self-normalised),
with the discounted rewards that followed it as its worth. That is the value of deciding once by the model
and then going on as before, which is what a cautious update changes. The difference of the two estimates is
paired: where both models would do the same, it has no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.experience import Experience
from proreus.worlds.pods.policies.vector.model import VectorModel

_LARGEST_WEIGHT = 1e3
_FEW = 5  # stretches below which decisions count as independent


@dataclass(frozen=True)
class GateSettings:
    """How sure the gate must be."""

    discount: float = 0.99
    """Worth of a reward one decision later."""
    margin: float = 0.25
    """How much worse the candidate may be at the low end of the interval, in spreads of the worth."""
    least_decisions: int = 8
    """Held-out decisions with a known chance that a verdict needs."""
    least_effective: float = 0.1
    """Share of the decisions that must speak for the candidate, or the replay cannot judge it."""


@dataclass(frozen=True)
class Verdict:
    """What the replay says."""

    accepted: bool
    reason: str
    difference: float
    """Candidate minus live, per decision."""
    low: float
    high: float
    """The 95 % interval of the difference."""
    decisions: int
    """That could be judged by: drawn, with a known chance."""
    effective: float
    """Their effective number under the candidate."""

    def figures(self) -> dict[str, float]:
        """For cards and logs."""
        return {
            "replay difference": self.difference,
            "replay low": self.low,
            "replay high": self.high,
            "replay decisions": float(self.decisions),
            "replay effective": self.effective,
        }


def usable(experience: Experience) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """bool[B]: decisions that were drawn with a known chance."""
    return np.isfinite(experience.log_probs) & ~experience.greedy


def log_probs(model: VectorModel, experience: Experience) -> F64:
    """float64[B]: logarithm of the chance that the model gives to what was done."""
    found = np.empty(len(experience))
    for k, state in enumerate(experience.states):
        mask = None if experience.masks is None else experience.masks[k]
        chance = model.chances(state, experience.actions_dim, mask)[experience.actions[k]]
        found[k] = math.log(chance) if chance > 0.0 else -math.inf
    return found


def worth(experience: Experience, discount: float) -> F64:
    """float64[B]: the discounted sum of the rewards from each decision to the end of its episode."""
    found = np.empty(len(experience))
    following = 0.0
    for k in range(len(experience) - 1, -1, -1):
        following = float(experience.rewards[k]) + (0.0 if experience.dones[k] else discount * following)
        found[k] = following
    return found


def judge(
    live: VectorModel, candidate: VectorModel, held_out: Sequence[Experience], settings: GateSettings
) -> Verdict:
    """Compare two models on held-out stretches of decisions."""
    of_live, of_candidate, worths, stretches = [], [], [], []
    for number, stretch in enumerate(held_out):
        known = usable(stretch)
        if not known.any():
            continue
        behaviour = stretch.log_probs[known]
        of_live.append(log_probs(live, stretch)[known] - behaviour)
        of_candidate.append(log_probs(candidate, stretch)[known] - behaviour)
        worths.append(worth(stretch, settings.discount)[known])
        stretches.append(np.full(int(known.sum()), number))
    decisions = sum(map(len, worths))
    if decisions < settings.least_decisions:
        reason = (
            f"only {decisions} held-out decisions can be judged by, {settings.least_decisions} are needed"
        )
        return Verdict(False, reason, 0.0, -math.inf, math.inf, decisions, 0.0)
    value = np.concatenate(worths)
    v_live, by_live, _ = _estimate(np.concatenate(of_live), value)
    v_candidate, by_candidate, effective = _estimate(np.concatenate(of_candidate), value)
    difference = v_candidate - v_live
    half = 1.96 * _spread(by_candidate - by_live, np.concatenate(stretches))
    low, high = difference - half, difference + half
    worst = -settings.margin * float(value.std())
    if effective < settings.least_effective * decisions:
        reason = f"the replay cannot judge it: {effective:.1f} of {decisions} decisions speak for it"
        return Verdict(False, reason, difference, low, high, decisions, effective)
    interval = f"95 % interval {low:+.4g} to {high:+.4g}"
    said = f"{difference:+.4g} a decision, {interval}, {decisions} held-out decisions"
    if difference < 0.0 or low < worst:
        why = "worse" if difference < 0.0 else "too uncertain"
        return Verdict(False, f"{why}: {said}", difference, low, high, decisions, effective)
    return Verdict(True, f"not worse: {said}", difference, low, high, decisions, effective)


def _estimate(log_weights: F64, value: F64) -> tuple[float, F64, float]:
    """(self-normalised estimate, influence of each decision on it, effective number of decisions)."""
    weights = np.exp(np.minimum(log_weights, math.log(_LARGEST_WEIGHT)))
    total = float(weights.sum())
    if total <= 0.0:
        return float(value.mean()), np.zeros(len(value)), 0.0
    mean = float((weights * value).sum() / total)
    influence = weights * (value - mean) * (len(value) / total)
    return mean, influence, total**2 / float((weights**2).sum())


def _spread(influence: F64, stretches: F64) -> float:
    """Standard error of the mean influence; decisions of one stretch share their fate."""
    count = len(influence)
    groups = np.unique(stretches, return_inverse=True)[1]
    number = int(groups.max()) + 1
    if number < _FEW:
        return float(influence.std(ddof=1) / math.sqrt(count)) if count > 1 else math.inf
    sums = np.bincount(groups, weights=influence)
    return math.sqrt(float((sums**2).sum()) * number / (number - 1)) / count
