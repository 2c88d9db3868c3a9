"""Observations of pods on their way to a stranger's process, and decisions on their way back.

The columns travel whole with every question; nodes, pods and specs only where they are others than those that
were sent before. Over there the columns keep their places in memory for as long as they do here: a policy
that remembers by them (see `state.open`) finds the same cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject, meant
from proreus.model.errors import IllegalDecision
from proreus.policies.isolated_policy import Strangers
from proreus.worlds.pods.policies.catalogue import POLICIES
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.devices import devices_held
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.values import OpenWorkload

_PORTION = 512
"""Objects that are packed in one go: meanwhile no other thread of this process runs."""
_LISTS = ("nodes", "pods", "specs")
_MOST_DEVICES = 1 << 62
_Changes = tuple[str, int, list[tuple[int, Any]]]
"""Of one list: which, how long it is now, and what stands elsewhere than before."""


class PodCodec:
    """This side; see `isolated_policy.Codec`."""

    target = f"{__name__}:PodShown"

    def __init__(self) -> None:
        self._sent: dict[str, list[Any]] = {name: [] for name in _LISTS}
        self._state: Any = None

    def frame(self, observation: PodObservation, /) -> list[bytes]:
        """The columns, then the objects that are new."""
        compiled, workload = observation.compiled, observation.compiled.workload
        same, self._state = observation.state is self._state, observation.state
        shell = {
            "same": same,
            "name": workload.name,
            "budgets": tuple(workload.budgets),
            "rest": (compiled.columns, compiled.models, compiled.demand),
            "cluster": compiled.cluster,
            "state": observation.state,
            "scratch": observation.scratch,
            "moment": (observation.pod, observation.now, observation.waiting),
        }
        parts = [_packed(shell)]
        for name, now in (("nodes", workload.nodes), ("pods", workload.pods), ("specs", compiled.specs)):
            changes = _changes(self._sent[name], now)
            for at in range(0, max(len(changes), 1), _PORTION):
                parts.append(_packed((name, len(now), changes[at : at + _PORTION])))
        return parts

    def decision(self, answer: Any, /) -> Decision:
        match answer:
            case ["place", int(node), int(devices)] if 0 <= devices < _MOST_DEVICES:
                return Place(node, devices)
            case ["preempt", int(node)]:
                return Preempt(node)
            case ["delay"]:
                return Delay()
            case ["reject"]:
                return Reject()
            case _:
                raise IllegalDecision(f"{str(answer)[:80]} is no decision about a pod")


class PodShown:
    """The other side; see `apart_serving.Shown`."""

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
        self._last: PodObservation | None = None

    def observation(self, parts: Sequence[memoryview], /) -> PodObservation:
        """As it was shown there."""
        shell, *changes = (pickle.loads(part) for part in parts)  # from who started us
        for name, length, entries in changes:
            standing = self._lists[name]
            del standing[length:]
            standing.extend([None] * (length - len(standing)))
            for index, entry in entries:
                standing[index] = entry
        nodes, pods, specs = (self._lists[name] for name in _LISTS)
        workload = OpenWorkload(shell["name"], nodes, pods, shell["budgets"])  # type: ignore[arg-type]
        columns, models, demand = shell["rest"]
        cluster, state, scratch = shell["cluster"], shell["state"], shell["scratch"]
        last = self._last
        if shell["same"] and last is not None and _copied(state, last.state):
            state = last.state
            if _copied(cluster, last.cluster):
                cluster = last.cluster
            if _copied(scratch, last.scratch):
                scratch = last.scratch
        compiled = Compiled(workload, cluster, columns, models, specs, demand)  # type: ignore[arg-type]
        self._last = PodObservation(compiled, state, scratch, *shell["moment"])
        return self._last

    def decision(self, made: Any, observation: PodObservation, /) -> list[Any]:
        decision = meant(made, len(observation.compiled.workload.nodes))
        match decision:
            case Place(node=node, devices=devices):
                return ["place", int(node), int(devices)]
            case Preempt(node=node):
                return ["preempt", int(node)]
            case Delay():
                return ["delay"]
            case Reject():
                return ["reject"]


pod_strangers = partial(Strangers, PodCodec)
"""Strangers that place pods."""


def check_policy(name: str, strangers: Strangers) -> None:
    """Raise what is wrong with a policy; code from elsewhere is loaded elsewhere."""
    if POLICIES.is_own(name):
        POLICIES.make(name)
    else:
        strangers.check(name)


def check_devices(decision: Decision, observation: PodObservation) -> None:
    """A stranger may name GPUs that the node does not have, or that others hold."""
    if not isinstance(decision, Place) or not decision.devices:
        return
    nodes, gpu = observation.compiled.workload.nodes, observation.subject.spec.gpu
    if 0 <= decision.node < len(nodes):
        left = observation.state.gpu_left[decision.node, : nodes[decision.node].gpu_count]
        if gpu.count and devices_held(left, gpu.count, gpu.milli, decision.devices) is not None:
            return
    raise IllegalDecision(f"{decision}: the pod may not have these GPUs")


def _packed(parts: object) -> bytes:
    return pickle.dumps(parts, protocol=5)


def _changes(sent: list[Any], now: Sequence[Any]) -> list[tuple[int, Any]]:
    """What stands elsewhere than before; `sent` is as `now` afterwards."""
    changes = []
    del sent[len(now) :]
    for at in range(0, len(now), _PORTION):
        before, after = sent[at : at + _PORTION], list(now[at : at + _PORTION])
        if before == after:  # the same objects, mostly: then nothing is looked into
            continue
        before += [None] * (len(after) - len(before))
        changes += [
            (at + k, new) for k, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new
        ]
    sent.extend([None] * (len(now) - len(sent)))
    for index, entry in changes:
        sent[index] = entry
    return changes


def _copied(source: Any, target: Any) -> bool:
    """Whether the arrays of one set of columns were written over those of another of the same shape."""
    mine, theirs = _arrays(source), _arrays(target)
    if [(a.shape, a.dtype) for a in mine] != [(a.shape, a.dtype) for a in theirs]:
        return False
    for array, standing in zip(mine, theirs, strict=True):
        np.copyto(standing, array)
    return True


def _arrays(columns: Any) -> list[np.ndarray[Any, Any]]:
    """Of a handle or a NamedTuple, nested ones included."""
    if isinstance(columns, np.ndarray):
        return [columns]
    fields = columns if isinstance(columns, tuple) else columns.columns
    return [array for field in fields for array in _arrays(field)]
