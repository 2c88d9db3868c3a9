"""The SchedulingAgent without I/O: events come in, instructions come out, the time is told.

`handle` takes note of what happened. `cycle` decides about waiting pods, one after the other, each in the
picture that the one before left behind:

1. take the next pod from the queue;
2. observe: the cluster with every assumed pod on its node, and with nominated pods that go first on theirs;
3. ask the policy of its schedulerName, within its deadline (and the shadow, which is only recorded);
4. where it is slow, unsure, wrong or fails, ask the kube rules;
5. assume: from now on the pod counts as being where it was put;
6. instruct: bind, or evict and wait for the node, or say why the pod has to wait.

A pod that was nominated goes to its node as soon as that may take it, without asking again, as in Kubernetes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from proreus.engine.objects.decision_annotation import DECISION, scores_told
from proreus.engine.objects.promotions import ways
from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER, Chosen, admitted_choice
from proreus.engine.scheduler.cache import Known, SchedulerCache
from proreus.engine.scheduler.decider import Decider, Fallback, LegalDecision, Stuck
from proreus.engine.scheduler.event_handlers import EventHandlers
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    Complain,
    DelayPod,
    Instruction,
    InstructionFailed,
    PreemptFor,
    RejectPod,
    VolumeAction,
)
from proreus.engine.scheduler.messages import (
    DEVICES,
    Reasons,
    RefusalMemory,
    Refusals,
    annotation,
    annotation_text,
    devices_text,
    nowhere,
    scheduled,
    unavailable,
    without_victims,
)
from proreus.engine.scheduler.nominator import NominatedPod, held, hold, in_the_way
from proreus.engine.scheduler.profiles import RULE, Schedulers, Untrained
from proreus.engine.scheduler.queue import Queue
from proreus.engine.scheduler.shadow import ShadowDifferences, changes, effect_of
from proreus.model import decision as model
from proreus.model.errors import ProreusError, WorkError
from proreus.policies.isolated_policy import Strangers
from proreus.policies.policy_folders import PolicyFolders
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from proreus.worlds.pods.state.observation import PodObservation


@dataclass(frozen=True)
class SchedulingOptions:
    """How a SchedulingAgent decides."""

    default: Chosen = field(default_factory=lambda: Chosen(RULE))
    """For `default-scheduler`, where no ConfigMap says otherwise."""
    models: Path | None = None
    """A folder of checkpoints and training runs whose names stand for themselves: "ddqn", "ppo"."""
    policies: PolicyOptions = field(default_factory=PolicyOptions)
    seed: int = 0
    apart: bool = True
    """Whether policies from elsewhere run in processes of their own; in this one nothing holds them."""
    policy_folders: tuple[Path, ...] = ()
    """Where policies may lie that a ConfigMap, or the API, names by their path."""
    trusted: tuple[str, ...] = ()
    """Policies that the operator named besides what decides by default."""
    follows_volumes: bool = False
    """Whether volumes and claims are told of; else they are not looked at."""
    budgets_by_status: bool = False
    """Disruption budgets allow what their status says, as kube-scheduler takes it: somebody keeps that up to
    date. Else what stands here is counted."""

    @property
    def folders(self) -> PolicyFolders:
        """What may be loaded for whoever names it, besides what decides by default."""
        named = (self.default.policy, self.default.shadow, *self.trusted)
        return PolicyFolders.of(self.policy_folders, self.models, named)


class SchedulingCore(EventHandlers):
    """See the module; what happens is taken note of by `EventHandlers`."""

    def __init__(
        self,
        options: SchedulingOptions | None = None,
        strangers: Strangers | None = None,
        *,
        makes: bool = True,
    ) -> None:
        """strangers: where policies from elsewhere run, None: here; makes: whether it makes deciders itself
        where one is missing, or leaves that to whoever reads `wanted` and hands them in."""
        self.options = options or SchedulingOptions()
        self._strangers, self._makes = strangers, makes
        schedulers = Schedulers({}, self.options.default, self.options.models)
        super().__init__(SchedulerCache(), Queue(), schedulers)
        self.budgets_by_status = self.options.budgets_by_status
        self.follows_volumes = self.options.follows_volumes
        self.differences: dict[str, ShadowDifferences] = {}
        """By schedulerName, where there is a shadow."""
        self.counts: Counter[str] = Counter()
        """Decisions by what came of them."""
        self._folders = self.options.folders
        self._left: dict[Chosen, list[str]] = {}
        """Pods that were taken, and whoever is to decide about them is not ready."""
        self._deciders: dict[Chosen, Decider] = {}
        self._unfit: dict[Chosen, str] = {}
        """Who could not be made when it was tried last, and why."""
        self._refusals = RefusalMemory()
        self._held: list[NominatedPod] = []
        """Nominated pods that are on their nodes while a pod is decided about."""

    def decider(self, chosen: Chosen) -> Decider:
        """Who decides so, made and warmed up at the first use; an error where a policy is not known."""
        decider = self._deciders.get(chosen)
        if decider is None:
            if chosen in self._unfit:
                raise WorkError(self._unfit[chosen])
            decider = self.made(chosen)
            self.adopt(decider)
        return decider

    def made(self, chosen: Chosen) -> Decider:
        """A decider that is ready to be adopted; it changes nothing here, so that any thread may ask."""
        decider = self.load(chosen)
        decider.warm_up()
        return decider

    def load(self, chosen: Chosen) -> Decider:
        """The same before it is warmed up, and kept nowhere; only what the operator lets others load."""
        admitted = admitted_choice(chosen, self._folders)
        return Decider(chosen, self.options.policies, self.options.seed, admitted, self._strangers)

    def knows(self, chosen: Chosen) -> bool:
        """Whether `decider` has it ready."""
        return chosen in self._deciders

    def adopt(self, decider: Decider) -> None:
        """A decider that was made and warmed up elsewhere."""
        self._unfit.pop(decider.chosen, None)
        self._deciders[decider.chosen] = decider
        self._give_back(decider.chosen)

    def give_up(self, chosen: Chosen, why: str) -> None:
        """It was tried elsewhere, and cannot be made; until the choice changes its pods are told so."""
        self._unfit[chosen] = why
        self._give_back(chosen)

    def gave_up(self, chosen: Chosen) -> bool:
        """Whether it is known that this one cannot decide."""
        return chosen in self._unfit

    def wanted(self) -> list[Chosen]:
        """Who is to decide about pods that wait, and is not ready: make it, then `adopt` or `give_up`."""
        return list(self._left)

    def _give_back(self, chosen: Chosen) -> None:
        for key in self._left.pop(chosen, ()):
            self.queue.give_back(key)

    def asks_apart(self) -> bool:
        """Whether an answer may take its time: somebody in a process of his own is asked."""
        return any(decider.apart for decider in self._deciders.values())

    def refusal(self, chosen: Chosen) -> str:
        """Why that cannot decide; "": it can."""
        try:
            for way in ways(chosen):
                self.decider(way)
        except (ProreusError, ImportError) as error:
            return str(error)
        return ""

    def forget_unused(self) -> None:
        """Only who was chosen is kept, and whom pods name; what could not be made may be tried again."""
        chosen = (*self.schedulers.chosen.values(), self.schedulers.default)
        used = {way for choice in chosen for way in ways(choice)} | self._named()
        for unused in [decider for decider in self._deciders if decider not in used]:
            self._deciders.pop(unused).close()
        self._unfit.clear()

    def _named(self) -> set[Chosen]:
        """Whom pods that are there ask for by the name of a rule or of a model."""
        names = {known.scheduler for known in self.picture.pods.values()}
        return {one for name in names if isinstance(one := self.schedulers.named(name), Chosen)}

    def fallbacks(self) -> Counter[str]:
        """How often the kube rules decided for another policy, by reason."""
        fallbacks: Counter[str] = Counter()
        for decider in self._deciders.values():
            fallbacks.update(decider.fallbacks)
        return fallbacks

    def failing(self) -> dict[str, dict[str, str]]:
        """By schedulerName: what was wrong with the last answers of its "policy" and its "shadow"."""
        chosen = {DEFAULT_SCHEDULER: self.schedulers.default, **self.schedulers.chosen}
        deciders = {name: self._deciders.get(choice) for name, choice in chosen.items()}
        return {
            name: dict(decider.failing)
            for name, decider in deciders.items()
            if decider is not None and decider.failing
        }

    def cycle(self, now: float, most: int = 1) -> list[Instruction]:
        """Decide about up to so many waiting pods."""
        self.forget_silent(now)
        instructions: list[Instruction] = self.complaints
        self.complaints = []
        instructions.extend(DelayPod(ref, message) for ref, message in self.unclaimed(now, most))
        for _ in range(most):
            key = self.queue.take(now)
            if key is None:
                break
            instruction = self._one(self.picture.pods[key], now)
            if instruction is not None:
                instructions.append(instruction)
        return instructions

    def not_done(self, event: InstructionFailed, now: float) -> None:
        """The pod waits again; it backs off, since what failed may fail again."""
        known = self.picture.pods.get(event.pod.key)
        if known is None:
            self.unheard(event.pod, now)
        if known is None or known.ref != event.pod:
            return
        if event.told_only:
            if not known.node:  # else it went somewhere meanwhile, and need not be told any more
                self._to_be_told_again(known, now)
            return
        if not (known.assumed or known.nominated):
            return
        self.counts["not done"] += 1
        if known.assumed:
            self._off_its_node(known, now)
        self.picture.nominate(known, "")
        self.queue.put(known.key, known.priority, now)
        self.queue.back_off(known.key, now)

    def _to_be_told_again(self, known: Known, now: float) -> None:
        """A pod in the pool backs off instead, and so does one that was rejected."""
        self.counts["not told"] += 1
        if known.key in self.queue:
            self.queue.back_off_again(known.key)
        else:
            self.queue.put(known.key, known.priority, now)
            self.queue.back_off(known.key, now)

    def _one(self, known: Known, now: float) -> Instruction | None:
        """Steps 2 to 6 for one pod; None where it is left for later, since who decides is not ready."""
        if known.trouble:
            return self._to_wait(known, now, known.trouble)
        if not self.picture.has_nodes():
            return self._to_wait(known, now, "no nodes available to schedule pods")
        if known.template.needs.refused:
            return self._to_wait(known, now, nowhere(known.template.needs.refused, len(self.picture.nodes())))
        chosen = self.schedulers.for_pod(known.scheduler, known.ref)
        assert chosen is not None, "others' pods are not queued"
        if isinstance(chosen, Untrained):
            return self._to_wait(known, now, chosen.told)
        if not self._makes and chosen not in self._deciders and chosen not in self._unfit:
            self._left.setdefault(chosen, []).append(known.key)
            return None
        try:
            decider = self.decider(chosen)
        except (ProreusError, ImportError) as error:  # a checkpoint that cannot be read, an extra not there
            return self._to_wait(known, now, f"policy {chosen.policy}: {error}")
        self._held = (
            in_the_way(self.picture, known, lambda: self._observe(known, now))
            if self.picture.nominated
            else []
        )
        with held(self.picture, self._held):
            return self._decided(known, decider, now)

    def _observe(self, known: Known, now: float) -> PodObservation:
        return self.picture.cluster.observe(known.key, max(0, len(self.queue) - 1), now)

    def _decided(self, known: Known, decider: Decider, now: float) -> Instruction:
        observation = self._observe(known, now)
        if known.nominated in self.picture.cluster.node_names():
            n = self.picture.cluster.node_at(known.nominated)
            if not observation.refusal(n):
                answer = LegalDecision(model.Place(n))
                return self._carry_out(known, (answer, Fallback("nominated"), None), decider, observation)
        try:
            answer, fallback = decider.decide(observation)
        except Stuck as stuck:
            observation = self._observe_anew(known, now)
            answer, fallback = decider.by_rule(observation), Fallback("deadline", str(stuck))
        try:
            shadow = decider.by_shadow(observation)
        except Stuck:
            shadow, observation = None, self._observe_anew(known, now)
        for message in decider.take_news():
            self.complaints.append(Complain(known.object, message, "PolicyFailed"))
        if shadow is not None:
            difference = self.differences.setdefault(known.scheduler, ShadowDifferences())
            difference.note(known.key, now, (answer, shadow), observation)
        return self._carry_out(known, (answer, fallback, shadow), decider, observation)

    def start_over(self, now: float) -> None:
        """Leave the columns to whoever may still be at work on them, and go on with the same content."""
        self.picture.rebuild()
        self.queue.wake(self.queue.groups(), now)  # groups are classes, and these are numbered anew

    def _observe_anew(self, known: Known, now: float) -> PodObservation:
        """After a policy got stuck."""
        self.start_over(now)
        hold(self.picture, self._held)
        return self._observe(known, now)

    def _carry_out(
        self,
        known: Known,
        made: tuple[LegalDecision, Fallback, LegalDecision | None],
        decider: Decider,
        observation: PodObservation,
    ) -> Instruction:
        """Steps 5 and 6; made: the answer, why another than the policy gave it, the shadow's answer."""
        answer, fallback, shadow = made
        refusals = self._refusals.refusals_of(observation, known.template)
        match answer.decision:
            case model.Place(node=n, devices=devices):
                nodes = observation.compiled.workload.nodes
                beside = None
                if shadow is not None:
                    would = changes(
                        *(effect_of(legal_decision, observation) for legal_decision in (answer, shadow))
                    )
                    beside = (decider.chosen.shadow, shadow.decision, would)
                account = decider.account(answer, fallback, observation)
                took = None if fallback.reason == "nominated" else decider.milliseconds
                reasons = Reasons(
                    decider.chosen.policy, fallback, refusals, beside, account, decider.version, took
                )
                noted = annotation(answer, reasons, observation)
                return self._to_bind(known, (nodes[n].name, devices), noted, observation.now)
            case model.Preempt(node=n):
                node = observation.compiled.workload.nodes[n].name
                if self.picture.terminating_on(known.nominated, known.priority):
                    return self._has_to_wait(known, observation, refusals, terminating=True)
                return self._to_preempt(known, node, answer.victims, unavailable(refusals), observation.now)
            case model.Delay():
                return self._has_to_wait(known, observation, refusals, terminating=False)
            case model.Reject():
                self.counts["rejected"] += 1
                self.queue.drop(known.key)
                self.picture.nominate(known, "")
                return RejectPod(known.ref, f"policy {decider.chosen.policy} rejects the pod as it is")
            case _:
                assert_never(answer.decision)

    def _to_bind(
        self, known: Known, place: tuple[str, int], decision: dict[str, Any], now: float
    ) -> Instruction:
        node, devices = place
        annotations = {DECISION: annotation_text(decision)}
        known.devices, known.since, known.assumed = devices, now, True
        self.queue.drop(known.key)
        self.picture.move(known, node)
        self._came(known, now)
        if known.template.spec.gpu.count:
            known.devices = self.picture.cluster.devices_of(known.key)
            annotations[DEVICES] = devices_text(known.devices)
        self.counts["bound"] += 1
        volumes: tuple[VolumeAction, ...] = ()
        if known.has_volumes and known.template.needs.waits:
            volumes = self.volumes.reserve(known.object, self.picture.node(node))
            self._volumes_changed(now)
        told = scheduled(known.key, node, scores_told(decision))
        return BindPodTo(known.ref, node, annotations, told, volumes)

    def _to_preempt(
        self, known: Known, node: str, victims: Sequence[str], message: str, now: float
    ) -> Instruction:
        self.counts["preempted"] += 1
        self.counts["victims"] += len(victims)
        lower = [
            other
            for other in self.picture.nominated.values()
            if other.nominated == node and other.priority < known.priority
        ]
        for other in lower:
            self.picture.nominate(other, "")
            self.queue.wake_pod(other.key, now)
        self.picture.nominate(known, node)
        self._to_pool(known, now)
        refs = tuple(self.picture.pods[victim].ref for victim in victims)
        return PreemptFor(known.ref, node, refs, message, tuple(other.ref for other in lower))

    def _has_to_wait(
        self, known: Known, observation: PodObservation, refusals: Refusals, *, terminating: bool
    ) -> Instruction:
        """No node, or the policy prefers to wait though there is one."""
        now = observation.now
        if refusals.feasible:
            self.counts["delayed"] += 1
            self.queue.back_off(known.key, now)
            return DelayPod(
                known.ref, f"{refusals.feasible}/{len(refusals.codes)} nodes are available: the policy waits."
            )
        victims = without_victims(observation, terminating=terminating)
        return self._to_wait(known, now, f"{unavailable(refusals)} {victims}", keep=terminating)

    def _to_wait(self, known: Known, now: float, message: str, *, keep: bool = False) -> Instruction:
        """Into the pool; keep: the pod still waits for its nominated node."""
        self.counts["unschedulable"] += 1
        clear = bool(known.nominated) and not keep
        if clear:
            self.picture.nominate(known, "")
        self._to_pool(known, now)
        return DelayPod(known.ref, message, clear)

    def _to_pool(self, known: Known, now: float) -> None:
        group, _ = self.picture.cluster.rows_of(known.key)
        self.queue.to_pool(known.key, group, now)
