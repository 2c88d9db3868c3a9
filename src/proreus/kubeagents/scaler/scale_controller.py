"""Deployments and StatefulSets that ask for it get as many replicas as a controller wants.

An object asks with annotations: `scaler.proreus.io/enabled: "true"`, and what a trigger of KEDA has as
metadata under the same names, `scaler.proreus.io/policy` and so on. Guard rails, fallback and shadow are
those of `proreus serve scaler`: here the number that it asks for is written to the `scale` subresource.
Nothing is written without leading, while the kill switch is on, in shadow beside somebody else (`shadow:
current`), nor for an object that somebody has scaled to 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.errors import ApiError
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import DEPLOYMENTS, STATEFUL_SETS, Resource
from proreus.serving.messages import Refused

PREFIX = "scaler.proreus.io/"
_ENABLED = f"{PREFIX}enabled"
SCALED = (DEPLOYMENTS, STATEFUL_SETS)
_AT_ONCE = 8
Object = dict[str, Any]
Wanted = Callable[[str, str, Mapping[str, str]], int]
"""Replicas of an object (namespace, name, metadata); a Refused says why nobody knows. May take its time."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scaled:
    """An object that asks to be scaled."""

    resource: Resource
    namespace: str
    name: str
    replicas: int
    metadata: Mapping[str, str]

    @property
    def told(self) -> str:
        """For logs and people."""
        return f"{self.resource.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Outcome:
    """What became of one object."""

    replicas: int
    """That it has, or had."""
    wanted: int | None
    """None: nobody knows."""
    why: str = ""
    """Why nothing was written; "": it was, or there was nothing to write."""


def read_scaled(resource: Resource, obj: Object) -> Scaled | None:
    """What an object asks for; None: nothing."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(_ENABLED) != "true" or "deletionTimestamp" in metadata:
        return None
    asked = {
        key.removeprefix(PREFIX): str(value)
        for key, value in annotations.items()
        if key.startswith(PREFIX) and key != _ENABLED
    }
    replicas = (obj.get("spec") or {}).get("replicas")
    return Scaled(
        resource, metadata["namespace"], metadata["name"], 1 if replicas is None else int(replicas), asked
    )


class ScaleController:
    """Looks at all that ask, again and again."""

    def __init__(self, client: KubeClient, wanted: Wanted, forbidden: Callable[[], str]) -> None:
        """forbidden: why nothing may be written just now; "": it may."""
        self._client, self._wanted, self._forbidden = client, wanted, forbidden
        self._objects: dict[tuple[str, str, str], Scaled] = {}
        self.outcomes: dict[str, Outcome] = {}
        """The last of each, by what it is called."""
        self.counts: Counter[str] = Counter()
        self._told: dict[str, str] = {}

    def hear(self, change: Change) -> None:
        """What a reflector of a scaled kind tells."""
        obj = change.object
        resource = next(one for one in SCALED if one.kind == obj["kind"])
        key = (resource.kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
        scaled = None if change.type == "DELETED" else read_scaled(resource, obj)
        before = self._objects.pop(key, None)
        if scaled is not None:
            self._objects[key] = scaled
        elif before is not None:
            self.outcomes.pop(before.told, None)
            self._told.pop(before.told, None)

    def figures(self) -> dict[tuple[str, ...], float]:
        """For /metrics: by object, what is there and what is wanted."""
        figures: dict[tuple[str, ...], float] = {}
        for name, outcome in list(self.outcomes.items()):
            figures[name, "there"] = float(outcome.replicas)
            if outcome.wanted is not None:
                figures[name, "wanted"] = float(outcome.wanted)
        return figures

    async def step(self) -> None:
        """Look at every object once."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def look(scaled: Scaled) -> None:
            async with turns:
                outcome = await self._look(scaled)
            self.outcomes[scaled.told] = outcome
            self._tell(scaled, outcome)

        await asyncio.gather(*(look(scaled) for scaled in list(self._objects.values())))

    async def _look(self, scaled: Scaled) -> Outcome:
        if scaled.replicas == 0 and scaled.metadata.get("least", "1") != "0":
            return Outcome(0, None, "somebody has scaled it to 0")
        try:
            wanted = await asyncio.to_thread(self._wanted, scaled.namespace, scaled.name, scaled.metadata)
        except Refused as error:
            self.counts["unknown"] += 1
            return Outcome(scaled.replicas, None, str(error))
        if wanted == scaled.replicas:
            self.counts["kept"] += 1
            return Outcome(scaled.replicas, wanted)
        why = self._forbidden()
        if scaled.metadata.get("shadow") == "current":
            why = "in shadow: somebody else scales it"
        if why:
            self.counts["withheld"] += 1
            return Outcome(scaled.replicas, wanted, why)
        try:
            await self._client.set_scale(scaled.resource, scaled.name, scaled.namespace, wanted)
        except ApiError as error:
            self.counts["failed"] += 1
            return Outcome(scaled.replicas, wanted, f"the API server refuses: {error}")
        self.counts["scaled"] += 1
        _log.info("scaled", extra={"fields": {"object": scaled.told, "from": scaled.replicas, "to": wanted}})
        return Outcome(scaled.replicas, wanted)

    def _tell(self, scaled: Scaled, outcome: Outcome) -> None:
        """Once each time that it changes."""
        if self._told.get(scaled.told, "") != outcome.why:
            self._told[scaled.told] = outcome.why
            if outcome.why:
                _log.warning("not scaled", extra={"fields": {"object": scaled.told, "why": outcome.why}})
