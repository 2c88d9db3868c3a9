"""Why a virtual machine went where it went: what every place was worth to the rule that chose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.vms.encoding.gaps import GAP_FEATURES, encode_gaps
from proreus.worlds.vms.encoding.place import FEATURES, encode_place
from proreus.worlds.vms.policies.columns import BALANCE_FIT, BEST_FIT, GAPS, LEARNED, WORST_FIT, VmRule
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import left_over


def explained(name: str, rule: VmRule, observation: VmObservation, place: int) -> Explanation:
    """The choice, with the scores of every place that fits where the rule scores places."""
    scores = {
        other: _scores(rule, observation, other) for other in np.flatnonzero(observation.avail).tolist()
    }
    note = (
        "Equal places go to the first in order."
        if any(scores.values())
        else "This rule does not score places."
    )
    return told(name, observation, place, scores, note)


def told(
    name: str, observation: VmObservation, place: int, scores: Mapping[int, dict[str, float]], note: str
) -> Explanation:
    """The choice of a place, with the scores of those that were looked at."""
    cores, memory = observation.feat[0, 0].tolist()
    both = " on both NUMA nodes" if observation.feat[0, 1].any() else ""
    return Explanation(
        policy=name,
        subject=f"a machine of {cores:g} cores, {memory:g} GB{both}",
        decision=place,
        verdicts=tuple(
            _verdict(other, bool(fits), scores.get(other)) for other, fits in enumerate(observation.avail)
        ),
        note=note,
        told=f"goes to {place_name(place)}",
        chosen=place_name(place),
    )


def place_name(place: int) -> str:
    """Server and NUMA node."""
    return f"server {place // 2}/{place % 2}"


def _verdict(place: int, fits: bool, scores: dict[str, float] | None) -> Verdict:
    if not fits:
        return Verdict(place_name(place), "does not fit", {}, 0.0)
    weighed = scores or {}
    return Verdict(place_name(place), "", weighed, sum(weighed.values()), looked_at=scores is not None)


def _scores(rule: VmRule, observation: VmObservation, place: int) -> dict[str, float]:
    servers, flavours = observation.servers, observation.flavours
    lane, flavour = observation.lane, observation.flavour
    now = int(rule.now[0])
    kind = int(rule.kind[now])
    if kind == LEARNED:
        features = encode_place(servers, flavours, lane, flavour, place)
        parts = (rule.weights[now] * features).tolist()
        return {feature: part for feature, part in zip(FEATURES, parts, strict=True) if part}
    if kind == GAPS:
        parts = (rule.gaps[now] * encode_gaps(servers, flavours, lane, flavour, place)).tolist()
        return {feature: part for feature, part in zip(GAP_FEATURES, parts, strict=True) if part}
    if kind in (BEST_FIT, WORST_FIT):
        rest = float(left_over(servers, flavours, lane, place, flavour))
        return {"share left over": rest if kind == WORST_FIT else -rest}
    if kind == BALANCE_FIT and not flavours.double[flavour]:
        server = place // 2
        emptiness = (servers.free[lane, server] / servers.capacity[server]).min(axis=1)  # [2] of a NUMA node
        return {"difference of the NUMA nodes": float(abs(emptiness[0] - emptiness[1]))}
    return {}
