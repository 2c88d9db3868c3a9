"""Decisions in named fields, by a size-free policy of the catalogue, for a cluster of any size.

A request that describes its cluster anew is answered alone: a policy keeps no memory from one to the next,
and a tie that goes by lot is drawn from a digest of the request, so that the same request gets the same
answer. A request within a session (`sessions`) says what has changed, and its policy remembers.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import msgspec

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject, meant, to_action
from proreus.model.errors import IllegalDecision, InputError, WorkError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import DisruptionBudget
from proreus.policies.deadline import Guard, TooSlow
from proreus.policies.isolated_policy import IsolatedPolicy, Made, PolicyResting
from proreus.policies.protocol import Explains, Explanation
from proreus.serving.cluster_api.changes import to_budget
from proreus.serving.cluster_api.cost import MOST_UNITS, check_cost
from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest, VerdictWire
from proreus.serving.cluster_api.schema import to_nodes, to_pod
from proreus.serving.cluster_api.sessions import Session, Sessions, nodes_now
from proreus.serving.messages import invalid, shortened
from proreus.serving.metrics import Measurements
from proreus.worlds.pods.policies.catalogue import POLICIES, make_policy
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.wire_format import check_devices, pod_strangers
from proreus.worlds.pods.state.described_cluster import NodeNow, Running, observe
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.warm_up import warm_up_open

RULE = "kube"
"""Decides where the policy fails or is too slow."""
NOTED = DecideAnswer("none", None, -1, [], [], "", "policy", "", None)
"""The answer where changes were told and no pod was asked about."""
_WARM_UP_SECONDS = 30.0
"""For a policy from elsewhere, which compiles at its first answer, or does whatever it likes."""
_log = logging.getLogger(__name__)


class _Unsure(Exception):
    """The policy would rather not decide."""


@dataclass(frozen=True)
class _Asked:
    """A question to a policy."""

    policy: PodPolicy
    observation: PodObservation
    reasons: Callable[[], Explanation | None]
    """Asked for once the decision is there."""


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
        self._strangers = pod_strangers()
        """Code from elsewhere runs in a process of its own."""
        self.policy: PodPolicy = (
            make_policy(policy) if POLICIES.is_own(policy) else self._strangers.policy(policy, 0)
        )
        self._rule = make_policy(RULE)
        self._deadline = deadline_seconds
        self._guard = Guard()
        self._measurements = measurements
        self._sessions = Sessions()
        self.trouble = ""
        """Why somebody else than the policy decided last; "": it did itself."""
        if isinstance(self.policy, IsolatedPolicy):
            host = self.policy.host
            measurements.gauge(
                "proreus_policy_replaced",
                "How often the process of a policy from elsewhere was ended.",
                lambda: host.replaced,
            )
        measurements.gauge(
            "proreus_sessions", "Clusters that are kept between questions.", lambda: len(self._sessions)
        )

    def warm_up(self) -> None:
        """Compile before the first request asks."""
        node = NodeNow(Node("node", Resources(cpu=1000, memory=GIB, pods=10)))
        pod = Pod("pod", PodSpec(Resources(cpu=100)))
        there = NodeNow(node.node, (Running(Pod("there", PodSpec(Resources(cpu=100)))),))
        observation = observe([there], pod)
        own = [self._rule]
        if isinstance(self.policy, IsolatedPolicy):
            try:
                self.policy.fresh(0).within(observation, _WARM_UP_SECONDS, reasons=True)
            except (TooSlow, PolicyResting) as error:
                raise WorkError(f"policy {self.policy.name}: {error}") from None
        else:
            own.append(self.policy)
            self._guard.learn_pace(lambda: self.policy.fresh(0).decide(observation))
        for policy in own:
            reasons = policy.explain(observation) if isinstance(policy, Explains) else None
            answer(policy.name, observation, meant(policy.decide(observation), 1), reasons)
        warm_up_open()

    def close(self) -> None:
        """End what runs elsewhere; who waits for it is told at once."""
        self._strangers.close()

    def decide(self, request: DecideRequest, digest: int, seconds_left: float) -> DecideAnswer:
        """Decide about the pod; `digest` stands for the request's bytes."""
        if request.session:
            return self._in_session(request, seconds_left)
        for name, given in (("changes", request.changes), ("generation", request.generation)):
            if given:
                raise invalid(name, "comes with a session")
        if not request.nodes:
            raise invalid("nodes", "a cluster has at least one node")
        check_cost(request, self._most_units)
        budgets = tuple(to_budget(wire, f"budgets[{k}]") for k, wire in enumerate(request.budgets))
        if request.keep:
            return self._opened(request, budgets, digest, seconds_left)
        if request.bind:
            raise invalid("bind", "comes with a session")
        if request.pod is None:
            raise invalid("pod", "is missing")
        nodes = to_nodes(request.nodes)
        try:
            observation = observe(nodes, to_pod(request.pod, "pod"), request.waiting, budgets)
        except InputError as error:
            raise invalid("nodes", str(error)) from error
        explainer = self.policy.fresh(digest)  # deciding may change the memory of a policy
        asked = _Asked(
            self.policy.fresh(digest), observation, lambda: _reasons(explainer, observation, request)
        )
        decide_answer = self._guarded(asked, seconds_left, explain=request.explain)
        if decide_answer is not None:
            return decide_answer
        if isinstance(self.policy, IsolatedPolicy):  # it was shown a copy
            return self._by_rule(observation, digest, request)
        # What is too slow may still be at work on its observation.
        return self._by_rule(observe(nodes, observation.subject, request.waiting, budgets), digest, request)

    def _opened(
        self,
        request: DecideRequest,
        budgets: Sequence[DisruptionBudget],
        digest: int,
        seconds_left: float,
    ) -> DecideAnswer:
        """Keep the cluster, then decide in it."""
        try:
            session = self._sessions.open(to_nodes(request.nodes), budgets, self.policy.fresh(digest))
        except InputError as error:
            raise invalid("nodes", str(error)) from error
        with session.lock:
            return self._asked(session, request, seconds_left)

    def _in_session(self, request: DecideRequest, seconds_left: float) -> DecideAnswer:
        """Take note of what has changed, then decide."""
        for name, given in (("nodes", request.nodes), ("budgets", request.budgets), ("keep", request.keep)):
            if given:
                raise invalid(name, "does not come with a session: send changes")
        session = self._sessions.named(request.session)
        with session.lock:
            session.expect(request.generation)
            check_cost(request, self._most_units, session.kept())
            session.apply(request.changes)
            return self._asked(session, request, seconds_left)

    def _asked(self, session: Session, request: DecideRequest, seconds_left: float) -> DecideAnswer:
        """Decide in a session whose lock is held."""
        if request.pod is None:
            return msgspec.structs.replace(
                NOTED, policy=self.policy.name, session=session.name, generation=session.generation
            )
        pod = to_pod(request.pod, "pod")
        observation = session.cluster.observe(pod, request.waiting)
        # Before the decision, which changes the memory that the reasons are about.
        reasons = _reasons(session.policy, observation, request)
        asked = _Asked(session.policy, observation, lambda: reasons)
        decide_answer = self._guarded(asked, seconds_left, explain=request.explain)
        if decide_answer is None and isinstance(session.policy, IsolatedPolicy):  # it was shown a copy
            decide_answer = self._by_rule(observation, session.generation, request)
        if decide_answer is None:
            # The policy may still be at work on the arrays of the session: nobody may go on with them.
            self._sessions.close(session)
            there = session.cluster.snapshot()
            again = observe(nodes_now(there), pod, request.waiting, there.budgets)
            return self._by_rule(again, session.generation, request)
        if request.bind:
            session.carry_out(decide_answer, pod)
        return msgspec.structs.replace(decide_answer, session=session.name, generation=session.generation)

    def _guarded(self, asked: _Asked, seconds_left: float, *, explain: bool) -> DecideAnswer | None:
        """The policy's answer; None where it fails, is too slow, or rests."""
        policy, observation = asked.policy, asked.observation
        try:
            if isinstance(policy, IsolatedPolicy):
                made = self._apart(policy, observation, seconds_left, explain=explain)
                answered = answer(policy.name, observation, made.decision, made.explanation)
                self.trouble = ""
                return answered
            # The deadline is for the decision; its reasons take as long as they take.
            decided = self._guard.run(lambda: policy.decide(observation), min(self._deadline, seconds_left))
            # A policy of one's own may answer with a number.
            decision = meant(decided, len(observation.compiled.workload.nodes))
            answered = answer(policy.name, observation, decision, asked.reasons())
            self.trouble = ""
            return answered
        except PolicyResting as error:
            reason, why = "resting", str(error)
        except _Unsure as error:
            reason, why = "unsure", str(error)
        except TooSlow as error:
            reason, why = "deadline", str(error)
        except Exception as error:  # noqa: BLE001 - whatever a policy does, there is an answer
            reason, why = "error", str(error)
        if reason != "unsure":
            self.trouble = f"policy {self.policy.name}: {shortened(why)} ({reason})"
        self._measurements.count("proreus_fallbacks", reason=reason)
        so_far = self._measurements.counted("proreus_fallbacks", reason=reason)
        if so_far & (so_far - 1) == 0:  # the 1st, 2nd, 4th, 8th: a policy that stays broken fills no disk
            told = (RULE, self.policy.name, reason, so_far, shortened(why))
            _log.warning("%s decided for %s (%s, %d times so far): %s", *told)
        return None

    def _apart(
        self, policy: IsolatedPolicy, observation: PodObservation, seconds_left: float, *, explain: bool
    ) -> Made:
        """The policy has its whole deadline: it is not replaced because somebody is in a hurry."""
        if seconds_left <= 0:
            raise TooSlow("no time was left")
        made = policy.within(observation, self._deadline, reasons=explain)
        if made.unsure:
            raise _Unsure(made.unsure)
        return made

    def _by_rule(self, observation: PodObservation, seed: int, request: DecideRequest) -> DecideAnswer:
        decision = self._rule.fresh(seed).decide(observation)
        reasons = _reasons(self._rule.fresh(seed), observation, request)
        decide_answer = answer(self._rule.name, observation, decision, reasons)
        return msgspec.structs.replace(decide_answer, decided_by="rule")


def request_digest(body: bytes | bytearray) -> int:
    """What ties are drawn from."""
    return zlib.crc32(body)


def _reasons(policy: PodPolicy, observation: PodObservation, request: DecideRequest) -> Explanation | None:
    return policy.explain(observation) if request.explain and isinstance(policy, Explains) else None


def answer(
    policy: str, observation: PodObservation, decision: Decision, reasons: Explanation | None = None
) -> DecideAnswer:
    """A decision in words, checked against the rules, with the reasons of the policy that made it."""
    nodes = observation.compiled.workload.nodes
    node, victims, devices = _carried_out(decision, observation)
    return DecideAnswer(
        decision=_word(decision),
        node=None if node is None else nodes[node].name,
        action=to_action(decision, len(nodes)),
        devices=devices,
        victims=victims,
        policy=policy,
        decided_by="policy",
        note="" if reasons is None else reasons.note,
        verdicts=None if reasons is None else _verdicts(reasons),
    )


def _carried_out(decision: Decision, observation: PodObservation) -> tuple[int | None, list[str], list[int]]:
    """(node, pods to evict, GPUs) of a decision; what the rules forbid is an error."""
    match decision:
        case Place(node=node, devices=mask):
            if not 0 <= node < len(observation.compiled.workload.nodes) or observation.refusal(node):
                raise IllegalDecision(f"{decision}: the pod may not go there")
            check_devices(decision, observation)
            return node, [], [device for device in range(mask.bit_length()) if mask >> device & 1]
        case Preempt(node=node):
            there = 0 <= node < len(observation.compiled.workload.nodes)
            victims = observation.victims(node) if there else None
            if victims is None:
                raise IllegalDecision(f"{decision}: no eviction helps there")
            pods = observation.compiled.workload.pods
            return node, [pods[victim].name for victim in victims[0]], []
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
