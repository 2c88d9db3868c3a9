"""The real kube-scheduler decides, pod by pod; our rules, asked at the same moment, must like its choice.

Version 1.20 draws lots among nodes of the same total (reservoir sampling). So what is compared is whether the
node that it took is among those with our highest total. It filters with one worker: with more, which nodes
are looked at is a matter of luck as soon as there are a hundred.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.core import SchedulingOptions
from proreus.kubeagents.scheduler.shadow_core import Comparison
from proreus.kubeagents.scheduler.shadow_watcher import ShadowWatcher
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.config import load_config
from proreus.worlds.pods.policies.catalogue import KubeVersion, PolicyOptions
from tests.kube import mixed_work
from tests.kube.control_plane import ControlPlane, Object, control_plane, pod

_PODS = "/api/v1/namespaces/default/pods"


def _work() -> list[Object]:
    """Mixed pods for the real scheduler, and some with wishes that only move scores."""
    made = []
    for n, one in enumerate(mixed_work.pods(90, seed=4)):
        one["spec"].pop("schedulerName")
        made.append(one)
        if n % 3 == 0:
            made.append(_with_preferences(n))
    return made


def _with_preferences(n: int) -> Object:
    labels = {"app": f"liked-{n % 4}"}
    near = {"topologyKey": mixed_work.ZONE, "labelSelector": {"matchLabels": {"app": f"app-{n % 17}"}}}
    far = {"topologyKey": mixed_work.HOST, "labelSelector": {"matchLabels": labels}}
    fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {
        "nodeAffinity": {preferred: [{"weight": 30, "preference": fast}]},
        "podAffinity": {preferred: [{"weight": 20, "podAffinityTerm": near}]},
        "podAntiAffinity": {preferred: [{"weight": 50, "podAffinityTerm": far}]},
    }
    more: dict[str, Any] = {"affinity": affinity} if n % 2 else {}
    if n % 4 == 0:
        more["topologySpreadConstraints"] = [
            {
                "maxSkew": 2,
                "topologyKey": mixed_work.ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    return pod(f"liked-{n:03}", {"cpu": "300m"} if n % 5 else {}, labels=labels, **more)


def _nodes(count: int) -> list[Object]:
    nodes = mixed_work.nodes(count)
    for n, one in enumerate(nodes):
        if n % 6 == 1:
            one["spec"]["taints"] = [{"key": "slow", "value": "", "effect": "PreferNoSchedule"}]
        if n % 4 == 2:
            one["status"]["allocatable"] = {**one["status"]["allocatable"], "cpu": "4", "memory": "64Gi"}
    return nodes


def _compared(
    plane: ControlPlane, folder: Path, version: KubeVersion, nodes: Sequence[Object], work: Sequence[Object]
) -> list[Comparison]:
    """Nodes come first, in the same order to both; pods one after the other, each when the one before has its
    node or was told to wait."""

    async def main() -> list[Comparison]:
        client = KubeClient.of(load_config(plane.kubeconfig()))
        policies = PolicyOptions(kube_version=version)
        options = SchedulingOptions(
            Chosen("kube"), policies=policies, budgets_by_status=True, follows_volumes=True
        )
        watcher = ShadowWatcher(client, options, folder)
        found: list[Comparison] = []
        watching = asyncio.create_task(watcher.run())
        while not watcher.core.listening:
            assert not watching.done() or watching.result()
            await asyncio.sleep(0.05)
        watcher.write_now = lambda: found.extend(watcher.core.take())  # type: ignore[method-assign]
        for one in nodes:  # a server lists in no order: who is there already could not be compared
            await asyncio.to_thread(plane.add_nodes, [one])
        while len(watcher.core.picture.nodes()) < len(nodes):
            await asyncio.sleep(0.05)
        for one in work:
            await asyncio.to_thread(plane.create, _PODS, one)
            key = f"default/{one['metadata']['name']}"
            end = time.monotonic() + 30
            while not any(other.pod == key for other in found):
                found.extend(watcher.core.take())
                assert time.monotonic() < end, f"{key} has neither a node nor a reason to wait"
                await asyncio.sleep(0.005)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.close()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("nodes", [60, 160])
def test_the_real_schedulers_choice_is_one_that_our_rules_like_best(tmp_path: Path, nodes: int) -> None:
    """Of 160 nodes a hundred are looked at, in turn."""
    with control_plane(tmp_path / "plane") as plane:
        services = "/api/v1/namespaces/default/services"
        for app in ("app-1", "app-2", "liked-2"):
            spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
            plane.create(services, {"metadata": {"name": f"of-{app}"}, "spec": spec})
        plane.start_scheduler({"parallelism": 1})
        work = _work()
        found = _compared(plane, tmp_path / "shadow", "1.20", _nodes(nodes), work)
    first = {one.pod: one for one in reversed(found)}
    assert len(first) == len(work)
    told = [
        f"{one.pod}: really {one.node} ({one.scores[0]}), ours {one.would} ({one.scores[1]}), {one.forbidden}"
        for one in first.values()
        if not one.same or one.forbidden
    ]
    assert told == []
    waiting = {one.pod for one in first.values() if not one.node}
    impossible = {f"default/{one['metadata']['name']}" for one in work if mixed_work.is_impossible(one)}
    assert waiting == impossible
    # The test can fail: chance would not have it so.
    several = [one for one in first.values() if one.node and one.instead.node and len(one.alike) < nodes]
    assert len(several) > 50
