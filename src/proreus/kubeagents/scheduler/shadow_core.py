"""Decides about every pod that somebody else binds, at the moment when that is seen, and binds nothing.

Two questions are asked of each pod. In the cluster as it really was: where would the policy have put it, and
what would have been different at once? And in the cluster as it would be had the policy decided all along
(`AlternateHistory`): pods leave when they really left, and go where the policy puts them. So what adds up
over a week is seen, and not only the next step. No I/O: events in, comparisons out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER, Chosen
from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.engine.scheduler.decider import Decider, Fallback, LegalDecision, Stuck
from proreus.engine.scheduler.instructions import Event, Object, ObjectDeleted, ObjectUpdated
from proreus.engine.scheduler.messages import refusals_of, unavailable
from proreus.engine.scheduler.profiles import Schedulers, Untrained
from proreus.engine.scheduler.shadow import DecisionEffect, changes, effect_of
from proreus.model.decision import Place
from proreus.model.pod import Pod
from proreus.policies.isolated_policy import Strangers
from proreus.worlds.pods.state.observation import PodObservation

_MIRROR = "kubernetes.io/config.mirror"
"""On pods that a kubelet made itself: nobody decides about them."""
_MOST_TOLD = 100_000
_MOST_ALIKE = 64
"""Nodes of the same score that are named, unless the real one is among them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pod: where it went, and where the policy would have put it."""

    at: float
    pod: str
    scheduler: str
    policy: str
    node: str
    """Where it really went; "": it was told to wait."""
    would: str
    """Where the policy would have put it, as it was; "": it would have let it wait."""
    same: bool
    fallback: str
    why: str
    """What the policy, or the rules in its place, say of the difference."""
    forbidden: str
    """Why the kube rules, as they are known here, forbid the node that it really went to; "": they do not."""
    scores: tuple[float | None, float | None]
    """Of the real node and of the other, by the policy."""
    alike: tuple[str, ...]
    """Nodes with the best score, where several have it."""
    done: DecisionEffect
    instead: DecisionEffect
    seconds: float
    """That the decision took."""
    in_use: tuple[int, int]
    """Nodes with pods on them, really and had the policy decided all along."""
    left_out: int
    """Pods that found no node there so far."""
    nodes: int

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class Nobody(Schedulers):
    """No pod is ours."""

    tells_unknown: ClassVar[bool] = False

    def named(self, scheduler: str) -> Chosen | Untrained | None:
        """Somebody else decides."""
        del scheduler
        return None


class AlternateHistory:
    """The cluster had the policy decided all along."""

    def __init__(self, options: SchedulingOptions) -> None:
        self.core = SchedulingCore(options)
        self.core.schedulers = Nobody({}, options.default)
        self._nodes: dict[str, str] = {}
        """By uid: where a pod is; "": nowhere."""
        self.left_out = 0

    def hear(self, event: Event, now: float) -> None:
        """What happened, with pods where they would be."""
        if isinstance(event, ObjectUpdated | ObjectDeleted) and event.kind == "Pod":
            uid = event.object["metadata"].get("uid", "")
            node = self._nodes.get(uid)
            if node == "":
                if isinstance(event, ObjectDeleted):
                    del self._nodes[uid]
                return
            if node is not None:
                event = replace(event, object=_on(event.object, node))
            if isinstance(event, ObjectDeleted):
                self._nodes.pop(uid, None)
        self.core.handle(event, now)
        self.core.complaints.clear()

    def place(self, uid: str, node: str) -> None:
        """From now on that pod is there, whatever is heard of it."""
        self._nodes[uid] = node
        self.left_out += node == ""


class ShadowCore(SchedulingCore):
    """Follows a cluster in which others decide."""

    def __init__(
        self,
        options: SchedulingOptions,
        strangers: Strangers | None = None,
        names: frozenset[str] = frozenset(),
    ) -> None:
        """names: only pods of these schedulerNames are decided about; none: all are."""
        super().__init__(options, strangers)
        self.schedulers = Nobody({}, options.default)
        self._names = names
        self.alternate = AlternateHistory(options)
        self._alternate_decider: Decider | None = None
        self.found: list[Comparison] = []
        """What nobody has taken yet."""
        self.listening = False
        """Pods that were there before are taken as they are."""
        self._told: dict[str, str] = {}
        """What a pod was last told by whoever lets it wait."""

    def prepare(self) -> None:
        """Make the deciders; not for an event loop."""
        self.decider(self.options.default)
        self._alternate_decider = self.alternate.core.decider(self.options.default)

    def handle(self, event: Event, now: float) -> None:
        """Take note of one event, and compare where it is a decision."""
        if self.listening and isinstance(event, ObjectUpdated) and event.kind == "Pod":
            self._compare(event.object, now)
        super().handle(event, now)
        self.complaints.clear()
        self.alternate.hear(event, now)

    def take(self) -> list[Comparison]:
        """What was found since."""
        found, self.found = self.found, []
        return found

    def _compare(self, obj: Object, now: float) -> None:
        metadata, spec = obj["metadata"], obj["spec"]
        key, uid = f"{metadata['namespace']}/{metadata['name']}", metadata.get("uid", "")
        scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
        if self._names and scheduler not in self._names:
            return
        if _MIRROR in (metadata.get("annotations") or {}) or "deletionTimestamp" in metadata:
            return
        node = spec.get("nodeName") or ""
        known = self.picture.pods.get(key)
        if known is not None and known.ref.uid == uid and known.node:
            return  # it has been there for a while
        if node:
            self._told.pop(uid, None)
            self._compared(obj, scheduler, node, now)
        elif (told := _told_to_wait(obj)) and self._told.get(uid) != told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told[uid] = told
            self._compared(obj, scheduler, "", now)

    def _compared(self, obj: Object, scheduler: str, node: str, now: float) -> None:
        if node and node not in self.picture.cluster.node_names():
            return
        began = perf_counter()
        answer, fallback, observation = _asked(self, self.decider(self.options.default), obj, now)
        seconds = perf_counter() - began
        real = LegalDecision(Place(self.picture.cluster.node_at(node))) if node else None
        done = effect_of(real, observation) if real is not None else DecisionEffect()
        instead = effect_of(answer, observation)
        forbidden = ""
        if node and observation.refusal(self.picture.cluster.node_at(node)):
            forbidden = unavailable(refusals_of(observation))
        would = instead.node if not answer.victims else ""
        if node:
            self._place_otherwise(obj, now)
        scores, alike = _scores(answer, node, would, observation)
        self.found.append(
            Comparison(
                at=now,
                pod=f"{obj['metadata']['namespace']}/{obj['metadata']['name']}",
                scheduler=scheduler,
                policy=self.options.default.policy,
                node=node,
                would=would,
                same=would == node or (node in alike and would in alike),
                fallback=fallback.reason,
                why=fallback.why or changes(done, instead),
                forbidden=forbidden,
                scores=scores,
                alike=alike,
                done=done,
                instead=instead,
                seconds=round(seconds, 6),
                in_use=(_in_use(self), _in_use(self.alternate.core)),
                left_out=self.alternate.left_out,
                nodes=len(self.picture.nodes()),
            )
        )

    def _place_otherwise(self, obj: Object, now: float) -> None:
        assert self._alternate_decider is not None, "prepare was called"
        answer, _, observation = _asked(self.alternate.core, self._alternate_decider, obj, now)
        effect = effect_of(answer, observation)
        # What would be evicted there has really gone on: such a pod is left out, and counted.
        self.alternate.place(obj["metadata"].get("uid", ""), "" if answer.victims else effect.node)


def _asked(
    core: SchedulingCore, decider: Decider, obj: Object, now: float
) -> tuple[LegalDecision, Fallback, PodObservation]:
    """What a policy decides about a pod that waits, in a cluster without it."""
    template, _ = core.template_of(_waiting(obj))
    key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}/asked"

    def observe() -> PodObservation:
        return core.picture.cluster.observe(Pod(key, template.spec), 0, now)

    observation = observe()
    try:
        answer, fallback = decider.decide(observation)
    except Stuck as stuck:
        core.start_over(now)
        observation = observe()
        answer, fallback = decider.by_rule(observation), Fallback("deadline", str(stuck))
    return answer, fallback, observation


def _scores(
    answer: LegalDecision, node: str, would: str, observation: PodObservation
) -> tuple[tuple[float | None, float | None], tuple[str, ...]]:
    """(score of the real node, of the other), and who shares the best score."""
    nodes = observation.compiled.workload.nodes
    if not len(answer.nodes):
        return (None, None), ()
    named = {nodes[n].name: float(score) for n, score in zip(answer.nodes, answer.scores, strict=True)}
    best = float(np.max(answer.scores))
    alike = tuple(sorted(name for name, score in named.items() if score == best))
    return (named.get(node), named.get(would)), alike if 1 < len(
        alike
    ) <= _MOST_ALIKE or node in alike else ()


def _in_use(core: SchedulingCore) -> int:
    _, state = core.picture.cluster.columns()
    return int(np.count_nonzero(state.first[: len(core.picture.cluster.node_names())] >= 0))


def _on(obj: Object, node: str) -> Object:
    if not obj["spec"].get("nodeName"):
        return obj
    return {**obj, "spec": {**obj["spec"], "nodeName": node}}


def _waiting(obj: Object) -> Object:
    spec = {name: part for name, part in obj["spec"].items() if name != "nodeName"}
    return {**obj, "spec": spec}


def _told_to_wait(obj: Object) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or "") if condition.get("reason") == "Unschedulable" else ""
    return ""
