"""Why a virtual machine went where it went: what every place was worth to the rule that chose."""

from __future__ import annotations

import numpy as np

from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.vms.encoding.place import FEATURES, encode_place
from proreus.worlds.vms.policies.columns import BALANCE_FIT, BEST_FIT, LEARNED, WORST_FIT, VmRule
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import left_over


def explained(name: str, rule: VmRule, observation: VmObservation, place: int) -> Explanation:
    """The choice, with the scores of every place that fits where the rule scores places."""
    cores, memory = observation.feat[0, 0].tolist()
    both = " on both NUMA nodes" if observation.feat[0, 1].any() else ""
    verdicts = tuple(
        _verdict(rule, observation, other, bool(fits)) for other, fits in enumerate(observation.avail)
    )
    return Explanation(
        policy=name,
        subject=f"a machine of {cores:g} cores, {memory:g} GB{both}",
        decision=place,
        verdicts=verdicts,
        note="Equal places go to the first in order."
        if any(verdict.scores for verdict in verdicts)
        else "This rule does not score places.",
        told=f"goes to {_name(place)}",
        chosen=_name(place),
    )


def _name(place: int) -> str:
    return f"server {place // 2}/{place % 2}"


def _verdict(rule: VmRule, observation: VmObservation, place: int, fits: bool) -> Verdict:
    if not fits:
        return Verdict(_name(place), "does not fit", {}, 0.0)
    scores = _scores(rule, observation, place)
    return Verdict(_name(place), "", scores, sum(scores.values()))


def _scores(rule: VmRule, observation: VmObservation, place: int) -> dict[str, float]:
    servers, flavours = observation.servers, observation.flavours
    lane, flavour = observation.lane, observation.flavour
    now = int(rule.now[0])
    kind = int(rule.kind[now])
    if kind == LEARNED:
        features = np.zeros(len(FEATURES))
        encode_place(servers, flavours, lane, flavour, place, features)
        parts = (rule.weights[now] * features).tolist()
        return {feature: part for feature, part in zip(FEATURES, parts, strict=True) if part}
    if kind in (BEST_FIT, WORST_FIT):
        rest = float(left_over(servers, flavours, lane, place, flavour))
        return {"share left over": rest if kind == WORST_FIT else -rest}
    if kind == BALANCE_FIT and not flavours.double[flavour]:
        server = place // 2
        emptiness = (servers.free[lane, server] / servers.capacity[server]).min(axis=1)  # [2] of a NUMA node
        return {"difference of the NUMA nodes": float(abs(emptiness[0] - emptiness[1]))}
    return {}
