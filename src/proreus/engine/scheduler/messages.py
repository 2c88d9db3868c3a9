"""Decisions in words: the annotation `proreus.io/decision`, and events in kube-scheduler's own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from proreus.engine.scheduler.decider import Account, Fallback, LegalDecision
from proreus.engine.scheduler.pod_templates import Template
from proreus.engine.scheduler.shadow import shares_with
from proreus.engine.scheduler.volumes import ATTACHABLE, volume_words
from proreus.kernels.arrays import I8
from proreus.model.decision import Decision, Place, Preempt, Reject
from proreus.model.node import Node
from proreus.model.resources import COL_PODS
from proreus.model.resources import GPU as GPU_RESOURCE
from proreus.worlds.pods.state.diagnosis import (
    NO_VICTIMS,
    UNHELPFUL,
    Diagnosis,
    DiagnosisMemory,
    diagnose,
    diagnose_evicted,
)
from proreus.worlds.pods.state.filters import (
    EXISTING_ANTI_AFFINITY,
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
from proreus.worlds.pods.state.observation import PodObservation

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
    EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    UNHELPFUL: "Preemption is not helpful for scheduling",
    NO_VICTIMS: "No preemption victims found for incoming pod",
}
_LOWEST = min(_WORDS)
_MOST_FACTORS = 4
"""That an annotation names, those that made the largest difference."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Refusals:
    """Why nodes may not take a pod."""

    codes: I8
    """[N]"""
    reasons: Mapping[str, int]
    """In kube's words -> nodes; a node that lacks two resources counts for both."""
    feasible: int
    """How many nodes may take it."""


def refusals_of(observation: PodObservation) -> Refusals:
    """Why nodes may not take the pod."""
    return _worded(observation, diagnose(observation))


class RefusalMemory:
    """`refusals_of` that looks only at nodes that changed since it was last asked of the same class."""

    def __init__(self) -> None:
        self._diagnoses = DiagnosisMemory()
        self._last: tuple[Diagnosis, Refusals] | None = None
        """Pods of one class mostly come in a row."""

    def refusals_of(self, observation: PodObservation, template: Template) -> Refusals:
        """Why nodes may not take the pod."""
        diagnosis = self._diagnoses.diagnose(observation)
        if self._last is None or self._last[0] is not diagnosis:
            self._last = diagnosis, _worded(observation, diagnosis)
        refusals = self._last[1]
        return (
            refusals if template.own_affinity is None else _with_volume_words(refusals, observation, template)
        )


def _worded(observation: PodObservation, diagnosis: Diagnosis) -> Refusals:
    codes = diagnosis.codes
    return Refusals(codes, _reasons(observation, diagnosis), int(np.count_nonzero(codes == OK)))


def _with_volume_words(refusals: Refusals, observation: PodObservation, template: Template) -> Refusals:
    """Nodes that volumes forbid stand among those of the pod's affinity; they are told apart."""
    own, counted = template.own_affinity, Counter(refusals.reasons)
    assert own is not None
    wanted, nodes = dict(template.spec.node_selector), observation.compiled.workload.nodes
    for n in np.flatnonzero(refusals.codes == NODE_AFFINITY).tolist():
        if words := volume_words(own, wanted, template.needs, nodes[n]):
            counted[_WORDS[NODE_AFFINITY]] -= 1
            counted[words] += 1
    reasons = {why: count for why, count in counted.items() if count}
    return Refusals(refusals.codes, reasons, refusals.feasible)


def nowhere(reason: str, nodes: int) -> str:
    """Of a pod that no node can take for the same reason, whoever leaves."""
    unhelpful = f"{nodes} {_WORDS[UNHELPFUL]}"
    return f"0/{nodes} nodes are available: {reason}. preemption: 0/{nodes} nodes are available: {unhelpful}."


def scheduled(pod: str, node: str, why: str) -> str:
    """For the event `Scheduled`: kube-scheduler's own words, then ours."""
    message = f"Successfully assigned {pod} to {node}"
    return f"{message}: {why}" if why else message


def unavailable(refusals: Refusals) -> str:
    """For the event `FailedScheduling`: what is wrong with which nodes, sorted as kube-scheduler sorts it."""
    nodes = len(refusals.codes)
    message = ", ".join(sorted(f"{count} {why}" for why, count in refusals.reasons.items()))
    return f"0/{nodes} nodes are available: {message}."


def without_victims(observation: PodObservation, *, terminating: bool) -> str:
    """What follows where nobody is evicted for the pod; terminating: it waits for some that are leaving."""
    if not observation.cluster.classes.may_preempt[observation.pod_class]:
        return "preemption: not eligible due to preemptionPolicy=Never."
    if terminating:
        return "preemption: not eligible due to a terminating pod on the nominated node."
    return f"preemption: {unavailable(_worded(observation, diagnose_evicted(observation)))}"


@dataclass(frozen=True, slots=True)
class Reasons:
    """What an annotation tells of a decision beside the decision itself."""

    policy: str
    fallback: Fallback
    refusals: Refusals
    shadow: tuple[str, Decision, str] | None
    """Who, what it would have done, and what that would have changed."""
    account: Account | None = None
    version: str = ""
    """Of the policy's weights."""
    milliseconds: float | None = None
    """That the decision took; None: nobody was asked."""


def annotation(answer: LegalDecision, reasons: Reasons, observation: PodObservation) -> dict[str, Any]:
    """The decision as the annotation's JSON has it."""
    nodes = observation.compiled.workload.nodes
    annotation: dict[str, Any] = {"policy": reasons.policy, **_named(answer.decision, nodes)}
    if reasons.version:
        annotation["version"] = reasons.version
    if reasons.milliseconds is not None:
        annotation["ms"] = round(reasons.milliseconds, 3)
    if reasons.fallback.reason:
        annotation["fallback"] = reasons.fallback.reason
    if reasons.fallback.why:
        annotation["why"] = reasons.fallback.why
    if reasons.account is not None:
        annotation |= _accounted(reasons.account, observation)
    annotation["feasible"] = reasons.refusals.feasible
    annotation["of"] = len(reasons.refusals.codes)
    if reasons.refusals.reasons:
        annotation["refused"] = reasons.refusals.reasons
    if reasons.shadow is not None:
        policy, decision, would = reasons.shadow
        annotation["shadow"] = {"policy": policy, **_named(decision, nodes)}
        if would:
            annotation["shadow"]["would"] = would
    return annotation


def annotation_text(cluster: Mapping[str, Any]) -> str:
    """As compact JSON."""
    return _encode(cluster).decode()


def devices_text(mask: int) -> str:
    """The numbers of the devices of a bit mask."""
    return ",".join(str(device) for device in range(mask.bit_length()) if mask >> device & 1)


def devices_mask(text: str) -> int:
    """The bit mask of such numbers; 0 where the text is none."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) < 64 for part in parts):
        return 0
    return sum(1 << device for device in {int(part) for part in parts})


def _accounted(account: Account, observation: PodObservation) -> dict[str, Any]:
    """Scores, what they are made of where that differs, and how full the nodes get."""
    nodes = observation.compiled.workload.nodes
    shown_scores: dict[str, Any] = {
        "score": _figure(account.scores[0]),
        "use": _use(account.nodes[0], observation),
    }
    if len(account.nodes) > 1:
        shown_scores["next"] = {
            "node": nodes[account.nodes[1]].name,
            "score": _figure(account.scores[1]),
            "use": _use(account.nodes[1], observation),
        }
        ahead = {name: mine - other for name, (mine, other) in account.factors.items()}
        telling = sorted(filter(ahead.get, ahead), key=lambda name: -abs(ahead[name]))[:_MOST_FACTORS]
        shown_scores["factors"] = {
            name: [_figure(part) for part in account.factors[name]] for name in telling
        }
    return shown_scores


def _use(node: int, observation: PodObservation) -> dict[str, float]:
    """Shares of what a node has that are asked for with the pod on it."""
    cpu, memory = shares_with(observation, node)
    return {"cpu": round(cpu, 3), "memory": round(memory, 3)}


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


def _reasons(observation: PodObservation, diagnosis: Diagnosis) -> dict[str, int]:
    """In kube's words -> nodes."""
    counts = np.bincount(diagnosis.codes - _LOWEST, minlength=-_LOWEST + RESOURCES_NEVER + 1).tolist()
    reasons: Counter[str] = Counter()
    for code, count in enumerate(counts, _LOWEST):
        if count and code not in (OK, RESOURCES, RESOURCES_NEVER):
            reasons[_WORDS[code]] += count
    if counts[RESOURCES - _LOWEST] or counts[RESOURCES_NEVER - _LOWEST]:
        names = [*observation.compiled.columns, GPU_RESOURCE]
        for column, count in enumerate(diagnosis.short.sum(axis=0).tolist()):
            if count:
                reasons[_short_of(column, names[column])] += count
    return dict(reasons)


def _short_of(column: int, name: str) -> str:
    if column == COL_PODS:
        return "Too many pods"
    return "node(s) exceed max volume count" if name.startswith(ATTACHABLE) else f"Insufficient {name}"
