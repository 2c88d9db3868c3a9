"""What an extender answers, over a `ClusterView` and a policy that is asked within its time.

kube-scheduler's own filters stand before every question, so that nothing here can put a pod where they forbid
it: `filter` can only take nodes away, `prioritize` can only order those that are left. Where the policy is
slow, unsure, wrong or fails, where the pod cannot be read, and until the cluster is known, every node is
liked equally, and kube-scheduler decides as if nobody had been asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from proreus.engine.scheduler.decider import GuardedPolicy, LegalDecision, Stuck, Unsure
from proreus.engine.scheduler.messages import DEVICES, devices_text
from proreus.kubeagents.cluster_view import UNREADABLE, ClusterView
from proreus.kubeagents.extender.messages import (
    MOST_NODES,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    NodeList,
    meta_victims,
    names_of,
)
from proreus.kubeagents.extender.scores import NEUTRAL, priorities
from proreus.model.decision import Place
from proreus.model.errors import IllegalDecision, InputError, ProreusError
from proreus.policies.deadline import TooSlow
from proreus.policies.isolated_policy import PolicyResting
from proreus.worlds.pods.state.filters import CURABLE, FILTERS, GPU, GPU_NEVER, OK
from proreus.worlds.pods.state.observation import PodObservation

Object = dict[str, Any]
Filters = Literal["gpu", "all"]
_OWN = frozenset({GPU, GPU_NEVER})
"""What kube-scheduler knows nothing of: shares and models of GPUs."""
Bind = Callable[[tuple[str, str, str], str, dict[str, str]], None]
"""Writes the node of a pod (namespace, name, uid) down; a ProreusError where that fails."""
_SEEN_SECONDS = 30.0
"""After which a binding that was written must have come back through the watch."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExtenderOptions:
    """How an extender answers."""

    filters: Filters = "gpu"
    """Which refusals of ours count: those that kube-scheduler cannot know of, or all."""
    assume_seconds: float = 2.0
    """How long the pod is believed to have gone to the node that was liked best; 0: not at all."""


@dataclass(frozen=True)
class Scored:
    """An answer to prioritize."""

    priorities: list[HostPriority]
    neutral: str = ""
    """Why every node is liked equally; "": the policy had its say."""


class Extender:
    """Answers the four verbs."""

    def __init__(
        self,
        view: ClusterView,
        policy: GuardedPolicy,
        options: ExtenderOptions | None = None,
        bind: Bind | None = None,
    ) -> None:
        """bind: None: pods are bound by kube-scheduler itself."""
        self.view, self._policy, self._bind = view, policy, bind
        self.options = options or ExtenderOptions()
        self.ready: Callable[[], bool] = lambda: True
        """Whether the cluster is known."""

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Take away the nodes that may not take the pod."""
        names = _checked(names_of(args))
        refusals = self._refusals(args.Pod, names)
        failed: dict[str, str] = {}
        never: dict[str, str] = {}
        for name, code in refusals.items():
            plugin, says, _ = FILTERS[code]
            (failed if CURABLE[code] else never)[name] = f"{plugin}: {says}"
        if args.NodeNames is not None:
            left = [name for name in names if name not in refusals] if refusals else names
            return ExtenderFilterResult(None, left, failed, never)
        items = [
            item
            for name, item in zip(names, (args.Nodes.items if args.Nodes else None) or (), strict=True)
            if name not in refusals
        ]
        return ExtenderFilterResult(NodeList(items), None, failed, never)

    def _refusals(self, pod: Object, names: list[str]) -> dict[str, int]:
        """The nodes that are refused, with the code of the filter."""
        if not self.ready():
            return {}
        with self.view.lock:
            try:
                observation = self.view.observe(pod)
            except UNREADABLE as error:
                _log.info("filter: the pod is left to kube-scheduler: %s", error)
                return {}
            counted = _OWN if self.options.filters == "gpu" else frozenset(FILTERS)
            if self.options.filters == "gpu" and not observation.subject.spec.gpu.count:
                return {}
            codes, rows = observation.refusals().tolist(), self.view.rows()
        # A node that we have not heard of yet is kube-scheduler's to judge.
        known = ((name, codes[row]) for name in names if (row := rows.get(name)) is not None)
        return {name: code for name, code in known if code != OK and code in counted}

    def prioritize(self, args: ExtenderArgs) -> Scored:
        """How much the policy likes each node."""
        names = _checked(names_of(args))
        if not self.ready():
            return _equal(names, "the cluster is not known yet")
        with self.view.lock:
            try:
                observation = self.view.observe(args.Pod)
                answer = self._asked(observation)
            except _NotNow as why:
                return _equal(names, str(why))
            except UNREADABLE as error:
                return _equal(names, f"unreadable: {error}")
            rows = self.view.rows()
            chosen = answer.decision.node if isinstance(answer.decision, Place) else -1
            asked = np.fromiter((rows.get(name, -1) for name in names), np.int64, len(names))
            scores = priorities(asked, chosen, (answer.nodes, answer.scores))
            if not any(scores):
                return _equal(names, "none of these nodes")
            if self.options.assume_seconds > 0:
                self.view.assume(args.Pod, names[scores.index(max(scores))], self.options.assume_seconds)
        return Scored([HostPriority(name, score) for name, score in zip(names, scores, strict=True)])

    def _asked(self, observation: PodObservation) -> LegalDecision:
        """The policy's answer; a `_NotNow` says why there is none."""
        policy = self._policy
        if policy.resting():
            raise _NotNow("resting")
        try:
            if doubt := policy.doubt(observation):
                raise _NotNow(f"unsure: {doubt}")
            return policy.ask(observation)
        except _NotNow:
            raise
        except Stuck as stuck:
            self.view.start_over()
            raise _NotNow(f"deadline: {stuck}") from stuck
        except TooSlow as error:
            raise _NotNow(f"deadline: {error}") from error
        except PolicyResting as error:
            raise _NotNow(f"resting: {error}") from error
        except Unsure as error:
            raise _NotNow(f"unsure: {error}") from error
        except IllegalDecision as error:
            raise _NotNow(f"wrong: {error}") from error
        except Exception as error:  # whatever a policy does, kube-scheduler goes on
            raise _NotNow(f"error: {type(error).__name__}: {error}") from error

    def preempt(self, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """Leave out nodes on which no eviction gives a pod the GPUs that it asks for."""
        victims = meta_victims(args)
        _checked(list(victims))
        if not self.ready():
            return ExtenderPreemptionResult(victims)
        with self.view.lock:
            try:
                observation = self.view.observe(args.Pod)
            except UNREADABLE:
                return ExtenderPreemptionResult(victims)
            if not observation.subject.spec.gpu.count:
                return ExtenderPreemptionResult(victims)
            rows = self.view.rows()
            left = {
                name: told
                for name, told in victims.items()
                if (row := rows.get(name)) is None
                or observation.refusal(row) == OK
                or observation.victims(row) is not None
            }
        return ExtenderPreemptionResult(left)

    def bind(self, args: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Give the pod its node, and the GPUs that it asked for their numbers."""
        if self._bind is None:
            return ExtenderBindingResult("this extender does not bind: start it with --bind")
        pod = {"metadata": {"namespace": args.PodNamespace, "name": args.PodName, "uid": args.PodUID}}
        annotations: dict[str, str] = {}
        with self.view.lock:
            key = f"{args.PodNamespace}/{args.PodName}"
            known = self.view.known.get(key)
            if known is not None and known.template.spec.gpu.count:
                self.view.assume(pod, args.Node, _SEEN_SECONDS)
                if known.node == args.Node:
                    annotations[DEVICES] = devices_text(self.view.cluster.devices_of(key))
        try:
            self._bind((args.PodNamespace, args.PodName, args.PodUID), args.Node, annotations)
        except ProreusError as error:
            return ExtenderBindingResult(str(error))
        return ExtenderBindingResult()


class _NotNow(Exception):
    """The policy has no say this time."""


def _equal(names: list[str], why: str) -> Scored:
    return Scored([HostPriority(name, NEUTRAL) for name in names], why)


def _checked(names: list[str]) -> list[str]:
    if len(names) > MOST_NODES:
        raise InputError(f"{len(names)} nodes, more than {MOST_NODES}", field="Nodes")
    return names
