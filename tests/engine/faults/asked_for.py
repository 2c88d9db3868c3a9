"""Whether there is what was asked for, by lists of what stands, not by any summary of the engine's."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.engine.faults.churn import Ledger
from tests.engine.faults.client import Client

Object = dict[str, Any]
_OF_THE_ENGINE = frozenset({"kube-root-ca.crt"})
"""What it puts into every namespace by itself."""


async def until_as_asked_for(client: Client, ledger: Ledger, seconds: float = 60.0) -> float:
    """Wait for it; the seconds that it took."""
    begun = time.monotonic()
    while True:
        differences = [difference async for difference in _differences(client, ledger)]
        if not differences:
            return time.monotonic() - begun
        assert time.monotonic() - begun < seconds, differences[:10]
        await asyncio.sleep(0.2)


async def _differences(client: Client, ledger: Ledger) -> Any:
    found = {
        kind: (await client.list(kind))[0]
        for kind in ("deployments", "replicasets", "jobs", "configmaps", "pods")
    }
    for kind in ("deployments", "jobs", "configmaps"):
        names = {one["metadata"]["name"] for one in found[kind]} - _OF_THE_ENGINE
        wanted = {name for of, name in ledger.wanted if of == kind}
        for name in sorted(names ^ wanted):
            yield f"{kind} {name}: {'not asked for' if name in names else 'not there'}"
    for kind in ("deployments", "configmaps"):
        for one in found[kind]:
            wanted_one = ledger.wanted.get((kind, one["metadata"]["name"]), one)
            for part in ("spec", "data"):
                if one.get(part) != wanted_one.get(part):
                    yield f"{kind} {one['metadata']['name']}: {part} is not as acknowledged"
    for message in _of_pods(found, ledger):
        yield message


def _of_pods(found: dict[str, list[Object]], ledger: Ledger) -> Iterator[str]:
    owners = {one["metadata"]["uid"]: one for kind in ("replicasets", "jobs") for one in found[kind]}
    by_owner: dict[str, list[Object]] = defaultdict(list)
    for pod in found["pods"]:
        name, owner = pod["metadata"]["name"], _owner(pod)
        if not owner:
            if ("pods", name) not in ledger.wanted:
                yield f"pod {name}: not asked for"
            continue
        if owner not in owners:
            leaving, phase = pod["metadata"].get("deletionTimestamp"), pod.get("status", {}).get("phase")
            yield f"pod {name}: its owner is gone; {leaving=} {phase=} on {pod['spec'].get('nodeName')}"
            continue
        above = owners[owner]
        by_owner[_owner(above) if above["kind"] == "ReplicaSet" else owner].append(pod)
    bare = {pod["metadata"]["name"]: pod for pod in found["pods"] if not _owner(pod)}
    for kind, name in ledger.wanted:
        if kind == "pods" and not _runs(bare.get(name)):
            yield f"pod {name}: {bare.get(name, {}).get('status', 'not there')}"
    for deployment in found["deployments"]:
        name, spec = deployment["metadata"]["name"], deployment["spec"]
        pods = by_owner[deployment["metadata"]["uid"]]
        version = _version(spec["template"])
        running = [pod for pod in pods if _runs(pod) and _version(pod) == version]
        if not len(running) == len(pods) == spec["replicas"]:
            places = [(pod["spec"].get("nodeName"), pod["status"]["phase"]) for pod in pods]
            yield f"deployment {name}: {len(running)} run of {places}, {spec['replicas']} are asked for"
    for job in found["jobs"]:
        succeeded = [pod for pod in by_owner[job["metadata"]["uid"]] if pod["status"]["phase"] == "Succeeded"]
        done = any(
            condition["type"] == "Complete" and condition["status"] == "True"
            for condition in job.get("status", {}).get("conditions") or ()
        )
        if len(succeeded) != job["spec"]["completions"] or not done:
            yield f"job {job['metadata']['name']}: {len(succeeded)} of {job['spec']['completions']}, {done=}"


def _version(pod: Object) -> Any:
    """By what pods before and after a rollout differ."""
    (container,) = pod["spec"]["containers"]
    return container["image"], container.get("env")


def _owner(obj: Object) -> str:
    return next(
        (
            owner_reference["uid"]
            for owner_reference in obj["metadata"].get("ownerReferences") or ()
            if owner_reference.get("controller")
        ),
        "",
    )


def _runs(pod: Object | None) -> bool:
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return False
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] == "Running"
