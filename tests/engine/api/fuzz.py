"""Random requests at the API of a real `proreus up --nodes 5`, for as long as asked.

    python -m tests.engine.api.fuzz --seconds 3600 --seed 1 --report fuzz.json

Ends with 1 where an answer was a 5xx, the engine ended, or no pod is scheduled afterwards; with
--most-held-ms N also where the engine's loop was held for longer, which it says itself. What /livez takes is
measured by a process of its own; the same seed sends the same requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from proreus.engine.objects.kinds import KINDS, NODE, Kind
from proreus.engine.objects.schema.fields import Type, definitions
from tests.engine.faults.processes import TOKEN, up

_KNOWN = {"authorization": f"Bearer {TOKEN}"}
_SPAWN = multiprocessing.get_context("spawn")
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


class Grammar:
    """Requests, mostly of the right shape."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

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
            "value": self._anything(0),
        }

    def _anything(self, depth: int) -> Any:
        match self._random.randrange(8 if depth < 4 else 6):
            case 0:
                return None
            case 1:
                return self._random.random() < 0.5
            case 2:
                return self._random.choice((0, 1, -1, 2**31, 2**63, 2**70, 0.5))
            case 6:
                return [self._anything(depth + 1) for _ in range(self._random.randrange(3))]
            case 7:
                keys = ("a", "$patch", "$retainKeys", "$setElementOrder/containers", "name")
                return {self._random.choice(keys): self._anything(depth + 1) for _ in range(2)}
            case _:
                return self._random.choice(_WORDS)

    def _value(self, type_: Type, depth: int) -> Any:
        if depth > 6 or self._random.random() < 0.04:
            return self._anything(depth)
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


def _probe(server: str, connection: Connection) -> None:
    """What /livez takes, asked all the time."""
    waits = []
    with httpx.Client(base_url=server, timeout=60) as client:
        while not connection.poll():
            began = time.perf_counter()
            client.get("/livez")
            waits.append(time.perf_counter() - began)
            time.sleep(0.02)
    connection.send(waits)


def _why_not_scheduled(client: httpx.Client) -> str:
    """Why a pod finds no node any more; "" where it does."""
    path = "/api/v1/namespaces/default/pods"
    body = {"metadata": {"name": "afterwards"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    client.delete(f"{path}/afterwards?gracePeriodSeconds=0")
    made = client.post(path, json=body)
    if made.status_code != 201:
        return made.text[:500]
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if client.get(f"{path}/afterwards").json().get("spec", {}).get("nodeName"):
            return ""
        time.sleep(0.2)
    nodes = [item["metadata"]["name"] for item in client.get("/api/v1/nodes").json()["items"]]
    return f"nodes {nodes}, {client.get(f'{path}/afterwards').json().get('status')}"[:1000]


def _still_to_come(answer: httpx.Response) -> bool:
    """Whether a revision was asked for that nobody has made: 504, as the real API server says it."""
    return answer.status_code == 504 and "Too large resource version" in answer.text


def _held_ms(client: httpx.Client) -> float:
    """How long the engine's loop was held at most, since this was last asked."""
    told = client.get("/v1/metrics?format=json").json()
    held: float = told["proreus_api_loop_held_seconds"]["samples"][0]["value"]
    return round(held * 1e3, 1)


def fuzz(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """What came of it."""
    engine, server = up(folder, "--nodes", "5")
    ours, theirs = _SPAWN.Pipe()
    probe = _SPAWN.Process(target=_probe, args=(server, theirs), daemon=True)
    answers: Counter[str] = Counter()
    failed: list[str] = []
    grammar, most = Grammar(seed), 0
    try:
        asyncio.run(engine.start())
        probe.start()
        with httpx.Client(base_url=server, timeout=30, headers=_KNOWN) as client:
            _held_ms(client)  # what starting took is not meant
            until = time.monotonic() + seconds
            while time.monotonic() < until and engine.process is not None and engine.process.poll() is None:
                method, url, body, headers = grammar.request()
                try:
                    answer = client.request(method, url, content=body, headers=headers)
                except httpx.TransportError as error:
                    answers[f"{method} {type(error).__name__}"] += 1
                    continue
                answers[f"{method} {answer.status_code}"] += 1
                if answer.status_code >= 500 and not _still_to_come(answer):
                    failed.append(
                        f"{method} {url} {answer.status_code} {headers} {body[:500]!r}: {answer.text[:200]}"
                    )
                if answers.total() % 100 == 1:
                    pages = Path(f"/proc/{engine.process.pid}/statm").read_text().split()[1]
                    most = max(most, int(pages) * 4096 // 2**20)
            alive = engine.process is not None and engine.process.poll() is None
            held_ms = _held_ms(client) if alive else 0.0
            unscheduled = _why_not_scheduled(client) if alive else "the engine ended"
        ours.send("enough")
        waits: list[float] = sorted(ours.recv())
    finally:
        engine.end(signal.SIGKILL)
        probe.kill()
    return {
        "seed": seed,
        "seconds": seconds,
        "requests": answers.total(),
        "answers": dict(sorted(answers.items())),
        "failed": len(failed),
        "first_failures": failed[:20],
        "livez_p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
        "livez_max_ms": round(waits[-1] * 1e3, 1),
        "loop_held_ms": held_ms,
        "most_mib": most,
        "alive": alive,
        "unscheduled_afterwards": unscheduled,
    }


def main() -> int:
    """Try until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-held-ms", type=float, default=math.inf)
    parser.add_argument("--report", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report = fuzz(wanted.seconds, wanted.seed, Path(name) / "up")
    text = json.dumps(report, indent=2)
    sys.stdout.write(text + "\n")
    if wanted.report is not None:
        wanted.report.write_text(text)
    held = report["loop_held_ms"] > wanted.most_held_ms
    return 1 if report["failed"] or report["unscheduled_afterwards"] or held else 0


if __name__ == "__main__":
    sys.exit(main())
