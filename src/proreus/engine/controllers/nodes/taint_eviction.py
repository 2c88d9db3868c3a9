"""Which pods a tainted node may keep, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proreus.engine.objects.intents import Disruption
from proreus.model.node import Effect, Taint, Toleration

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
BY_TAINT = Disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
BY_LOSS = Disruption("DeletionByPodGC", "PodGC: node no longer exists")
DEFAULT_SECONDS = 300.0
"""How long a pod that says nothing of it stays on a node that is not ready or not heard of."""


def seconds_kept(
    pod: Mapping[str, Any], taints: Sequence[Taint], unstated: float = DEFAULT_SECONDS
) -> float | None:
    """How long the pod tolerates these NoExecute taints, from the first on; None: for ever.

    Where it says nothing of a node that is not ready or not reachable, it stays `unstated` seconds. What the
    API adds by default counts as saying nothing: it cannot be told from a pod that states just that.
    """
    stated = pod["spec"].get("tolerations") or ()
    limits: list[float] = []
    for taint in taints:
        covering = [
            toleration
            for toleration in stated
            if _toleration(toleration).tolerates(taint) and not _by_default(toleration)
        ]
        if not covering:
            if taint.key not in (NOT_READY, UNREACHABLE):
                return 0.0
            limits.append(unstated)
            continue
        limits += [
            max(0.0, float(toleration["tolerationSeconds"]))
            for toleration in covering
            if toleration.get("tolerationSeconds") is not None
        ]
    return min(limits) if limits else None


def executing(node: Mapping[str, Any]) -> list[Taint]:
    """The node's NoExecute taints."""
    return [
        Taint(taint["key"], taint.get("value") or "", Effect.NO_EXECUTE)
        for taint in node["spec"].get("taints") or ()
        if taint.get("effect") == Effect.NO_EXECUTE.value
    ]


def _by_default(stated: Mapping[str, Any]) -> bool:
    """Whether the API adds just this to pods that say nothing."""
    added = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": DEFAULT_SECONDS}
    return stated.get("key") in (NOT_READY, UNREACHABLE) and {**stated, **added} == stated


def _toleration(stated: Mapping[str, Any]) -> Toleration:
    effect = stated.get("effect")
    return Toleration(
        stated.get("key") or "",
        stated.get("value") or "",
        stated.get("operator") == "Exists",
        Effect(effect) if effect else None,
    )
