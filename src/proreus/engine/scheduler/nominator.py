"""Room that was made for nominated pods is left to them, as kube-scheduler's filters do it.

It asks its filters about a node twice: with the nominated pods of no lower priority on it, which may come,
and without them, since they may not. Its scores never see them. Here they are put onto those nodes that
cannot take the pod beside them, and nowhere else: what a policy sees of the others is what stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from proreus.engine.scheduler.cache import Known, SchedulerCache
from proreus.kernels.arrays import I8
from proreus.worlds.pods.state.filters import (
    EXISTING_ANTI_AFFINITY,
    OK,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    SPREAD,
)
from proreus.worlds.pods.state.observation import PodObservation

_BY_OTHERS = (SPREAD, POD_AFFINITY, POD_ANTI_AFFINITY, EXISTING_ANTI_AFFINITY)
"""Refusals that may come from pods on other nodes."""
Observe = Callable[[], PodObservation]


@dataclass(frozen=True, slots=True)
class NominatedPod:
    """A nominated pod that counts as being on its node."""

    pod: Known
    room_only: bool
    """It only takes room: on other nodes nobody counts it."""


def in_the_way(picture: SchedulerCache, known: Known, observe: Observe) -> list[NominatedPod]:
    """The nominated pods beside which their nodes cannot take this one."""
    by_node: dict[str, list[Known]] = {}
    for other in picture.held_for(known):
        by_node.setdefault(other.nominated, []).append(other)
    if not by_node:
        return []
    codes = _codes(
        picture, [NominatedPod(pod, False) for there in by_node.values() for pod in there], observe
    )
    nominated_pods: list[NominatedPod] = []
    for node, there in by_node.items():
        n = picture.cluster.node_at(node)
        code = int(codes[n])
        if code in _BY_OTHERS:  # those who were nominated elsewhere do not count here
            code = int(_codes(picture, [NominatedPod(pod, False) for pod in there], observe)[n])
        if code != OK:
            nominated_pods += [NominatedPod(pod, code not in _BY_OTHERS) for pod in there]
    return nominated_pods


@contextmanager
def held(picture: SchedulerCache, pods: Sequence[NominatedPod]) -> Iterator[None]:
    """For as long as it takes, these are on their nodes."""
    hold(picture, pods)
    try:
        yield
    finally:
        for pod in pods:
            picture.let_go(pod.pod)


def hold(picture: SchedulerCache, pods: Sequence[NominatedPod]) -> None:
    """From now on they are on their nodes; again, where a picture was made anew."""
    for pod in pods:
        picture.hold(pod.pod, room_only=pod.room_only)


def _codes(picture: SchedulerCache, pods: Sequence[NominatedPod], observe: Observe) -> I8:
    """Why each node may not take the pod, with these where they were nominated."""
    with held(picture, pods):
        return observe().refusals().copy()
