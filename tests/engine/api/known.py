"""What the fuzzer has sent, and what it knows to stand by the answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import httpx

from proreus.engine.objects.kinds import BY_KIND, KINDS, NODE, Kind

JsonObject = dict[str, Any]
_MOST_KNOWN = 24


@dataclass(frozen=True)
class Request:
    """What is sent."""

    method: str
    url: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    stream: bool = False
    """Whether the answer may go on for ever: it is read for a moment, then the client hangs up."""

    def __str__(self) -> str:
        return f"{self.method} {self.url[:300]} {self.headers} {self.body[:500]!r}"


class Known:
    """What stands as far as the answers have told; shared by all who ask."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[tuple[str, str], JsonObject]] = {kind: {} for kind in KINDS}
        self.versions: deque[str] = deque(["1"], maxlen=200)
        self.continues: deque[tuple[str, str]] = deque(maxlen=50)
        """The path of a list, and where it goes on."""

    def of(self, kind: Kind) -> list[JsonObject]:
        """Those of a kind."""
        return list(self._objects[kind].values())

    def learn(self, request: Request, answer: httpx.Response) -> None:
        """From a whole answer."""
        if answer.status_code not in (200, 201) or "json" not in answer.headers.get("content-type", ""):
            return
        try:
            told = answer.json()
        except ValueError:
            return
        if not isinstance(told, dict):
            return
        metadata = told.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("continue"), str):
            self.continues.append((request.url.partition("?")[0], metadata["continue"]))
        if request.method != "DELETE" and "dryRun" not in request.url:
            kind = BY_KIND.get((str(told.get("apiVersion")), str(told.get("kind"))))
            if kind is not None and isinstance(metadata, dict):
                self._keep(kind, metadata, told)

    def forget(self, kind: Kind, obj: JsonObject) -> None:
        """It was deleted, or will be."""
        self._objects[kind].pop(_key(obj["metadata"]), None)

    def _keep(self, kind: Kind, metadata: JsonObject, obj: JsonObject) -> None:
        if kind is NODE and not str(metadata.get("name")).startswith("f"):
            return  # the engine's own: without them nothing would run any more
        kept = self._objects[kind]
        kept[_key(metadata)] = obj
        while len(kept) > _MOST_KNOWN:
            kept.pop(next(iter(kept)), None)
        if "resourceVersion" in metadata:
            self.versions.append(str(metadata["resourceVersion"]))


def _key(metadata: JsonObject) -> tuple[str, str]:
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
