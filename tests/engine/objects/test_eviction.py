"""Evictions within disruption budgets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proreus.engine.objects.errors import Conflict, NotFound, TooManyRequests
from proreus.engine.objects.kinds import BUDGET, POD
from proreus.engine.objects.registry import Registry
from tests.engine.objects.worlds import pod, with_registry

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


async def _running(registry: Registry, name: str, status: dict[str, Any] = READY) -> None:
    await registry.create(POD, pod(name, nodeName="node-1"))
    await _status(registry, POD, name, status)


async def _status(registry: Registry, kind: Any, name: str, status: dict[str, Any]) -> None:
    await registry.edit(kind, "default", name, lambda obj: {**obj, "status": status}, subresource="status")


async def _budget(registry: Registry, allowed: int, *, observed: int = 1, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    await registry.create(
        BUDGET, {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": selector, **spec}}
    )
    status = {
        "disruptionsAllowed": allowed,
        "observedGeneration": observed,
        "desiredHealthy": 2,
        "currentHealthy": 1,
    }
    await _status(registry, BUDGET, "web", status)


def test_a_budget_allows_so_many_at_once() -> None:
    async def scenario(registry: Registry) -> None:
        for name in ("a", "b", "c", "d"):
            await _running(registry, name)
        await _budget(registry, 2)
        outcomes = await asyncio.gather(
            *(registry.evict("default", name) for name in "abcd"), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if outcome is not None]
        assert len(refused) == 2 and all(isinstance(error, TooManyRequests) for error in refused)
        status = (await registry.get(BUDGET, "default", "web"))["status"]
        assert status["disruptionsAllowed"] == 0 and len(status["disruptedPods"]) == 2
        pods = (await registry.list(POD, "default")).items
        going = {one["metadata"]["name"] for one in pods if "deletionTimestamp" in one["metadata"]}
        assert going == set(status["disruptedPods"])

    with_registry(scenario)


def test_a_refusal_names_the_budget_and_changes_nothing() -> None:
    async def scenario(registry: Registry) -> None:
        await _running(registry, "a")
        await _budget(registry, 0)
        with pytest.raises(TooManyRequests, match="would violate the pod's disruption budget") as refused:
            await registry.evict("default", "a")
        (cause,) = refused.value.causes
        assert cause.reason == "DisruptionBudget"
        assert cause.message == "The disruption budget web needs 2 healthy pods and has 1 currently"
        assert "deletionTimestamp" not in (await registry.get(POD, "default", "a"))["metadata"]

    with_registry(scenario)


def test_a_budget_that_nobody_has_looked_at_yet_allows_nothing() -> None:
    async def scenario(registry: Registry) -> None:
        await _running(registry, "a")
        await _budget(registry, 5, observed=0)
        with pytest.raises(TooManyRequests) as refused:
            await registry.evict("default", "a")
        assert "still being processed" in refused.value.causes[0].message

    with_registry(scenario)


@pytest.mark.parametrize("status", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"phase": "Pending"}])
def test_a_pod_that_does_no_work_needs_no_leave(status: dict[str, Any]) -> None:
    async def scenario(registry: Registry) -> None:
        await _running(registry, "a", status)
        await _budget(registry, 0)
        await registry.evict("default", "a", grace=0)
        with pytest.raises(NotFound):
            await registry.get(POD, "default", "a")

    with_registry(scenario)


def test_pods_that_are_not_ready_go_where_the_budget_says_so() -> None:
    async def scenario(registry: Registry) -> None:
        await _running(registry, "a", UNREADY)
        await _budget(registry, 0, unhealthyPodEvictionPolicy="AlwaysAllow")
        await registry.evict("default", "a", grace=0)
        with pytest.raises(NotFound):
            await registry.get(POD, "default", "a")

    with_registry(scenario)


def test_without_a_budget_it_goes_and_a_dry_run_only_asks() -> None:
    async def scenario(registry: Registry) -> None:
        await _running(registry, "a")
        await registry.evict("default", "a", dry_run=True)
        assert "deletionTimestamp" not in (await registry.get(POD, "default", "a"))["metadata"]
        with pytest.raises(Conflict):
            await registry.evict("default", "a", uid="another")
        await registry.evict("default", "a", grace=5)
        assert (await registry.get(POD, "default", "a"))["metadata"]["deletionGracePeriodSeconds"] == 5

    with_registry(scenario)
