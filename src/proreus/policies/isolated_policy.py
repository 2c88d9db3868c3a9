"""A stranger's policy in a process of its own, for whoever must go on whatever it does: engine and service.

Each question has a deadline, not only the first. Who misses one, or whose process ends, is replaced: its
process is killed, whoever asked decides otherwise, and nobody waits for it any more. It is tried again after
10 s, then 20 s, 40 s, ... 600 s: made anew in a process of its own, beside everybody's way, and asked once it
has been loaded. After 1,000 answers in a row the next rest is 10 s again. An exception is an answer, too:
the policy stays.

`simulate`, `compare` and `train` ask a stranger in their own process (`policies.plugins`): there is nobody
else whom it could harm.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from proreus.model.errors import IllegalDecision, InputError, ProreusError, UsageError, WorkError
from proreus.policies.deadline import TooSlow
from proreus.policies.protocol import Explanation, Verdict
from proreus.workers.child_process import Busy, ChildEnded, ChildLate, ChildPhase, ChildProcess

TARGET = "proreus.policies.policy_worker:serve"
LOADING_SECONDS = 30.0
"""For a stranger's module to be imported and its policy to be made."""
FIRST_REST, LONGEST_REST = 10.0, 600.0
FORGIVEN_AFTER = 1_000
"""Answers in a row, after which the next rest is the first one again."""
_SHOWING_SECONDS = 5.0
"""For an observation to get there."""
_REASONS_FACTOR = 10.0
"""Reasons are told node by node: they may take so many times as long as a decision."""
_MOST_ANSWER, _MOST_REASONS = 1 << 16, 1 << 26
_ERRORS: dict[str, type[ProreusError]] = {
    "IllegalDecision": IllegalDecision,
    "InputError": InputError,
    "UsageError": UsageError,
}
_log = logging.getLogger(__name__)


class PolicyResting(Exception):
    """It was replaced and is not asked now; says when it is tried again."""


class Codec(Protocol):
    """How a world's observations and decisions travel; one for each process."""

    target: str
    """"module:function" that makes the other side, `apart_serving.Shown`."""

    def frame(self, observation: Any, /) -> list[bytes]:
        """What the other side needs to know of it, given what it knows already; in portions."""
        ...

    def decision(self, answer: Any, /) -> Any:
        """A decision from JSON, or an IllegalDecision."""
        ...


@dataclass(frozen=True)
class Made:
    decision: Any
    unsure: str = ""
    """Why the policy would rather not decide; then there is no decision."""
    explanation: Explanation | None = None


class PolicyHost:
    """One stranger's reference and its process, for all policies that are made from it."""

    def __init__(
        self, reference: str, codec: Callable[[], Codec], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.reference = reference
        self.users = 0
        self.replaced = 0
        """How often its process had to be ended."""
        self.has: frozenset[str] = frozenset()
        """What it offers beside `decide`."""
        self._make_codec, self._codec = codec, codec()
        self._clock = clock
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._loading: ChildProcess | None = None
        self._closed = False
        self._rest = 0.0
        self._until = 0.0
        self._answers = 0
        self._dropped: list[int] = []

    def load(self) -> None:
        """Start its process and make the policy once there; raises what is wrong with it."""
        process = ChildProcess(TARGET, f"policy {self.reference}")
        with self._lock:
            self._loading = process
            closed = self._closed
        try:
            if closed:
                raise WorkError(f"policy {self.reference}: the program is ending")
            codec = self._make_codec()
            self._offered(process, codec)
        except BaseException:
            process.end()
            raise
        finally:
            with self._lock:
                self._loading = None
        with self._lock:
            self._process, self._codec, self._dropped = process, codec, []
            if self._closed:
                process.end()

    def _offered(self, process: ChildProcess, codec: Codec) -> None:
        answers: list[Any] = []
        head = json.dumps({"reference": self.reference, "codec": codec.target}).encode()
        late = f"has not been loaded for {LOADING_SECONDS:g} s"
        try:
            process.boot()
            process.ask(lambda: head, ChildPhase(LOADING_SECONDS, _MOST_ANSWER, _into(answers), late))
        except (ChildLate, ChildEnded) as error:
            raise WorkError(f"policy {self.reference}: {error}") from None
        offered = _checked(answers[0], self.reference).get("has")
        if not isinstance(offered, list):  # whoever runs over there can write to the same socket
            raise WorkError(f"policy {self.reference}: its process says what is no answer")
        self.has = frozenset(map(str, offered))

    def ask(self, policy: IsolatedPolicy, observation: Any, seconds: float, *, reasons: bool = False) -> Made:
        """One decision; TooSlow, Resting, or an error of the stranger's."""
        process = self._at_hand()
        answers: list[Any] = []
        late = f"no decision within {seconds * 1e3:.1f} ms"
        phases = [
            ChildPhase(
                _SHOWING_SECONDS, 16, _nothing, f"has not taken an observation for {_SHOWING_SECONDS:g} s"
            )
        ]
        if reasons:  # first: a decision changes the memory that they are about
            patience = _REASONS_FACTOR * seconds
            message = f"no reasons within {patience * 1e3:.1f} ms"
            phases.append(ChildPhase(patience, _MOST_REASONS, _into(answers), message))
        phases.append(ChildPhase(seconds, _MOST_ANSWER, _into(answers), late))
        try:
            process.ask(lambda: self._question(policy, observation, reasons), *phases)
        except Busy as error:
            raise TooSlow(str(error)) from None
        except ChildLate as error:
            self._replace(process)
            raise TooSlow(f"{error}; {self._when()}") from None
        except ChildEnded as error:
            self._replace(process)
            raise WorkError(f"policy {self.reference}: {error}; {self._when()}") from None
        else:
            self._answers += 1
            if self._answers == FORGIVEN_AFTER:
                self._rest = 0.0
        return self._made(answers)

    def forget(self, instance: int) -> None:
        """Nobody has that policy any more."""
        self._dropped.append(instance)

    def close(self) -> None:
        """End it for good; who waits for it is told at once."""
        with self._lock:
            self._closed = True
            processes = [self._process, self._loading]
        for process in processes:
            if process is not None:
                process.end()

    # Below the face.

    def _question(self, policy: IsolatedPolicy, observation: Any, reasons: bool) -> bytes:
        dropped, self._dropped = self._dropped, []
        head = {"instance": policy.instance, "seed": policy.seed, "reasons": reasons, "dropped": dropped}
        parts = [json.dumps(head).encode(), *self._codec.frame(observation)]
        sizes = len(parts).to_bytes(4, "little") + b"".join(len(p).to_bytes(8, "little") for p in parts)
        return b"".join((sizes, *parts))

    def _made(self, answers: list[Any]) -> Made:
        answer = _checked(answers[-1], self.reference)
        if answer.get("unsure"):
            return Made(None, str(answer["unsure"]))
        try:
            decision = self._codec.decision(answer.get("decision"))
            explanation = None
            if len(answers) > 1 and answers[0].get("reasons") is not None:
                explanation = _explanation(answers[0]["reasons"], decision)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise WorkError(f"policy {self.reference}: {type(error).__name__} in its answer") from None
        return Made(decision, explanation=explanation)

    def _at_hand(self) -> ChildProcess:
        """Its process; `PolicyResting` where there is none now. One that is due is started beside."""
        with self._lock:
            process = self._process
            if process is not None and process.alive:
                return process
            if self._closed:
                raise PolicyResting("the program is ending")
            left = self._until - self._clock()
            if left > 0:
                raise PolicyResting(f"it is tried again in {left:.0f} s")
            if self._loading is None:
                self._until = self._clock() + FIRST_REST  # one attempt at a time
                threading.Thread(target=self._load_again, name="policy-loading", daemon=True).start()
            raise PolicyResting("it is being loaded again")

    def _load_again(self) -> None:
        try:
            self.load()
            _log.info("policy %s is asked again", self.reference)
        except ProreusError as error:
            with self._lock:
                self._grow_rest()
            _log.warning("%s; %s", error, self._when())

    def _replace(self, process: ChildProcess) -> None:
        process.end()
        with self._lock:
            if self._process is not process:
                return
            self._process = None
            self.replaced += 1
            self._grow_rest()

    def _grow_rest(self) -> None:
        self._answers = 0
        self._rest = min(max(FIRST_REST, 2 * self._rest), LONGEST_REST)
        self._until = self._clock() + self._rest

    def _when(self) -> str:
        return f"it is tried again in {self._rest:g} s"


class IsolatedPolicy:
    """A stranger's policy, asked where it cannot harm anybody."""

    _numbers = itertools.count()

    def __init__(self, host: PolicyHost, seed: int) -> None:
        self.host, self.seed, self.name = host, seed, host.reference
        self.instance = next(self._numbers)
        weakref.finalize(self, host.forget, self.instance)

    def within(self, observation: Any, seconds: float, *, reasons: bool = False) -> Made:
        return self.host.ask(self, observation, seconds, reasons=reasons)

    def decide(self, observation: Any, /) -> Any:
        """As every policy does; it has as long as loading takes."""
        made = self.within(observation, LOADING_SECONDS)
        if made.unsure:
            raise WorkError(f"policy {self.name} is unsure: {made.unsure}")
        return made.decision

    def fresh(self, seed: int) -> IsolatedPolicy:
        """Another that remembers nothing."""
        return IsolatedPolicy(self.host, seed)


class Strangers:
    """The strangers of one program, one process for each reference; closed when the program ends."""

    def __init__(self, codec: Callable[[], Codec]) -> None:
        self._codec = codec
        self._hosts: dict[str, PolicyHost] = {}
        self._lock = threading.Lock()
        self._closed = False

    def policy(self, reference: str, seed: int) -> IsolatedPolicy:
        """Loaded where nobody has asked for it before, which takes seconds: not for an event loop."""
        with self._lock:
            host = self._hosts.get(reference)
            known = host is not None
            if host is None:
                host = self._hosts[reference] = PolicyHost(reference, self._codec)
            if self._closed:
                host.close()
            host.users += 1
        if not known:
            try:
                host.load()
            except BaseException:
                self.release(reference)
                raise
        return IsolatedPolicy(host, seed)

    def check(self, reference: str) -> None:
        """Raise what is wrong with it."""
        self.policy(reference, 0)
        self.release(reference)

    def release(self, reference: str) -> None:
        """One user less; the last one ends its process."""
        with self._lock:
            host = self._hosts.get(reference)
            if host is None:
                return
            host.users -= 1
            if host.users > 0:
                return
            del self._hosts[reference]
        host.close()

    def close(self) -> None:
        """End all, those that are being loaded included; none is started any more."""
        with self._lock:
            self._closed = True
            hosts = list(self._hosts.values())
        for host in hosts:
            host.close()


def _nothing(_: bytes) -> None:
    """That the observation is there."""


def _into(answers: list[Any]) -> Callable[[bytes], None]:
    def take(answer: bytes) -> None:
        try:
            document = json.loads(answer)
        except (ValueError, RecursionError):
            raise ChildEnded("its process says what is no answer") from None
        if not isinstance(document, dict):
            raise ChildEnded("its process says what is no answer")
        answers.append(document)

    return take


def _checked(answer: dict[str, Any], reference: str) -> dict[str, Any]:
    if "error" not in answer:
        return answer
    text = str(answer.get("told", ""))
    raise _ERRORS.get(str(answer["error"]), WorkError)(text or f"policy {reference}: fails without a word")


def _explanation(reasons: dict[str, Any], decision: Any) -> Explanation:
    verdicts = tuple(
        Verdict(
            str(place),
            str(refused),
            {str(name): float(score) for name, score in scores.items()},
            float(total),
            looked_at=bool(looked),
        )
        for place, refused, scores, total, looked in reasons["verdicts"]
    )
    words = {
        key: str(reasons[key]) for key in ("policy", "subject", "note", "told", "chosen", "place", "amount")
    }
    return Explanation(decision=decision, verdicts=verdicts, **words)
