"""Whether a candidate may replace the live model, judged by a replay of decisions that neither learned from.

The decisions were drawn by some version with a known chance, so both models can be judged by them: each
decision counts as much as the model would have made it more often (importance weights w, self-normalised),
with the discounted rewards that followed it as its worth. That is the value of deciding once by the model
and then going on as before, which is what a cautious update changes. The difference of the two estimates is
paired: where both models would do the same, it has no noise.

The decisions come from reports, and a report may lie. So the reports that speak most for and most against
the candidate are left out of the verdict; where there are too few for that, every one of them must be
dispensable. A candidate passes where the whole 95 % interval says that it earns more: one that decides
otherwise and earns the same is no news. A decision whose recorded chance is far below what the live model
gives it says more about the record than about the models, and is left out too. What cannot be compared, NaN
or infinite, never passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.model.experience import Experience
from proreus.policies.promotion_rule import CandidateGain, rule_on
from proreus.worlds.pods.policies.vector.model import VectorModel

NOT_TOLD_APART = "not told apart"
"""What the reason of a candidate begins with that earns neither more nor less, as far as can be told."""
_LARGEST_WEIGHT = 1e3
_LARGEST_LIVE_WEIGHT = 30.0  # of the live model; it is at most some versions away from who decided
_FEW = 5  # stretches below which decisions count as independent, reports below which none can be left out


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
class ReplayVerdict:
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
    log_probs = np.empty(len(experience))
    for k, state in enumerate(experience.states):
        mask = None if experience.masks is None else experience.masks[k]
        chance = model.chances(state, experience.actions_dim, mask)[experience.actions[k]]
        log_probs[k] = math.log(chance) if chance > 0.0 else -math.inf
    return log_probs


def worth(experience: Experience, discount: float) -> F64:
    """float64[B]: the discounted sum of the rewards from each decision to the end of its episode."""
    worth = np.empty(len(experience))
    following = 0.0
    for k in range(len(experience) - 1, -1, -1):
        following = float(experience.rewards[k]) + (0.0 if experience.dones[k] else discount * following)
        worth[k] = following
    return worth


@dataclass(frozen=True, eq=False)
class _Replay:
    """Held-out decisions as both models see them. B of them."""

    of_live: F64  # [B] logarithms of the weights
    of_candidate: F64  # [B]
    worths: F64  # [B]
    stretches: I64  # [B] which one a decision is of
    reports: I64  # [B]

    def some(self, which: Bool) -> _Replay:
        """Those decisions."""
        return _Replay(*(column[which] for column in vars(self).values()))


def judge(
    live: VectorModel,
    candidate: VectorModel,
    held_out: Sequence[Experience],
    settings: GateSettings,
    reports: Sequence[int] | None = None,
) -> ReplayVerdict:
    """Compare two models on held-out stretches of decisions; reports: which one each is of, else its own."""
    replay = _replayed(live, candidate, held_out, settings.discount, reports)
    decisions = len(replay.worths)
    if decisions < settings.least_decisions:
        reason = (
            f"only {decisions} held-out decisions can be judged by, {settings.least_decisions} are needed"
        )
        return ReplayVerdict(False, reason, 0.0, -math.inf, math.inf, decisions, 0.0)
    quiet = _without_the_loudest(replay)
    found, nothing = _compared(quiet, settings), _rounding(quiet)
    effective, low, high = found.effective, found.low, found.high
    ruling = rule_on(CandidateGain(found.difference, low, high), found.worst, nothing)
    if ruling == "cannot be compared":
        reason = f"cannot be compared: the replay gives {found.difference:+.4g} a decision"
        return ReplayVerdict(False, reason, 0.0, -math.inf, math.inf, decisions, 0.0)

    def verdict(accepted: bool, reason: str) -> ReplayVerdict:
        return ReplayVerdict(accepted, reason, found.difference, low, high, decisions, effective)

    if effective < settings.least_effective * found.decisions:
        said = f"{effective:.1f} of {found.decisions} decisions speak for it"
        return verdict(False, f"the replay cannot judge it: {said}")
    interval = f"95 % interval {low:+.4g} to {high:+.4g}"
    said = f"{found.difference:+.4g} a decision, {interval}, {decisions} held-out decisions"
    if ruling != "not worse":
        return verdict(False, f"{ruling}: {said}")
    if _carried_by_one(replay):
        return verdict(False, f"carried by one report: {said}")
    if not low > nothing:  # it may do something else, but nobody can tell that it earns more
        return verdict(False, f"{NOT_TOLD_APART}: {said}")
    return verdict(True, f"better: {said}")


def _replayed(
    live: VectorModel,
    candidate: VectorModel,
    held_out: Sequence[Experience],
    discount: float,
    reports: Sequence[int] | None,
) -> _Replay:
    """The decisions that can be judged by."""
    columns: list[tuple[F64, F64, F64, I64, I64]] = []
    for number, stretch in enumerate(held_out):
        known = usable(stretch)
        if not known.any():
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            of_live = log_probs(live, stretch) - stretch.log_probs
            known &= ~(of_live > math.log(_LARGEST_LIVE_WEIGHT))
            of_candidate = log_probs(candidate, stretch) - stretch.log_probs
            worths = worth(stretch, discount)
        report = number if reports is None else reports[number]
        count = int(known.sum())
        columns.append(
            (
                of_live[known],
                of_candidate[known],
                worths[known],
                np.full(count, number),
                np.full(count, report),
            )
        )
    if not columns:
        nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
        return _Replay(nothing, nothing, nothing, none, none)
    return _Replay(*(np.concatenate(column) for column in zip(*columns, strict=True)))


@dataclass(frozen=True)
class _Compared:
    difference: float
    low: float
    high: float
    worst: float
    decisions: int
    effective: float


def _compared(replay: _Replay, settings: GateSettings) -> _Compared:
    with np.errstate(over="ignore", invalid="ignore"):
        v_live, by_live, _ = _estimate(replay.of_live, replay.worths)
        v_candidate, by_candidate, effective = _estimate(replay.of_candidate, replay.worths)
        difference = v_candidate - v_live
        half = 1.96 * _spread(by_candidate - by_live, replay.stretches)
        worst = -settings.margin * float(replay.worths.std())
    low, high = difference - half, difference + half
    return _Compared(difference, low, high, worst, len(replay.worths), effective)


def _differences_without(replay: _Replay) -> tuple[I64, F64]:
    """(reports, the difference of the two estimates without each of them)."""
    numbers, of = np.unique(replay.reports, return_inverse=True)
    found = np.zeros(len(numbers))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for sign, log_weights in ((-1.0, replay.of_live), (1.0, replay.of_candidate)):
            weights = _weights(log_weights)
            sums = np.bincount(of, weights=weights * replay.worths)
            masses = np.bincount(of, weights=weights)
            found += sign * (sums.sum() - sums) / (masses.sum() - masses)
    return numbers, found


def _without_the_loudest(replay: _Replay) -> _Replay:
    """Without the report that speaks most for the candidate, and the one that speaks most against it."""
    numbers, without = _differences_without(replay)
    if len(numbers) < _FEW or not np.isfinite(without).all():
        return replay
    loudest = {int(numbers[without.argmin()]), int(numbers[without.argmax()])}
    return replay.some(~np.isin(replay.reports, list(loudest)))


def _carried_by_one(replay: _Replay) -> bool:
    """Whether, of a few reports, one alone makes the candidate look no worse than the live model."""
    numbers, without = _differences_without(replay)
    return 1 < len(numbers) < _FEW and not bool((without >= -_rounding(replay)).all())


def _rounding(replay: _Replay) -> float:
    """What a difference of nothing may come to."""
    return 1e-12 * float(np.abs(replay.worths).max())


def _weights(log_weights: F64) -> F64:
    weights: F64 = np.exp(np.minimum(log_weights, math.log(_LARGEST_WEIGHT)))
    return weights


def _estimate(log_weights: F64, value: F64) -> tuple[float, F64, float]:
    """(self-normalised estimate, influence of each decision on it, effective number of decisions)."""
    weights = _weights(log_weights)
    total = float(weights.sum())
    if total <= 0.0:
        return float(value.mean()), np.zeros(len(value)), 0.0
    mean = float((weights * value).sum() / total)
    influence = weights * (value - mean) * (len(value) / total)
    return mean, influence, total**2 / float((weights**2).sum())


def _spread(influence: F64, stretches: I64) -> float:
    """Standard error of the mean influence; decisions of one stretch share their fate."""
    count = len(influence)
    groups = np.unique(stretches, return_inverse=True)[1]
    number = int(groups.max()) + 1
    if number < _FEW:
        return float(influence.std(ddof=1) / math.sqrt(count)) if count > 1 else math.inf
    sums = np.bincount(groups, weights=influence)
    return math.sqrt(float((sums**2).sum()) * number / (number - 1)) / count
