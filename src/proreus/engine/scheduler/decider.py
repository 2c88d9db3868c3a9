"""One question to a policy, whatever it does: in time, legal, or answered by the kube rules instead."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import assert_never, cast

import numpy as np

from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.profiles import RULE
from proreus.kernels.arrays import F64, I64
from proreus.model.decision import Decision, Delay, Place, Preempt, Reject, meant
from proreus.model.errors import IllegalDecision, ProreusError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.policies.checkpoint import CARD, read_card
from proreus.policies.deadline import Guard, TooSlow
from proreus.policies.isolated_policy import IsolatedPolicy, PolicyResting, Strangers
from proreus.policies.protocol import Doubts
from proreus.worlds.pods.policies.catalogue import POLICIES, PolicyOptions, make_policy
from proreus.worlds.pods.policies.explanation import (
    Bids,
    DecidesWithBids,
    Factors,
    PodPolicy,
    chosen_and_next,
)
from proreus.worlds.pods.policies.wire_format import check_devices
from proreus.worlds.pods.state.filters import OK
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.warm_up import warm_up_open

_LONGEST_REST = 4096
"""Decisions for which a policy that was too slow again and again is not asked."""
_SHARE_TO_THINK = 0.2
"""Of the deadline: what a policy that plans may use of it, so that it is asked at once and never late."""
_WARM_UP_SECONDS = 30.0
"""For a policy from elsewhere, which may do whatever it likes."""
_LONGEST_LINE = 300
_VERSION_DIGITS = 12
_NOBODY = np.zeros(0, dtype=np.int64)
_NOTHING = np.zeros(0)
_log = logging.getLogger(__name__)
_warm_up_cluster = cache(warm_up_open)


class Stuck(Exception):
    """A policy did not answer in time, and may still be at work on what it was shown."""


class Unsure(Exception):
    """A policy would rather not decide, and says why."""


@dataclass(frozen=True, eq=False, slots=True)
class LegalDecision:
    """A decision that the rules allow."""

    decision: Decision
    victims: tuple[str, ...] = ()
    """Of a preemption: the names of the pods to evict."""
    nodes: I64 = field(default_factory=lambda: _NOBODY)
    """That the policy looked at, where it says so."""
    scores: F64 = field(default_factory=lambda: _NOTHING)
    """Of these nodes."""


@dataclass(frozen=True, slots=True)
class Account:
    """The chosen node and the next best, where there is one, with what their scores are made of."""

    nodes: tuple[int, ...]
    scores: tuple[float, ...]
    factors: Mapping[str, tuple[float, ...]]
    """By name, of these nodes."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """Why another than the policy decided."""

    reason: str = ""
    """nominated, deadline, resting, unsure, wrong or error; "": the policy did decide."""
    why: str = ""
    """What it says itself, or what it raised."""


@dataclass(eq=False)
class GuardedPolicy:
    """A policy that is asked again and again, and left alone for a while where it was too slow."""

    name: str
    options: PolicyOptions
    seed: int
    deadline: float
    strangers: Strangers | None = None
    """Where policies from elsewhere run; None: in this process, where they may do whatever they like."""
    policy: PodPolicy = field(init=False)
    _guard: Guard = field(default_factory=Guard, init=False)
    _rest: int = field(default=0, init=False)
    _rests: int = field(default=0, init=False)
    _bids: bool = field(default=False, init=False)
    _bids_too: bool = field(default=False, init=False)
    _doubts: bool = field(default=False, init=False)
    _factors: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        options = self.options
        if options.deadline == 0 and self.deadline < math.inf:
            # One that plans stops by itself, in time for its answer to count.
            options = replace(options, deadline=_SHARE_TO_THINK * self.deadline * 1e3)
        if self.strangers is not None and not POLICIES.is_own(self.name):
            self.policy = self.strangers.policy(self.name, self.seed)
        else:
            self.policy = make_policy(self.name, options, self.seed)
        # Asked once: to look through a class for methods takes longer than to decide.
        self._bids, self._doubts = isinstance(self.policy, Bids), isinstance(self.policy, Doubts)
        self._bids_too = isinstance(self.policy, DecidesWithBids)
        self._factors = isinstance(self.policy, Factors)

    def warm_up(self) -> str:
        """Compile, and learn how long it takes, before a pod waits for it; what it missed, where it did."""
        _warm_up_cluster()
        cluster = OpenCluster()
        cluster.add_node(Node("node", Resources(cpu=1000, memory=GIB, pods=10)))
        cluster.add_pod(Pod("there", PodSpec(Resources(cpu=100))), "node")
        observation = cluster.observe(Pod("pod", PodSpec(Resources(cpu=100))))
        policy = self.policy.fresh(self.seed)
        if isinstance(policy, IsolatedPolicy):
            return self._warm_up_apart(policy, observation)
        if POLICIES.is_own(self.name):  # compiles for as long as it takes, and ends
            self._compute(policy, observation)
            self._guard.learn_pace(lambda: self._compute(policy, observation))
            return ""
        try:
            for _ in range(2):  # the first time it compiles
                self._guard.run(lambda: self._compute(policy, observation), _WARM_UP_SECONDS)
        except TooSlow:
            return f"has not answered for {_WARM_UP_SECONDS:g} s; until it does the kube rules decide"
        except Exception as error:  # noqa: BLE001 - the first decision will show it too, and count it
            _log.warning("policy %s fails on a cluster of one node: %s", self.name, error)
        return ""

    def _warm_up_apart(self, policy: IsolatedPolicy, observation: PodObservation) -> str:
        """The first time it compiles over there."""
        try:
            for _ in range(2):
                policy.within(observation, _WARM_UP_SECONDS)
        except (TooSlow, PolicyResting) as error:
            return f"while it was warmed up: {_line(str(error))}"
        except ProreusError as error:  # the first decision will show it too, and count it
            _log.warning("policy %s fails on a cluster of one node: %s", self.name, error)
        return ""

    def close(self) -> None:
        """Nobody asks it any more."""
        if isinstance(self.policy, IsolatedPolicy) and self.strangers is not None:
            self.strangers.release(self.name)

    @property
    def apart(self) -> bool:
        """Whether it is asked in a process of its own, so that an answer may take its time."""
        return isinstance(self.policy, IsolatedPolicy)

    def doubt(self, observation: PodObservation) -> str:
        """Why this is beyond what the policy was made for; "": it is not."""
        return cast("Doubts[PodObservation]", self.policy).unsure(observation) if self._doubts else ""

    def _compute(self, policy: PodPolicy, observation: PodObservation) -> tuple[object, I64, F64]:
        """(what the policy decides, nodes it looks at, their scores)."""
        if self._bids_too:
            return cast("DecidesWithBids", policy).decide_with_bids(observation)
        nodes, scores = cast("Bids", policy).bids(observation) if self._bids else (_NOBODY, _NOTHING)
        return policy.decide(observation), nodes, scores

    def factors(self, observation: PodObservation, looked_at: I64, of: I64) -> dict[str, F64]:
        """What the scores of looked_at[of] are made of, where the policy says so."""
        if not self._factors:
            return {}
        return cast("Factors", self.policy).factors(observation, looked_at, of)

    def resting(self) -> bool:
        """Whether it is left alone this time."""
        self._rest = max(0, self._rest - 1)
        return self._rest > 0

    def ask(self, observation: PodObservation) -> LegalDecision:
        """Its answer; raises `Stuck` or TooSlow where it is too slow, and whatever else it does wrong."""
        if isinstance(self.policy, IsolatedPolicy):
            answer = self.policy.within(observation, self.deadline)
            if answer.unsure:
                raise Unsure(answer.unsure)
            check_devices(answer.decision, observation)
            return checked(answer.decision, observation, (_NOBODY, _NOTHING))
        if self.deadline == math.inf:
            made, nodes, scores = self._compute(self.policy, observation)
        else:
            try:
                made, nodes, scores = self._guard.run(
                    lambda: self._compute(self.policy, observation), self.deadline
                )
            except TooSlow as error:
                self._rests = min(2 * self._rests + 1, _LONGEST_REST)
                self._rest = self._rests + 1
                self.policy = self.policy.fresh(self.seed)
                raise Stuck(str(error)) from None
            self._rests = 0
        return checked(meant(made, len(observation.compiled.workload.nodes)), observation, (nodes, scores))


class Decider:
    """Decides for one schedulerName."""

    def __init__(
        self,
        chosen: Chosen,
        options: PolicyOptions,
        seed: int,
        admitted: Chosen | None = None,
        strangers: Strangers | None = None,
    ) -> None:
        """A UsageError or InputError where a policy is not known. A stranger is loaded here, which may take
        half a minute: not for an event loop.

        admitted: what is loaded for what was chosen (`admitted_choice`); None: the same, as it stands.
        """
        self.chosen = chosen
        loaded = admitted or chosen
        deadline = chosen.deadline_ms / 1000.0
        self.shadow: GuardedPolicy | None = None
        self.rule = GuardedPolicy(RULE, options, seed, math.inf)
        self.policy = GuardedPolicy(loaded.policy, options, seed, deadline, strangers)
        try:
            if loaded.shadow:
                self.shadow = GuardedPolicy(loaded.shadow, options, seed, deadline, strangers)
        except BaseException:
            self.policy.close()
            raise
        self.fallbacks: dict[str, int] = {}
        """By reason."""
        self.failing: dict[str, str] = {}
        """What was wrong with the last answer of the "policy" and of the "shadow", where something was."""
        self._news: list[str] = []
        self.version = _version_of(loaded.policy)
        """Which weights the policy has; "": a rule has none."""
        self.milliseconds = 0.0
        """That the last decision took, with the rule's where it decided instead."""

    @property
    def apart(self) -> bool:
        """Whether somebody in a process of his own is asked."""
        return self.policy.apart or (self.shadow is not None and self.shadow.apart)

    def close(self) -> None:
        """Nobody asks it any more."""
        for asked in (self.policy, self.shadow):
            if asked is not None:
                asked.close()

    def warm_up(self) -> None:
        """Compile before the first pod waits for it."""
        # The rule first: who is made from its parts finds them compiled, within its time.
        self.rule.warm_up()
        for who, name, asked in (
            ("policy", self.chosen.policy, self.policy),
            ("shadow", self.chosen.shadow, self.shadow),
        ):
            trouble = "" if asked is None else asked.warm_up()
            if trouble:
                message = f"{who} {name}: {trouble}"
                _log.warning("%s", message)
                self.failing[who] = message
                self._news.append(message)  # with the first pod: nobody else is there to be told

    def decide(self, observation: PodObservation) -> tuple[LegalDecision, Fallback]:
        """The policy's answer, or that of the rule with the reason why; raises `Stuck`."""
        began = time.perf_counter()
        try:
            return self._decide(observation)
        finally:
            self.milliseconds = (time.perf_counter() - began) * 1e3

    def _decide(self, observation: PodObservation) -> tuple[LegalDecision, Fallback]:
        if self.policy.resting():
            return self.rule.ask(observation), Fallback("resting")
        try:
            doubt = self.policy.doubt(observation)
            if not doubt:
                answer = self.policy.ask(observation)
                self.failing.pop("policy", None)
                return answer, Fallback()
            fallback = Fallback("unsure", _line(doubt))
        except Stuck as stuck:
            self._note("deadline", _line(str(stuck)))
            raise
        except Unsure as unsure:
            fallback = Fallback("unsure", _line(str(unsure)))
        except TooSlow as error:  # it has seen a copy of what is here
            fallback = Fallback("deadline", _line(str(error)))
        except PolicyResting as resting:
            return self.rule.ask(observation), Fallback("resting", _line(str(resting)))
        except IllegalDecision as error:
            fallback = Fallback("wrong", _line(str(error)))
        except Exception as error:  # noqa: BLE001 - whatever a policy does, there is a decision
            fallback = Fallback("error", _raised(error, self.policy.name))
        self._note(fallback.reason, fallback.why)
        return self.rule.ask(observation), fallback

    def take_news(self) -> list[str]:
        """What there is to tell of failures, each once."""
        news, self._news = self._news, []
        return news

    def by_rule(self, observation: PodObservation) -> LegalDecision:
        """What the kube rules decide."""
        return self.rule.ask(observation)

    def account(
        self, answer: LegalDecision, fallback: Fallback, observation: PodObservation
    ) -> Account | None:
        """What the scores of the chosen node and of the next best are made of, where the policy says so."""
        if not isinstance(answer.decision, Place) or fallback.reason == "nominated":
            return None
        asked = self.rule if fallback.reason else self.policy
        looked_at, scores = answer.nodes, answer.scores
        if not len(looked_at):  # it gave no scores: those of all nodes that may take the pod
            looked_at = np.flatnonzero(observation.refusals() == OK)
            columns = asked.factors(observation, looked_at, np.arange(len(looked_at)))
            if not columns:
                return None
            scores = np.sum(list(columns.values()), axis=0)
        mine, best = chosen_and_next(looked_at, scores, answer.decision.node)
        if mine < 0:
            return None
        of = np.array([mine, best] if best >= 0 else [mine])
        columns = asked.factors(observation, looked_at, of)
        return Account(
            tuple(looked_at[of].tolist()),
            tuple(scores[of].tolist()),
            {name: tuple(column.tolist()) for name, column in columns.items()},
        )

    def by_shadow(self, observation: PodObservation) -> LegalDecision | None:
        """What the shadow would decide; None where there is none, or it fails; raises `Stuck`."""
        if self.shadow is None or self.shadow.resting():
            return None
        try:
            answer = self.shadow.ask(observation)
            self.failing.pop("shadow", None)
            return answer
        except Stuck as stuck:
            self._note("shadow", _line(str(stuck)))
            raise
        except (PolicyResting, Unsure):
            return None
        except Exception as error:  # noqa: BLE001 - a shadow must not be felt
            self._note("shadow", _raised(error, self.shadow.name))
            return None

    def _note(self, reason: str, message: str) -> None:
        """Count it; told at the 1st, 2nd, 4th, 8th time: a policy that stays broken fills no disk."""
        count = self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
        who, instead = ("shadow", "") if reason == "shadow" else ("policy", "; the kube rules decided")
        name = self.chosen.shadow if reason == "shadow" else self.chosen.policy
        message = f"{who} {name}: {message} ({reason}, {count} times so far)"
        if reason != "unsure":
            self.failing[who] = message
        if count & (count - 1) == 0:
            _log.warning("%s", message)
            if reason != "unsure":
                self._news.append(message + instead)


def _version_of(policy: str) -> str:
    """The beginning of the checksum of a checkpoint's weights; a stranger's class says nothing of itself."""
    folder = POLICIES.folder_of(policy)
    try:
        return "" if folder is None else read_card(folder / CARD).checksum[:_VERSION_DIGITS]
    except ProreusError:  # it was read a moment ago: somebody changes it just now
        return ""


def _raised(error: Exception, policy: str) -> str:
    """What a policy raised; one from elsewhere is named in it already, with the line."""
    message = str(error) if isinstance(error, ProreusError) else f"{type(error).__name__}: {error}"
    return _line(message.removeprefix(f"policy {policy}: "))


def _line(message: str) -> str:
    """In one line of bounded length, whatever a policy says."""
    return " ".join(message[: 4 * _LONGEST_LINE].split())[:_LONGEST_LINE]


def checked(decision: Decision, observation: PodObservation, bids: tuple[I64, F64]) -> LegalDecision:
    """The decision with its victims; an IllegalDecision where the rules forbid it."""
    nodes = len(observation.compiled.workload.nodes)
    match decision:
        case Place(node=node):
            if not 0 <= node < nodes or observation.refusal(node):
                raise IllegalDecision(f"{_line(str(decision))}: the pod may not go there")
            return LegalDecision(decision, (), *bids)
        case Preempt(node=node):
            victims = observation.victims(node) if 0 <= node < nodes else None
            if victims is None or not victims[0]:
                raise IllegalDecision(f"{decision}: no eviction helps there")
            pods = observation.compiled.workload.pods
            return LegalDecision(decision, tuple(pods[victim].name for victim in victims[0]), *bids)
        case Delay() | Reject():
            return LegalDecision(decision, (), *bids)
        case _:
            assert_never(decision)
