"""Decisions in words: the annotation `proreus.io/decision`, and events in kube-scheduler's own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from proreus.engine.agents.scheduling.deciding import Answer, Fallback
from proreus.kernels.arrays import I8, I64, Bool
from proreus.model.decision import Decision, Place, Preempt, Reject
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_PODS
from proreus.model.resources import GPU as GPU_RESOURCE
from proreus.worlds.pods.state.devices import devices_fit
from proreus.worlds.pods.state.filters import (
    CURABLE,
    GPU,
    GPU_NEVER,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_NOT_NAMED,
    NODE_PORTS,
    NODE_UNSCHEDULABLE,
    OK,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    RESOURCES,
    RESOURCES_NEVER,
    SPREAD,
    SPREAD_KEY_MISSING,
    TAINTS,
    VOLUME_CLAIM,
)
from proreus.worlds.pods.state.legality import related_refusal
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.victims import fill_free_without_lower

DEVICES = "proreus.io/gpu-devices"
"""The numbers of the GPUs that a pod was given, with commas between."""
_SPREAD_WORDS = "node(s) didn't match pod topology spread constraints"
_WORDS = {
    NODE_NOT_NAMED: "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    VOLUME_CLAIM: "persistentvolumeclaim not found",
    NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    NODE_NAME: "node(s) didn't match the requested node name",
    TAINTS: "node(s) had untolerated taint(s)",
    NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    NODE_PORTS: "node(s) didn't have free ports for the requested pod ports",
    GPU_NEVER: "node(s) didn't have the requested GPU model or number",
    GPU: "node(s) didn't have enough free GPU share",
    SPREAD_KEY_MISSING: f"{_SPREAD_WORDS} (missing required label)",
    SPREAD: _SPREAD_WORDS,
    POD_AFFINITY: "node(s) didn't match pod affinity rules",
    POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
}
_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_UNHELPFUL, _NO_VICTIMS = (
    "Preemption is not helpful for scheduling",
    "No preemption victims found for incoming pod",
)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Refusals:
    """Why nodes may not take a pod."""

    codes: I8
    """[N]"""
    reasons: Mapping[str, int]
    """In kube's words -> nodes; a node that lacks two resources counts for both."""

    @property
    def feasible(self) -> int:
        """How many nodes may take it."""
        return int(np.count_nonzero(self.codes == OK))


def refusals_of(observation: PodObservation) -> Refusals:
    """Why nodes may not take the pod."""
    codes = observation.refusals()
    counts = np.bincount(codes, minlength=len(CURABLE))
    reasons: Counter[str] = Counter()
    for code in np.flatnonzero(counts).tolist():
        if code in (RESOURCES, RESOURCES_NEVER):
            continue
        if code == POD_ANTI_AFFINITY:
            own = int(np.count_nonzero(_own_avoidance(observation)[codes == code]))
            reasons.update({_WORDS[code]: own, _EXISTING: int(counts[code]) - own})
        elif code != OK:
            reasons[_WORDS[code]] += int(counts[code])
    if counts[RESOURCES] or counts[RESOURCES_NEVER]:
        reasons.update(_shortages(observation, (codes == RESOURCES) | (codes == RESOURCES_NEVER)))
    return Refusals(codes, {why: count for why, count in reasons.items() if count})


def scheduled(pod: str, node: str) -> str:
    """For the event `Scheduled`."""
    return f"Successfully assigned {pod} to {node}"


def unavailable(refusals: Refusals) -> str:
    """For the event `FailedScheduling`: what is wrong with which nodes, sorted as kube-scheduler sorts it."""
    nodes = len(refusals.codes)
    told = ", ".join(sorted(f"{count} {why}" for why, count in refusals.reasons.items()))
    return f"0/{nodes} nodes are available: {told}."


def without_victims(observation: PodObservation, refusals: Refusals, *, terminating: bool) -> str:
    """What follows where nobody is evicted for the pod; terminating: it waits for some that are leaving."""
    if not observation.cluster.classes.may_preempt[observation.pod_class]:
        return "preemption: not eligible due to preemptionPolicy=Never."
    if terminating:
        return "preemption: not eligible due to a terminating pod on the nominated node."
    counts = _unhelped(observation, refusals)
    told = ", ".join(sorted(f"{count} {why}" for why, count in counts.items() if count))
    return f"preemption: 0/{len(refusals.codes)} nodes are available: {told}."


@dataclass(frozen=True, slots=True)
class Reasons:
    """What an annotation tells of a decision beside the decision itself."""

    policy: str
    fallback: Fallback
    refusals: Refusals
    shadow: tuple[str, Decision, str] | None
    """Who, what it would have done, and what that would have changed."""


def annotation(answer: Answer, reasons: Reasons, nodes: Sequence[Node]) -> str:
    """The decision as compact JSON."""
    found: dict[str, Any] = {"policy": reasons.policy, **_named(answer.decision, nodes)}
    if reasons.fallback.reason:
        found["fallback"] = reasons.fallback.reason
    if reasons.fallback.why:
        found["why"] = reasons.fallback.why
    if len(answer.nodes) and isinstance(answer.decision, Place):
        mine = answer.nodes == answer.decision.node
        if mine.any():
            found["score"] = _figure(answer.scores[mine][0])
        others = np.where(mine, -np.inf, answer.scores)
        best = int(np.argmax(others))
        if others[best] != -np.inf:
            found["next"] = {"node": nodes[int(answer.nodes[best])].name, "score": _figure(others[best])}
    found["feasible"] = reasons.refusals.feasible
    found["of"] = len(reasons.refusals.codes)
    if reasons.refusals.reasons:
        found["refused"] = reasons.refusals.reasons
    if reasons.shadow is not None:
        policy, decision, would = reasons.shadow
        found["shadow"] = {"policy": policy, **_named(decision, nodes)}
        if would:
            found["shadow"]["would"] = would
    return _encode(found).decode()


def devices_text(mask: int) -> str:
    """The numbers of the devices of a bit mask."""
    return ",".join(str(device) for device in range(mask.bit_length()) if mask >> device & 1)


def devices_mask(text: str) -> int:
    """The bit mask of such numbers; 0 where the text is none."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) < 64 for part in parts):
        return 0
    return sum(1 << device for device in {int(part) for part in parts})


def _figure(score: float) -> float | int:
    return int(score) if float(score).is_integer() else round(float(score), 6)


def _named(decision: Decision, nodes: Sequence[Node]) -> dict[str, str]:
    match decision:
        case Place(node=node):
            return {"node": nodes[node].name}
        case Preempt(node=node):
            return {"preempts": nodes[node].name}
        case Reject():
            return {"decision": "reject"}
        case _:
            return {"decision": "delay"}


def _own_avoidance(observation: PodObservation) -> Bool:
    """bool[N]: where the pod's own anti-affinity refuses (it comes before that of pods that are there)."""
    cluster, state, c = observation.cluster, observation.state, observation.pod_class
    terms = cluster.terms
    found = np.zeros(state.first.shape[0], dtype=np.bool_)
    for term in terms.avoid[terms.avoid_start[c] : terms.avoid_start[c + 1]].tolist():
        domain = cluster.nodes.domain[terms.key[term], : len(found)]
        found |= (domain >= 0) & (state.matching_in[term, np.maximum(domain, 0)] > 0)
    return found


def _unhelped(observation: PodObservation, refusals: Refusals) -> Counter[str]:
    """Why eviction does not help on which nodes: what is wrong with them once all lower pods are gone."""
    cluster, state, c = observation.cluster, observation.state, observation.pod_class
    free = np.empty(state.free.shape, dtype=np.int64)
    lower = np.empty(len(free), dtype=np.bool_)
    fill_free_without_lower(cluster, state, c, free, lower)
    curable = np.array(CURABLE)[refusals.codes]
    counts: Counter[str] = Counter(
        {_UNHELPFUL: int((~curable).sum()), _NO_VICTIMS: int((curable & ~lower).sum())}
    )
    emptied = curable & lower
    short = emptied & ((cluster.classes.request[c] > free) & (cluster.classes.request[c] > 0)).any(axis=1)
    counts.update(_lacking(observation, free[short]))
    for n in np.flatnonzero(emptied & ~short).tolist():
        code = int(refusals.codes[n])
        if code == RESOURCES:  # there would be room; `refusals` has prepared for this look at other nodes
            code = related_refusal(cluster, state, c, n, observation.scratch)
        counts[
            _EXISTING if code == POD_ANTI_AFFINITY else _WORDS.get(code, f"Insufficient {GPU_RESOURCE}")
        ] += 1
    return counts


def _lacking(observation: PodObservation, free: I64) -> dict[str, int]:
    """free: int64[.., R]; resource by resource, how many of these nodes have too little of it."""
    need: I64 = observation.cluster.classes.request[observation.pod_class]
    columns = observation.compiled.columns
    return {
        "Too many pods" if r == COL_PODS else f"Insufficient {columns[r]}": int(count)
        for r, count in enumerate(((need > free) & (need > 0)).sum(axis=0).tolist())
        if count
    }


def _shortages(observation: PodObservation, short: Bool) -> dict[str, int]:
    """Resource by resource, how many of the nodes that lack something lack it."""
    cluster, state, c = observation.cluster, observation.state, observation.pod_class
    nodes = np.flatnonzero(short)
    found = _lacking(observation, state.free[nodes])
    num, milli = int(cluster.classes.gpu_num[c]), int(cluster.classes.gpu_milli[c])
    if num and milli == GPU_WHOLE:
        lacking = sum(
            not devices_fit(state.gpu_left[n], cluster.nodes.gpu_count[n], num, milli) for n in nodes.tolist()
        )
        if lacking:
            found[f"Insufficient {GPU_RESOURCE}"] = lacking
    return found
