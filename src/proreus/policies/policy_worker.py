"""The other side of `policies.isolated_policy`: a stranger's policy at work in a process of its own."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from proreus.model.errors import ProreusError, UsageError
from proreus.policies.plugins import ForeignPolicy, find_policy
from proreus.workers.child_main import Channel

_LONGEST = 2_000
"""Characters of what a policy raised."""
_RECEIVED = b"+"
_NO_REASONS = b'{"reasons": null}'


class ShownObservation(Protocol):
    """How observations and decisions of a world travel, over here."""

    def observation(self, parts: Sequence[memoryview], /) -> Any:
        """From what `apart.Codec.frame` made."""
        ...

    def decision(self, made: Any, observation: Any, /) -> Any:
        """As JSON has it; an IllegalDecision where it is none."""
        ...


def serve(channel: Channel) -> None:
    """Load what the first frame names, then answer until nobody asks."""
    head = json.loads(channel.receive())
    module, _, name = head["codec"].partition(":")
    shown: ShownObservation = getattr(importlib.import_module(module), name)()
    try:
        policy = find_policy(head["reference"], 0)
        if policy is None:
            raise UsageError(f"unknown policy {head['reference']!r}")
    except BaseException as error:  # noqa: BLE001 - a stranger may raise whatever there is
        channel.send(_failed(head["reference"], error))
        return
    has = [method for method in ("explain", "unsure") if hasattr(policy, method)]
    channel.send(json.dumps({"has": has}).encode())
    _Answering(channel, shown, policy).run()


class _Answering:
    def __init__(self, channel: Channel, shown: ShownObservation, policy: ForeignPolicy) -> None:
        self._channel, self._shown, self._policy = channel, shown, policy
        self._made: dict[int, ForeignPolicy] = {}

    def run(self) -> None:
        while True:
            head, *parts = _parts(memoryview(self._channel.receive()))
            question = json.loads(bytes(head))
            observation = self._shown.observation(parts)
            self._channel.send(_RECEIVED)
            for instance in question["dropped"]:
                self._made.pop(instance, None)
            self._answer(question, observation)

    def _answer(self, question: dict[str, Any], observation: Any) -> None:
        """Reasons first, where they are asked for: a decision changes the memory that they are about."""
        awaited = question["reasons"]
        try:
            policy = self._made.get(question["instance"])
            if policy is None:
                policy = self._made[question["instance"]] = self._policy.fresh(question["seed"])
            if awaited:
                reasons = _reasons(policy, observation) if hasattr(policy, "explain") else _NO_REASONS
                awaited = False
                self._channel.send(reasons)
            answer = json.dumps(self._decided(policy, observation)).encode()
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are its errors, too
            if awaited:  # who asked counts the answers
                self._channel.send(_NO_REASONS)
            answer = _failed(self._policy.name, error)
        self._channel.send(answer)

    def _decided(self, policy: ForeignPolicy, observation: Any) -> dict[str, Any]:
        doubt = policy.unsure(observation) if hasattr(policy, "unsure") else ""
        if doubt:
            return {"unsure": doubt[:_LONGEST]}
        return {"decision": self._shown.decision(policy.decide(observation), observation)}


def _reasons(policy: ForeignPolicy, observation: Any) -> bytes:
    explanation = policy.explain(observation)
    verdicts = [
        (verdict.place, verdict.refused_by, dict(verdict.scores), float(verdict.total), verdict.looked_at)
        for verdict in explanation.verdicts
    ]
    words = ("policy", "subject", "note", "told", "chosen", "place", "amount")
    texts = {word: str(getattr(explanation, word)) for word in words}
    return json.dumps({"reasons": {**texts, "verdicts": verdicts}}, default=float).encode()


def _parts(frame: memoryview) -> list[memoryview]:
    count = int.from_bytes(frame[:4], "little")
    sizes = [int.from_bytes(frame[4 + 8 * k : 12 + 8 * k], "little") for k in range(count)]
    at, parts = 4 + 8 * count, []
    for size in sizes:
        parts.append(frame[at : at + size])
        at += size
    return parts


def _failed(reference: str, error: BaseException) -> bytes:
    try:
        name = str(error) if isinstance(error, ProreusError) else f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - what it raised cannot even be told
        name = type(error).__name__
    if not isinstance(error, ProreusError):
        name = f"policy {reference}: {name}"
    return json.dumps({"error": type(error).__name__, "told": name[:_LONGEST]}).encode()
