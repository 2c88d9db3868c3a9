"""What a judgement makes of a candidate, without I/O.

Held out is whatever happened since the candidate was put up. A replay of it plays both policies in the
simulator; while a share of the pods is the candidate's, these pods are also compared with the rest, as they
really fared. To go on, a candidate must let pods wait less, and evict no more, with its interval; whoever
lets them wait longer is refused, at any stage, and the policy from before decides again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from proreus.engine.objects.promotions import Promotion, Stage, in_share
from proreus.engine.objects.scheduler_config import Chosen
from proreus.model.cluster_trace import PodTrace
from proreus.model.duel import Duel
from proreus.policies.promotion_rule import CandidateGain, rule_on

_NORMAL = 1.96
_LEAST_WAIT = 1.0
"""Seconds."""
_LEAST_EVICTIONS = 0.01
"""A pod."""
_NEXT: Mapping[Stage, Stage] = {"shadow": "share", "share": "all", "all": "all"}
_LONGEST_WHY = 500
_BY_THE_POLICY = ("", "nominated")


@dataclass(frozen=True)
class GateOptions:
    """How much must be known before a candidate goes on."""

    least_pods: int = 100
    """That came since it was put up, for a replay."""
    least_each: int = 30
    """Pods of the share, and as many of the rest."""
    most_fallbacks: float = 0.1
    """Share of its decisions that the kube rules had to make in its place."""


@dataclass(frozen=True)
class LiveEvidence:
    """How pods of the share and the rest fared, since the candidate has its share."""

    share: tuple[float, ...] = ()
    """Seconds from creation to a node, or until now."""
    rest: tuple[float, ...] = ()
    decided: int = 0
    """By the candidate, or in its place."""
    fallbacks: int = 0


@dataclass(frozen=True)
class Evidence:
    """What is known of a candidate at a judgement."""

    replay: Duel
    live: LiveEvidence


def begun(chosen: Chosen, now: float) -> Promotion:
    """A candidate that was just put up."""
    return Promotion(chosen.policy, chosen.candidate, now, stage_since=now, told="not judged yet")


def lived(pods: Iterable[PodTrace], chosen: Chosen, since: float, now: float) -> LiveEvidence:
    """What a trace says of the pods that came since then; pods: of the schedulerName in question."""
    share: list[float] = []
    rest: list[float] = []
    decided = fallbacks = 0
    for pod in pods:
        if pod.bound is not None and pod.bound >= since and pod.policy == chosen.candidate:
            decided += 1
            fallbacks += pod.fallback not in _BY_THE_POLICY
        if pod.created < since:
            continue
        if pod.bound is None and pod.ended is not None:
            continue  # deleted while it waited: nobody's doing
        arm = share if in_share(pod.uid, chosen.share) else rest
        arm.append((pod.bound if pod.bound is not None else now) - pod.created)
    return LiveEvidence(tuple(share), tuple(rest), decided, fallbacks)


def judged(promotion: Promotion, evidence: Evidence, now: float, options: GateOptions) -> Promotion:
    """Where the candidate stands after a judgement; who was refused stays so."""
    stage, message = _verdict(promotion.stage, evidence, options)
    moved = stage != promotion.stage
    return msgspec.structs.replace(
        promotion,
        stage=stage,
        told=message,
        judged=now,
        stage_since=now if moved else promotion.stage_since,
    )


def not_judged(promotion: Promotion, why: str, now: float) -> Promotion:
    """Where nothing could be found out it stays where it is, until the next judgement."""
    return msgspec.structs.replace(promotion, told=f"could not be judged: {why[:_LONGEST_WHY]}", judged=now)


def _verdict(stage: Stage, evidence: Evidence, options: GateOptions) -> tuple[Stage, str]:
    if stage == "refused":
        return stage, "refused before"
    live, replay = evidence.live, evidence.replay
    if live.decided >= options.least_each and live.fallbacks > options.most_fallbacks * live.decided:
        share = live.fallbacks / live.decided
        return "refused", f"too slow, unsure or wrong in {share:.0%} of {live.decided} decisions"
    if stage == "share" and (worse := _worse_in_life(live, options)):
        return "refused", worse
    if replay.pods < options.least_pods or not replay.waits:
        return stage, f"{replay.pods} pods came since then, {options.least_pods} are needed to judge by"
    waits, evictions = shorter_waits(replay), _less(replay.evictions, _LEAST_EVICTIONS)
    mine, other = (math.fsum(side) / len(side) for side in zip(*replay.waits, strict=True))
    said = f"mean wait {other:.3g} s, not {mine:.3g} s ({_part(waits)}), in a replay of {replay.pods} pods"
    if waits.high < 0.0:
        return "refused", f"worse: {said}"
    if evictions.high < 0.0:
        return "refused", f"worse: more evictions ({_part(evictions)}); {said}"
    ruling = rule_on(waits)
    if ruling != "not worse" or waits.low <= 0.0:
        return stage, f"{ruling if ruling != 'not worse' else 'no difference'}: {said}"
    if stage == "share" and min(len(live.share), len(live.rest)) < options.least_each:
        counts = f"{len(live.share)} pods of the share, {len(live.rest)} of the rest"
        return stage, f"better: {said}; {counts} so far, {options.least_each} of each are needed"
    return _NEXT[stage], f"better: {said}"


def shorter_waits(replay: Duel) -> CandidateGain:
    """By what part of it the candidate makes the mean wait shorter."""
    return _less(replay.waits, _LEAST_WAIT)


def _part(less: CandidateGain) -> str:
    """A difference from `_less` in words, as a change of what there is."""
    mean, low, high = (f"{-100 * ratio:+.0f} %" for ratio in (less.mean, less.high, less.low))
    return f"{mean} of the larger, 95 % interval {low} to {high}"


def _worse_in_life(live: LiveEvidence, options: GateOptions) -> str:
    if min(len(live.share), len(live.rest)) < options.least_each:
        return ""
    difference = _means_apart(live.rest, live.share)
    if difference.high >= 0.0:
        return ""
    mine, others = (math.fsum(arm) / len(arm) for arm in (live.share, live.rest))
    return (
        f"worse: {len(live.share)} pods of the share waited {mine:.3g} s on average, {len(live.rest)} others "
        f"{others:.3g} s (longer by {-difference.high:.3g} to {-difference.low:.3g} s)"
    )


def _less(pairs: Sequence[tuple[float, float]], least: float) -> CandidateGain:
    """By what part of the larger of the two the candidate has less, between -1 and 1.

    Parts, since one crowded draw would outweigh all others in seconds; least: below this a difference counts
    for little. The spread of draws from the recorded pods is the uncertainty of the whole: more draws make
    it better known, not smaller.
    """
    differences = [(mine - other) / max(mine, other, least) for mine, other in pairs]
    mean = math.fsum(differences) / len(differences)
    half = _NORMAL * math.sqrt(_variance(differences))
    return CandidateGain(mean, max(mean - half, -1.0), min(mean + half, 1.0))


def _means_apart(more: Sequence[float], less: Sequence[float]) -> CandidateGain:
    mean = math.fsum(more) / len(more) - math.fsum(less) / len(less)
    half = _NORMAL * math.sqrt(sum(_variance(values) / len(values) for values in (more, less)))
    return CandidateGain(mean, mean - half, mean + half)


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.inf
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
