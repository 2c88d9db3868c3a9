"""Requests of which hardly a word fits the other: paths, queries, bodies and types drawn one by one."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx

from proreus.engine.objects.kinds import KINDS, NODE, Kind
from proreus.engine.objects.schema.fields import Type, definitions

_WORDS = (
    "a",
    "b",
    "100m",
    "1Gi",
    "-1",
    "Always",
    "Running",
    "2026-01-01T00:00:00Z",
    "50%",
    "1e999",
    "\0",
    "",
    "é*",
)
_NAMES = ("a", "b", "c", "default", "A b", "x" * 300, "%2e", "..")
_PARTS = ("", "", "", "status", "scale", "binding", "eviction", "log", "finalize", "x")
_METHODS = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "OPTIONS")
_QUERY: dict[str, tuple[str, ...]] = {
    "dryRun": ("All", "x"),
    "limit": ("1", "0", "-1", "999999999999"),
    "continue": ("x", "eyJydiI6MSwic3RhcnQiOiIvIn0", "e30"),
    "labelSelector": ("a=b", "a in (b", "!a,b notin (c,d),e>3", "=", "a" * 400),
    "fieldSelector": ("metadata.name=a", "status.phase!=Running", "x=y", "\\"),
    "resourceVersion": ("0", "1", "99999999999", "x"),
    "watch": ("1", "true", "x"),
    "timeoutSeconds": ("1",),
    "fieldManager": ("me", "you", "é"),
    "fieldValidation": ("Strict", "Ignore", "Warn", "x"),
    "force": ("true", "x"),
    "propagationPolicy": ("Foreground", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "-1", "x"),
    "sinceTime": ("x", "2026-01-01T00:00:00Z"),
    "tailLines": ("1", "x"),
}
_TYPES = (
    "application/json",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
)
_ACCEPT = ("*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html", ";;=,")
_POINTERS = (
    "/metadata/labels/a",
    "/spec",
    "/metadata",
    "",
    "/spec/containers/0",
    "x",
    "/a/b",
    "/metadata/managedFields",
)


class Shallow:
    """Requests of the right shape, at most."""

    def __init__(self, draw: random.Random) -> None:
        self._random = draw

    def request(self) -> tuple[str, str, bytes, dict[str, str]]:
        """Method, URL, body, headers."""
        choose = self._random.choice
        kind = choose(KINDS)
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        if kind.namespaced and self._random.random() < 0.8:
            base += "/namespaces/" + choose(("default", "default", "fuzz", "nowhere"))
        path = f"{base}/{kind.plural}"
        if self._random.random() < 0.7:
            path += "/" + choose(_NAMES)
            part = choose(_PARTS)
            path += f"/{part}" if part else ""
        names = self._random.sample(list(_QUERY), self._random.randrange(4))
        query = {name: choose(_QUERY[name]) for name in names}
        if "watch" in query or "follow" in query:
            query["timeoutSeconds"] = "1"
        method = choose(_METHODS)
        if method == "DELETE" and kind is NODE and path.endswith("/nodes"):
            query["dryRun"] = "All"  # nodes that are deleted stay away, and the last question is about them
        headers = {"content-type": choose(_TYPES), "accept": choose(_ACCEPT)}
        return method, str(httpx.URL(path, params=query)), self._body(kind), headers

    def _body(self, kind: Kind) -> bytes:
        draw = self._random.random()
        if draw < 0.05:
            return self._random.randbytes(self._random.randrange(60))
        if draw < 0.2:
            return json.dumps([self._operation() for _ in range(self._random.randrange(4))]).encode()
        obj = self._value(Type(kind.kind), 0)
        if isinstance(obj, dict) and draw < 0.9:
            metadata = obj.get("metadata") if draw < 0.4 else {}
            named = {**(metadata if isinstance(metadata, dict) else {}), "name": self._random.choice("abc")}
            obj |= {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named}
        return json.dumps(obj).encode()

    def _operation(self) -> dict[str, Any]:
        choose = self._random.choice
        return {
            "op": choose(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": choose(_POINTERS),
            "from": choose(_POINTERS),
            "value": self.value(0),
        }

    def value(self, depth: int) -> Any:
        """Of any type."""
        match self._random.randrange(8 if depth < 4 else 6):
            case 0:
                return None
            case 1:
                return self._random.random() < 0.5
            case 2:
                return self._random.choice((0, 1, -1, 2**31, 2**63, 2**70, 0.5))
            case 6:
                return [self.value(depth + 1) for _ in range(self._random.randrange(3))]
            case 7:
                keys = ("a", "$patch", "$retainKeys", "$setElementOrder/containers", "name")
                return {self._random.choice(keys): self.value(depth + 1) for _ in range(2)}
            case _:
                return self._random.choice(_WORDS)

    def _value(self, type_: Type, depth: int) -> Any:
        if depth > 6 or self._random.random() < 0.04:
            return self.value(depth)
        if type_.of is not None:
            count = self._random.randrange(3)
            if type_.word == "[]":
                return [self._value(type_.of, depth + 1) for _ in range(count)]
            return {self._random.choice(_WORDS): self._value(type_.of, depth + 1) for _ in range(count)}
        if type_.definition:
            fields = list(definitions()[type_.definition].fields.values())
            chosen = [field for field in fields if field.required]
            chosen += self._random.sample(fields, min(len(fields), self._random.randrange(5)))
            return {field.name: self._value(field.type, depth + 1) for field in chosen}
        match type_.word:
            case "bool":
                return self._random.random() < 0.5
            case "int32" | "int64" | "number":
                return self._random.choice((0, 1, 3, -1, 2**31))
            case _:
                return self._random.choice(_WORDS)
