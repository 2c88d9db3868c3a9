"""Applications: groups of pods with one spec, drawn with the constraints real clusters show.

`generator` calls `draw_apps` once per workload and then assigns every pod to an application. Because a spec
belongs to an application, the number of distinct specs is the number of applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from proreus.model.node import HOSTNAME, ZONE, Taint, Toleration
from proreus.model.pod import PodAffinity, PodSpec, PodTerm, SpreadConstraint
from proreus.model.selectors import match_labels
from proreus.worlds.pods.datasets.shapes import PodShape

Shares: TypeAlias = npt.NDArray[np.float64]
Marks: TypeAlias = npt.NDArray[np.bool_]

_PRIORITIES = ((0, 0.7), (100, 0.2), (1000, 0.1))
_NETWORK_MBPS = (50, 100, 250, 500)
_DISK_MBPS = (10, 25, 50, 100)
_USAGES = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Share of its CPU request that a pod really uses."""


@dataclass(frozen=True)
class AppMix:
    """How many applications there are and what share of the pods has which trait."""

    count: int
    """Number of applications."""
    tolerant: float = 0.0
    """Share of pods that tolerate the dedicated nodes' taint."""
    spread: float = 0.0
    """Share of pods in services that are softly spread over the zones."""
    apart: float = 0.0
    """Share of pods that may not (or would rather not) run beside their own kind."""
    network: float = 0.0
    """Share of pods that ask for network bandwidth."""
    disk: float = 0.0
    """Share of pods that ask for disk bandwidth."""


@dataclass(frozen=True)
class App:
    """An application: its name, its share of all pods and the spec of each of them."""

    name: str
    share: float
    spec: PodSpec
    service: bool
    """Whether it is a replicated service (which may have a disruption budget)."""


def draw_apps(
    mix: AppMix, shapes: Sequence[PodShape], taint: Taint, random: np.random.Generator
) -> tuple[App, ...]:
    """Applications of very unequal size whose pod sizes follow the shares of `shapes`."""
    sizes = np.arange(1, mix.count + 1, dtype=np.float64) ** -0.7  # few large, many small: a power law
    shares: Shares = sizes / sizes.sum()
    chosen = _shapes_by_share(shapes, shares, random)
    tolerant, service, network, disk = (
        _mark(shares, share, random) for share in (mix.tolerant, mix.spread, mix.network, mix.disk)
    )
    apart = _mark_smallest(shares, mix.apart)
    values, weights = zip(*_PRIORITIES, strict=True)
    apps = []
    for index in range(mix.count):
        shape, name = shapes[chosen[index]], f"app-{index:03d}"
        spec = PodSpec(
            requests=shape.requests(
                network=int(random.choice(_NETWORK_MBPS)) if network[index] else 0,
                disk=int(random.choice(_DISK_MBPS)) if disk[index] else 0,
            ),
            gpu=shape.gpu,
            labels=(("app", name),),
            priority=int(random.choice(values, p=weights)),
            tolerations=(Toleration(taint.key, taint.value, effect=taint.effect),) if tolerant[index] else (),
            cpu_limit=2 * shape.cpu,
            usage=float(random.choice(_USAGES)),
            usage_deviation=0.1,
        )
        if service[index]:
            soft = SpreadConstraint(match_labels({"app": name}), ZONE, hard=False)
            spec = replace(spec, spread=(soft,))
        if apart[index]:
            spec = replace(spec, anti_affinity=_apart(name, required=index % 2 == 0))
        apps.append(App(name, float(shares[index]), spec, bool(service[index])))
    return tuple(apps)


def _apart(name: str, *, required: bool) -> PodAffinity:
    term = PodTerm(match_labels({"app": name}), HOSTNAME)
    return PodAffinity(required=(term,)) if required else PodAffinity(preferred=((100, term),))


def _shapes_by_share(shapes: Sequence[PodShape], shares: Shares, random: np.random.Generator) -> list[int]:
    """For each application the shape that lags furthest behind its share: sizes stay close to the menu."""
    wanted = np.array([shape.share for shape in shapes])
    lacking = wanted / wanted.sum()
    order = random.permutation(len(shapes))  # so that equal shares do not always favour the same shape
    chosen = []
    for share in shares:
        best = int(order[np.argmax(lacking[order])])
        lacking[best] -= share
        chosen.append(best)
    return chosen


def _mark(shares: Shares, wanted: float, random: np.random.Generator) -> Marks:
    """Applications drawn at random whose pods together make up about the `wanted` share."""
    marked = np.zeros(len(shares), dtype=np.bool_)
    for index in random.permutation(len(shares)):
        if shares[marked].sum() + shares[index] <= wanted + shares.min() / 2:
            marked[index] = True
    return marked


def _mark_smallest(shares: Shares, wanted: float) -> Marks:
    """The smallest applications of about the `wanted` share: one pod a node must leave room for all."""
    marked = np.zeros(len(shares), dtype=np.bool_)
    for index in np.argsort(shares):
        if shares[marked].sum() < wanted:
            marked[index] = True
    return marked
