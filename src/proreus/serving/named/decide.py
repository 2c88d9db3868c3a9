"""Decisions in named fields, by a size-free policy of the catalogue, for a cluster of any size.

Each request describes its cluster anew and is answered alone: a policy keeps no memory from one to the
next, and a tie that goes by lot is drawn from a digest of the request, so that the same request gets the
same answer.
"""

from __future__ import annotations

import logging
import zlib
from typing import Literal, assert_never

import msgspec

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject, meant, to_action
from proreus.model.errors import IllegalDecision, InputError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.policies.protocol import Explains, Explanation
from proreus.serving.deadline import Guard, TooSlow
from proreus.serving.metrics import Measurements
from proreus.serving.named.cost import MOST_UNITS, check_cost
from proreus.serving.named.wire import DecideAnswer, DecideRequest, VerdictWire, to_nodes, to_pod
from proreus.serving.values import invalid, shortened
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.explaining import PodPolicy
from proreus.worlds.pods.state.described import NodeNow, Running, observe
from proreus.worlds.pods.state.observation import PodObservation

RULE = "kube"
"""Decides where the policy fails or is too slow."""
_log = logging.getLogger(__name__)


class NamedDecisions:
    """Answers /v1/decide."""

    def __init__(
        self,
        policy: str,
        deadline_seconds: float,
        measurements: Measurements,
        most_units: float = MOST_UNITS,
    ) -> None:
        """most_units: see `cost`."""
        self._most_units = most_units
        self.policy = make_policy(policy)
        self._rule = make_policy(RULE)
        self._deadline = deadline_seconds
        self._guard = Guard()
        self._measurements = measurements

    def warm_up(self) -> None:
        """Compile before the first request asks."""
        node = NodeNow(Node("node", Resources(cpu=1000, memory=GIB, pods=10)))
        there = NodeNow(node.node, (Running(Pod("there", PodSpec(Resources(cpu=100)))),))
        observation = observe([there], Pod("pod", PodSpec(Resources(cpu=100))))
        for policy in (self._rule, self.policy):
            answer(policy, observation, meant(policy.decide(observation), 1), explain=True)
        self._guard.learn_pace(lambda: self.policy.fresh(0).decide(observation))

    def decide(self, request: DecideRequest, digest: int, seconds_left: float) -> DecideAnswer:
        """Decide about the pod; `digest` stands for the request's bytes."""
        check_cost(request, self._most_units)
        nodes = to_nodes(request)
        try:
            observation = observe(nodes, to_pod(request.pod, "pod"), request.waiting)
        except InputError as error:
            raise invalid("nodes", str(error)) from error
        policy = self.policy.fresh(digest)
        try:
            # The deadline is for the decision; its reasons take as long as they take.
            made = self._guard.run(lambda: policy.decide(observation), min(self._deadline, seconds_left))
            decision = meant(made, len(nodes))  # a policy of one's own may answer with a number
            return answer(self.policy.fresh(digest), observation, decision, explain=request.explain)
        except Exception as error:  # noqa: BLE001 - whatever a policy does, there is an answer
            reason = "deadline" if isinstance(error, TooSlow) else "error"
            self._measurements.count("proreus_fallbacks", reason=reason)
            _log.warning("%s decided for %s: %s", RULE, self.policy.name, shortened(str(error)))
        # What is too slow may still be at work on its observation.
        again = observe(nodes, observation.subject, request.waiting)
        decision = self._rule.fresh(digest).decide(again)
        found = answer(self._rule.fresh(digest), again, decision, explain=request.explain)
        return msgspec.structs.replace(found, decided_by="rule")


def request_digest(body: bytes | bytearray) -> int:
    """What ties are drawn from."""
    return zlib.crc32(body)


def answer(
    policy: PodPolicy, observation: PodObservation, decision: Decision, *, explain: bool
) -> DecideAnswer:
    """A decision in words, checked against the rules, with the reasons of the policy that made it."""
    names = [node.name for node in observation.compiled.workload.nodes]
    node, victims, devices = _carried_out(decision, observation)
    explanation = policy.explain(observation) if explain and isinstance(policy, Explains) else None
    return DecideAnswer(
        decision=_word(decision),
        node=None if node is None else names[node],
        action=to_action(decision, len(names)),
        devices=devices,
        victims=victims,
        policy=policy.name,
        decided_by="policy",
        note="" if explanation is None else explanation.note,
        verdicts=None if explanation is None else _verdicts(explanation),
    )


def _carried_out(decision: Decision, observation: PodObservation) -> tuple[int | None, list[str], list[int]]:
    """(node, pods to evict, GPUs) of a decision; what the rules forbid is an error."""
    match decision:
        case Place(node=node, devices=mask):
            if observation.refusals()[node]:
                raise IllegalDecision(f"{decision}: the pod may not go there")
            return node, [], [device for device in range(mask.bit_length()) if mask >> device & 1]
        case Preempt(node=node):
            found = observation.victims(node)
            if found is None:
                raise IllegalDecision(f"{decision}: no eviction helps there")
            pods = observation.compiled.workload.pods
            return node, [pods[victim].name for victim in found[0]], []
        case Delay() | Reject():
            return None, [], []
        case _:
            assert_never(decision)


def _word(decision: Decision) -> Literal["place", "preempt", "delay", "reject"]:
    match decision:
        case Place():
            return "place"
        case Preempt():
            return "preempt"
        case Delay():
            return "delay"
        case Reject():
            return "reject"
        case _:
            assert_never(decision)


def _verdicts(explanation: Explanation) -> list[VerdictWire]:
    return [VerdictWire(v.place, v.refused_by, v.scores, v.total) for v in explanation.verdicts]
