"""Keeping house in a whole small cluster: owners and dependents, namespaces, budgets, old events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proreus.engine.controllers.disruption.budgets import reconcile_budget
from proreus.engine.controllers.instructions import UpdateObject
from proreus.engine.objects.kinds import (
    BUDGET,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    JOB,
    NAMESPACE,
    POD,
    REPLICA_SET,
    Kind,
)
from proreus.engine.objects.metadata import owner_reference
from proreus.engine.objects.timestamps import timestamp
from tests.engine.controllers.clusters import Cluster, cluster, deployment, job
from tests.engine.controllers.virtual_time import play

NOW = 1_800_000_000.0


async def _gone(made: Cluster, *kinds: Kind) -> bool:
    return all([not await made.list(kind, "default") for kind in kinds])


async def _running(made: Cluster, number: int) -> bool:
    pods = await made.list(POD, "default")
    return len(pods) == number and all(pod["status"]["phase"] == "Running" for pod in pods)


def test_in_the_background_dependents_follow_their_owner() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment())
            await made.until(lambda: _running(made, 3))
            await made.registry.delete(DEPLOYMENT, "default", "web")
            assert await made.list(DEPLOYMENT) == []
            await made.until(lambda: _gone(made, REPLICA_SET, POD), 60)

    play(main())


@pytest.mark.parametrize("away", [0.0, 5.0])
def test_pods_of_a_job_that_is_deleted_in_the_middle_of_its_work_go(away: float) -> None:
    """Whatever holds them to be counted: nobody is left to count them. Also over a store that is away."""

    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(JOB, job(duration=30, completions=4, parallelism=2))
            await made.until(lambda: _running(made, 2))
            await made.registry.delete(JOB, "default", "sum")
            made.store.away = away > 0
            await asyncio.sleep(away)
            made.store.away = False
            await made.until(lambda: _gone(made, POD), 60)

    play(main())


def test_in_the_foreground_the_owner_goes_last() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment())
            await made.until(lambda: _running(made, 3))
            await made.registry.delete(DEPLOYMENT, "default", "web", propagation="Foreground")
            order = []
            for _ in range(2000):
                state = [bool(await made.list(kind, "default")) for kind in (POD, REPLICA_SET, DEPLOYMENT)]
                if state not in order:
                    order.append(state)
                if not any(state):
                    break
                await asyncio.sleep(0.02)
            assert not any(order[-1])
            assert all(state == sorted(state) for state in order), order  # pods first, the Deployment last

    play(main())


def test_orphans_stay_and_are_taken_up_again() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment())
            await made.until(lambda: _running(made, 3))
            before = {pod["metadata"]["uid"] for pod in await made.list(POD)}
            await made.registry.delete(DEPLOYMENT, "default", "web", propagation="Orphan")
            await made.until(lambda: _gone(made, DEPLOYMENT), 60)
            await asyncio.sleep(30)
            (left,) = await made.list(REPLICA_SET)
            assert not left["metadata"].get("ownerReferences")
            await made.registry.create(DEPLOYMENT, deployment())
            await asyncio.sleep(30)
            (taken,) = await made.list(REPLICA_SET)
            assert taken["metadata"]["ownerReferences"][0]["name"] == "web"
            assert {pod["metadata"]["uid"] for pod in await made.list(POD)} == before

    play(main())


def test_a_dependent_of_two_lives_with_the_one_that_is_left_and_one_of_a_stranger_stays() -> None:
    async def main() -> None:
        async with cluster() as made:
            owners = [
                await made.registry.create(CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}})
                for name in ("one", "two")
            ]
            refs = [{**owner_reference(CONFIG_MAP, owner), "controller": False} for owner in owners]
            strange = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "x"}
            for name, states in (("both", refs), ("strange", [strange])):
                metadata = {"name": name, "namespace": "default", "ownerReferences": states}
                await made.registry.create(CONFIG_MAP, {"metadata": metadata})
            await made.registry.delete(CONFIG_MAP, "default", "one")
            await asyncio.sleep(5)
            both = await made.registry.get(CONFIG_MAP, "default", "both")
            assert [ref["name"] for ref in both["metadata"]["ownerReferences"]] == ["two"]
            await made.registry.delete(CONFIG_MAP, "default", "two")
            await asyncio.sleep(5)
            names = [one["metadata"]["name"] for one in await made.list(CONFIG_MAP, "default")]
            assert names == ["strange"]

    play(main())


def test_a_deleted_namespace_is_emptied_then_gone() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(NAMESPACE, {"metadata": {"name": "team"}})
            wanted = deployment()
            await made.registry.create(
                DEPLOYMENT, {**wanted, "metadata": {"name": "web", "namespace": "team"}}
            )
            await made.registry.create(DEPLOYMENT, deployment())
            await made.until(lambda: _running(made, 3))
            await asyncio.sleep(5)
            assert len(await made.list(POD, "team")) == 3
            await made.registry.delete(NAMESPACE, "", "team")

            async def gone() -> bool:
                return "team" not in {one["metadata"]["name"] for one in await made.list(NAMESPACE)}

            await made.until(gone, 120)
            for kind in (POD, REPLICA_SET, DEPLOYMENT, EVENT):
                assert await made.list(kind, "team") == []
            assert await _running(made, 3)

    play(main())


def test_a_budget_counts_what_may_be_disturbed_now() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=4))
            spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": "25%"}
            await made.registry.create(
                BUDGET, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
            )
            await made.until(lambda: _running(made, 4))
            await asyncio.sleep(2)
            budget = await made.registry.get(BUDGET, "default", "web")
            counts = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
            assert [budget["status"][count] for count in counts] == [4, 3, 4, 1]
            pod = (await made.list(POD))[0]["metadata"]["name"]
            await made.registry.delete(POD, "default", pod)
            await asyncio.sleep(0.2)
            budget = await made.registry.get(BUDGET, "default", "web")
            assert [budget["status"][count] for count in counts] == [4, 3, 3, 0]
            assert budget["status"]["conditions"][0]["reason"] == "InsufficientPods"
            await asyncio.sleep(60)
            budget = await made.registry.get(BUDGET, "default", "web")
            assert budget["status"]["disruptionsAllowed"] == 1

    play(main())


def _pod(name: str, *, ready: bool = True, owned: bool = True) -> dict[str, Any]:
    owners = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}] if owned else []
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": timestamp(NOW)}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners},
        "spec": {},
        "status": {"phase": "Running", "conditions": [condition]},
    }


def _budget(granted: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "b", "namespace": "default", "uid": "b", "generation": 3}
    return {"metadata": metadata, "spec": spec, "status": {"disruptedPods": granted or {}}}


def _counted(budget: dict[str, Any], pods: list[dict[str, Any]], scale: int | None = 5) -> dict[str, Any]:
    plan = reconcile_budget(budget, pods, lambda pod: None if scale is None else ("r", scale), NOW)
    (update,) = plan.instructions
    assert isinstance(update, UpdateObject)
    status: dict[str, Any] = update.object["status"]
    return status


def test_budgets_are_counted_as_the_disruption_controller_counts() -> None:
    pods = [_pod("a"), _pod("b"), _pod("c", ready=False), _pod("d", owned=False)]
    cases: list[tuple[dict[str, Any], tuple[int, ...]]] = [
        ({"minAvailable": 2}, (4, 2, 3, 1)),  # an absolute number: of the pods that there are
        ({"minAvailable": "50%"}, (5, 3, 3, 0)),  # a share: of what their owners ask for, rounded up
        ({"maxUnavailable": 3}, (5, 2, 3, 1)),
        ({"maxUnavailable": "30%"}, (5, 3, 3, 0)),
        ({"maxUnavailable": 9}, (5, 0, 3, 3)),
    ]
    for spec, wanted in cases:
        status = _counted(_budget(**spec), pods)
        counts = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        assert tuple(status[count] for count in counts) == wanted, spec
        assert status["observedGeneration"] == 3
    nobody = _counted(_budget(minAvailable=0), [])
    assert nobody["disruptionsAllowed"] == 0


def test_evictions_that_were_granted_count_as_done_for_two_minutes() -> None:
    pods = [_pod("a"), _pod("b")]
    fresh, stale = timestamp(NOW - 60), timestamp(NOW - 180)
    assert _counted(_budget({"a": fresh}, minAvailable=1), pods)["disruptionsAllowed"] == 0
    assert _counted(_budget({"a": stale}, minAvailable=1), pods)["disruptionsAllowed"] == 1
    status = _counted(_budget({"a": fresh, "gone": fresh}, minAvailable=1), pods)
    assert status["disruptedPods"] == {"a": fresh}


def test_a_budget_over_pods_that_cannot_be_counted_allows_nothing() -> None:
    status = _counted(_budget(maxUnavailable=1), [_pod("a")], scale=None)
    assert status["disruptionsAllowed"] == 0 and status["conditions"][0]["reason"] == "SyncFailed"


def test_events_are_counted_and_forgotten_after_an_hour() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment())
            await made.until(lambda: _running(made, 3))
            await asyncio.sleep(60)
            events = await made.list(EVENT, "default")
            reasons = {event["reason"] for event in events}
            assert {"ScalingReplicaSet", "SuccessfulCreate", "Started"} <= reasons
            await asyncio.sleep(3400)
            assert len(await made.list(EVENT, "default")) == len(events)
            await asyncio.sleep(300)
            assert await made.list(EVENT, "default") == []

    play(main())


def test_events_are_looked_for_only_when_one_can_be_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all of them each minute took a good part of the time where pods come and go."""

    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment())
            await made.until(lambda: _running(made, 3))
            listed, looks = made.registry.list, 0

            async def counting(kind: Kind, *words: Any, **more: Any) -> Any:
                nonlocal looks
                looks += kind is EVENT and bool(more.get("limit"))
                return await listed(kind, *words, **more)

            monkeypatch.setattr(made.registry, "list", counting)
            await asyncio.sleep(3500)
            assert looks == 1
            await asyncio.sleep(300)
            assert looks == 2
            assert await made.list(EVENT, "default") == []

    play(main())
