"""Workloads in a whole small cluster, in virtual time: rollouts, jobs, lost nodes, restarted agents."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from proreus.engine.controllers.nodes.lifecycle import Patience
from proreus.engine.objects.conditions import find_condition
from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, NODE, POD, REPLICA_SET
from tests.engine.controllers.clusters import Cluster, cluster, deployment, job, template
from tests.engine.controllers.virtual_time import play

REVISION = "deployment.kubernetes.io/revision"


async def rolled_out(made: Cluster, name: str = "web") -> dict[str, Any]:
    """As `kubectl rollout status` waits for it."""

    async def done() -> dict[str, Any] | None:
        obj = await made.registry.get(DEPLOYMENT, "default", name)
        status, wanted = obj.get("status", {}), obj["spec"]["replicas"]
        counts = [status.get(one, 0) for one in ("replicas", "updatedReplicas", "availableReplicas")]
        seen = status.get("observedGeneration", 0) >= obj["metadata"]["generation"]
        progressing = find_condition(obj, "Progressing")
        new = progressing is not None and progressing["reason"] == "NewReplicaSetAvailable"
        return obj if seen and new and counts == [wanted] * 3 else None

    rolled_out: dict[str, Any] = await made.until(done, 600)
    return rolled_out


async def change(made: Cluster, **spec: Any) -> None:
    await made.registry.edit(
        DEPLOYMENT, "default", "web", lambda obj: {**obj, "spec": {**obj["spec"], **spec}}
    )


async def live_pods(made: Cluster) -> list[dict[str, Any]]:
    return [pod for pod in await made.list(POD) if "deletionTimestamp" not in pod["metadata"]]


def images(pods: list[dict[str, Any]]) -> Counter[str]:
    return Counter(pod["spec"]["containers"][0]["image"] for pod in pods)


def test_a_deployment_rolls_out_rolls_on_and_rolls_back() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=6))
            first = await rolled_out(made)
            assert first["metadata"]["annotations"][REVISION] == "1"
            fewest, most = 6, 0

            async def watch() -> None:
                nonlocal fewest, most
                while True:
                    pods = await live_pods(made)
                    ready = [
                        pod for pod in pods if (find_condition(pod, "Ready") or {}).get("status") == "True"
                    ]
                    fewest, most = min(fewest, len(ready)), max(most, len(pods))
                    await asyncio.sleep(0.05)

            watching = asyncio.create_task(watch())
            await change(made, template=template("nginx:2", app="web"))
            second = await rolled_out(made)
            watching.cancel()
            assert (fewest, most) == (5, 8)  # 25 % of 6: one fewer that serves, two more
            assert second["metadata"]["annotations"][REVISION] == "2"
            assert images(await live_pods(made)) == {"nginx:2": 6}
            await change(made, template=first["spec"]["template"])
            third = await rolled_out(made)
            assert third["metadata"]["annotations"][REVISION] == "3"
            assert images(await live_pods(made)) == {"nginx:1": 6}
            sets = {
                one["spec"]["template"]["spec"]["containers"][0]["image"]: one
                for one in await made.list(REPLICA_SET)
            }
            assert (
                sets["nginx:1"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
            )
            assert len({one["metadata"]["labels"]["pod-template-hash"] for one in sets.values()}) == 2

    play(main())


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=4))
            await rolled_out(made)
            await change(made, paused=True, template=template("nginx:2", app="web"))
            await asyncio.sleep(30)
            obj = await made.registry.get(DEPLOYMENT, "default", "web")
            assert find_condition(obj, "Progressing")["reason"] == "DeploymentPaused"  # type: ignore[index]
            await change(made, replicas=7)
            await made.until(lambda: _count(made, 7))
            assert images(await live_pods(made)) == {"nginx:1": 7}
            await change(made, paused=False)
            await rolled_out(made)
            assert images(await live_pods(made)) == {"nginx:2": 7}

    play(main())


async def _count(made: Cluster, number: int) -> bool:
    pods = await live_pods(made)
    return len(pods) == number and all(pod["status"]["phase"] == "Running" for pod in pods)


def test_what_was_done_is_not_done_again_while_it_is_not_seen_yet() -> None:
    """Watches of pods lag behind those of ReplicaSets and Jobs: nobody makes pods twice for that."""

    async def main() -> None:
        async with cluster() as made:
            made.store.pods_late = 3.0
            await made.registry.create(DEPLOYMENT, deployment(replicas=5))
            await made.registry.create(JOB, job(completions=4, parallelism=4, duration=1000))
            for _ in range(100):
                pods = await made.list(POD)
                assert sum(pod["metadata"]["labels"].get("app") == "web" for pod in pods) <= 5
                assert sum(pod["metadata"]["labels"].get("job") == "sum" for pod in pods) <= 4
                await asyncio.sleep(0.3)
            assert len(pods) == 9

    play(main())


def test_recreate_never_runs_old_and_new_together() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=3, strategy={"type": "Recreate"}))
            await rolled_out(made)
            await change(made, template=template("nginx:2", app="web"))
            together = False

            async def watch() -> None:
                nonlocal together
                while True:
                    together = together or len(images(await made.list(POD))) > 1
                    await asyncio.sleep(0.02)

            watching = asyncio.create_task(watch())
            await rolled_out(made)
            watching.cancel()
            assert not together and images(await live_pods(made)) == {"nginx:2": 3}

    play(main())


def test_a_rollout_that_does_not_get_on_is_called_late_and_history_is_limited() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(
                DEPLOYMENT, deployment(progressDeadlineSeconds=60, revisionHistoryLimit=1)
            )
            await rolled_out(made)
            for number in (2, 3, 4):
                await change(made, template=template(f"nginx:{number}", app="web"))
                await rolled_out(made)
            await made.until(lambda: _sets(made, 2))
            broken = template("nginx:5", app="web")
            broken["metadata"]["annotations"] = {"proreus.io/ready-after": "1e9"}
            await change(made, template=broken)
            begun = made.timers.steady()

            async def late() -> bool:
                obj = await made.registry.get(DEPLOYMENT, "default", "web")
                return (find_condition(obj, "Progressing") or {}).get("reason") == "ProgressDeadlineExceeded"

            await made.until(late)
            assert 60 <= made.timers.steady() - begun < 75
            assert (
                images(
                    [
                        live_pod
                        for live_pod in await live_pods(made)
                        if live_pod["status"]["phase"] == "Running"
                    ]
                )["nginx:4"]
                >= 2
            )

    play(main())


async def _sets(made: Cluster, number: int) -> bool:
    return len(await made.list(REPLICA_SET)) == number


async def job_end(made: Cluster, name: str = "sum") -> dict[str, Any]:
    async def done() -> dict[str, Any] | None:
        obj = await made.registry.get(JOB, "default", name)
        ends = (find_condition(obj, "Complete"), find_condition(obj, "Failed"))
        return obj if any(end is not None and end["status"] == "True" for end in ends) else None

    job_end: dict[str, Any] = await made.until(done, 7200)
    return job_end


def test_a_job_completes_with_its_parallelism_and_goes_after_its_time() -> None:
    async def main() -> None:
        async with cluster() as made:
            wanted = job(completions=5, parallelism=2, ttlSecondsAfterFinished=100)
            await made.registry.create(JOB, wanted)
            most = 0

            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, sum(pod["status"]["phase"] == "Running" for pod in await made.list(POD)))
                    await asyncio.sleep(0.2)

            watching = asyncio.create_task(watch())
            ended = await job_end(made)
            watching.cancel()
            assert (ended["status"]["succeeded"], most) == (5, 2)
            assert "completionTime" in ended["status"] and not ended["status"]["uncountedTerminatedPods"]
            await asyncio.sleep(90)
            assert len(await made.list(POD)) == 5
            await made.until(lambda: _nothing(made, JOB), 60)
            await made.until(lambda: _nothing(made, POD), 60)

    play(main())


async def _nothing(made: Cluster, kind: Any) -> bool:
    return not await made.list(kind)


def test_a_job_that_fails_is_tried_again_after_pauses_until_its_limit() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(
                JOB, job(duration=1, backoffLimit=3, annotations={"proreus.io/exit-code": "1"})
            )
            ended = await job_end(made)
            condition = find_condition(ended, "Failed")
            assert condition is not None and condition["reason"] == "BackoffLimitExceeded"
            assert ended["status"]["failed"] == 4
            # Pauses of 10, 20 and 40 s lie between the four attempts.
            assert 70 <= made.timers.steady() < 100

    play(main())


def test_a_job_is_suspended_resumed_and_ended_at_its_deadline() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(JOB, job(duration=1e6, completions=3, parallelism=3, suspend=True))
            await asyncio.sleep(30)
            assert await made.list(POD) == []

            def resumed(obj: dict[str, Any]) -> dict[str, Any]:
                return {**obj, "spec": {**obj["spec"], "suspend": False, "activeDeadlineSeconds": 50}}

            await made.registry.edit(JOB, "default", "sum", resumed)
            await made.until(lambda: _count(made, 3))
            begun = made.timers.steady()
            ended = await job_end(made)
            assert find_condition(ended, "Failed")["reason"] == "DeadlineExceeded"  # type: ignore[index]
            assert 45 <= made.timers.steady() - begun < 60
            assert find_condition(ended, "Suspended")["status"] == "False"  # type: ignore[index]
            assert await live_pods(made) == []

    play(main())


def test_an_indexed_job_completes_each_index_once() -> None:
    async def main() -> None:
        async with cluster() as made:
            spec: dict[str, Any] = {
                "completionMode": "Indexed",
                "completions": 4,
                "parallelism": 3,
                "backoffLimit": 50,
            }
            await made.registry.create(JOB, job(annotations={"proreus.io/failure-rate": "0.4"}, **spec))
            ended = await job_end(made)
            assert (ended["status"]["succeeded"], ended["status"]["completedIndexes"]) == (4, "0-3")
            done = [pod for pod in await made.list(POD) if pod["status"]["phase"] == "Succeeded"]
            indexes = [
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in done
            ]
            assert sorted(indexes) == ["0", "1", "2", "3"]

    play(main())


def test_a_job_overlooks_whom_others_sent_away_and_not_who_failed() -> None:
    async def main() -> None:
        async with cluster() as made:
            overlook = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
            policy = {"rules": [overlook]}
            await made.registry.create(JOB, job(duration=100, backoffLimit=0, podFailurePolicy=policy))

            async def running() -> dict[str, Any] | None:
                pods = [pod for pod in await made.list(POD) if pod["status"].get("phase") == "Running"]
                return next((pod for pod in pods if "deletionTimestamp" not in pod["metadata"]), None)

            seen = set()
            for _ in range(3):
                pod = await made.until(running, 100)
                seen.add(pod["metadata"]["uid"])
                await made.registry.evict("default", pod["metadata"]["name"])
                await asyncio.sleep(40)
            ended = await job_end(made)
            assert len(seen) == 3 and find_condition(ended, "Complete") is not None
            assert "failed" not in ended["status"]
            await made.registry.create(
                JOB,
                job(
                    "next",
                    duration=5,
                    backoffLimit=0,
                    podFailurePolicy=policy,
                    annotations={"proreus.io/exit-code": "3"},
                ),
            )
            failed = find_condition(await job_end(made, "next"), "Failed")
            assert failed is not None and failed["reason"] == "BackoffLimitExceeded"

    play(main())


@pytest.mark.parametrize("toleration", [30.0, 300.0])
def test_pods_of_a_lost_node_are_moved_within_the_stated_time(toleration: float) -> None:
    async def main() -> None:
        async with cluster(4, Patience(grace=40, toleration=toleration)) as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=8))
            await rolled_out(made)
            lost_at = made.timers.steady()
            await made.stop_node("node-2")

            async def moved() -> bool:
                pods = await live_pods(made)
                elsewhere = [pod for pod in pods if pod["spec"].get("nodeName") not in (None, "node-2")]
                return bool(sum(pod["status"]["phase"] == "Running" for pod in elsewhere) == 8)

            await made.until(moved, 2000)
            # The grace from the last sign of life (at most 10 s before), the toleration, and a few seconds.
            assert 30 + toleration <= made.timers.steady() - lost_at <= 40 + toleration + 10
            node = await made.registry.get(NODE, "", "node-2")
            assert find_condition(node, "Ready")["status"] == "Unknown"  # type: ignore[index]
            made.start_nodes("node-2", keep_runtimes=True)
            await made.until(lambda: _well(made, "node-2"), 60)
            await made.until(lambda: _none_leaving(made), 60)
            assert made.runtimes["node-2"].stats() == []

    play(main())


async def _well(made: Cluster, name: str) -> bool:
    node = await made.registry.get(NODE, "", name)
    return bool(find_condition(node, "Ready")["status"] == "True" and not node["spec"].get("taints"))  # type: ignore[index]


async def _none_leaving(made: Cluster) -> bool:
    return all("deletionTimestamp" not in pod["metadata"] for pod in await made.list(POD))


@pytest.mark.parametrize("keep", [True, False])
def test_an_agent_that_restarts_adopts_what_runs(keep: bool) -> None:
    """With its runtime, or with a new one that takes up what the status says."""

    async def main() -> None:
        async with cluster(1) as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=4))
            await rolled_out(made)
            before = {
                pod["metadata"]["uid"]: pod["status"]["containerStatuses"] for pod in await made.list(POD)
            }
            await made.stop_node("node-0")
            await asyncio.sleep(20)
            made.start_nodes("node-0", keep_runtimes=keep)
            await asyncio.sleep(100)
            after = {
                pod["metadata"]["uid"]: pod["status"]["containerStatuses"] for pod in await made.list(POD)
            }
            assert after == before
            assert len(made.runtimes["node-0"].stats()) == 4

    play(main())


def test_where_only_what_has_ended_is_replaced_no_two_pods_run_at_once() -> None:
    async def main() -> None:
        async with cluster(3, Patience(grace=40, toleration=30)) as made:
            await made.registry.create(JOB, job(duration=300, podReplacementPolicy="Failed"))
            (pod,) = await made.until(lambda: _running(made))
            node = pod["spec"]["nodeName"]
            await made.stop_node(node)  # its agent is silent, but what it runs may well run on
            await asyncio.sleep(200)
            assert len(made.runtimes[node].stats()) == 1
            assert len(await made.list(POD)) == 1
            made.start_nodes(node, keep_runtimes=True)
            ended = await job_end(made)
            assert ended["status"]["succeeded"] == 1

    play(main())


async def _running(made: Cluster) -> list[dict[str, Any]]:
    return [pod for pod in await made.list(POD) if pod["status"]["phase"] == "Running"]


def test_a_bare_pod_is_moved_only_where_it_asks_for_it() -> None:
    async def main() -> None:
        async with cluster(2, Patience(grace=40, toleration=10)) as made:
            for name, wish in (("stays-away", {}), ("comes-back", {"proreus.io/reschedule": "true"})):
                made_of = template(app=name)
                metadata = {"name": name, "namespace": "default", "annotations": wish}
                await made.registry.create(POD, {"metadata": metadata, "spec": made_of["spec"]})
            first = await made.until(lambda: _both_run(made))
            for node in {pod["spec"]["nodeName"] for pod in first}:
                await made.registry.edit(NODE, "", node, _closed)
            old = {pod["metadata"]["uid"] for pod in first}
            await made.until(lambda: _all_new(made, old), 300)
            assert [pod["metadata"]["name"] for pod in await made.list(POD)] == ["comes-back"]

    play(main())


def _closed(node: dict[str, Any]) -> dict[str, Any]:
    taint = {"key": "maintenance", "effect": "NoExecute"}
    return {**node, "spec": {**node["spec"], "taints": [taint]}}


async def _both_run(made: Cluster) -> list[dict[str, Any]] | None:
    pods = await _running(made)
    return pods if len(pods) == 2 else None


async def _all_new(made: Cluster, old: set[str]) -> bool:
    pods = await made.list(POD)
    return bool(pods) and not any(pod["metadata"]["uid"] in old for pod in pods)


def test_all_nodes_silent_at_once_evicts_nobody() -> None:
    async def main() -> None:
        async with cluster(3, Patience(grace=40, toleration=10)) as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=3))
            await rolled_out(made)
            before = {pod["metadata"]["uid"] for pod in await live_pods(made)}
            for name in list(made.hosts):
                await made.stop_node(name)
            await asyncio.sleep(3600)
            assert {pod["metadata"]["uid"] for pod in await live_pods(made)} == before
            made.start_nodes("node-0", "node-1", "node-2", keep_runtimes=True)
            await rolled_out(made)
            await asyncio.sleep(100)
            assert {pod["metadata"]["uid"] for pod in await live_pods(made)} == before

    play(main())


def test_pods_of_a_deleted_node_are_ended() -> None:
    async def main() -> None:
        async with cluster(2) as made:
            await made.registry.create(DEPLOYMENT, deployment(replicas=2))
            await rolled_out(made)
            await made.stop_node("node-1")
            await made.registry.delete(NODE, "", "node-1")
            await asyncio.sleep(60)
            pods = await made.list(POD)
            assert [pod["spec"]["nodeName"] for pod in pods] == ["node-0", "node-0"]
            with pytest.raises(NotFound):
                await made.registry.get(NODE, "", "node-1")

    play(main())
