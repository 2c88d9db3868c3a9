"""What Kubernetes' own conformance suite found wanting, each spec as a scene in a small cluster."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.controllers.namespaces.controller import note_api
from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    POD,
    SERVICE,
    SERVICE_ACCOUNT,
)
from proreus.engine.objects.metadata import owner_reference
from tests.engine.controllers.clusters import Cluster, cluster, deployment, job, template
from tests.engine.controllers.virtual_time import play

HANGS_AT_ODD = """
    if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then
        sleep 1000000
    fi
    exit 0
"""


def with_script(made: dict[str, Any], script: str) -> dict[str, Any]:
    """A Job whose pods run this, as long as that takes."""
    pods = made["spec"]["template"]
    pods["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", script]
    del pods["metadata"]["annotations"]["proreus.io/duration"]
    return made


async def condition(made: Cluster, kind: str) -> dict[str, Any] | None:
    conditions = (await made.registry.get(JOB, "default", "sum")).get("status", {}).get("conditions") or []
    return next((told for told in conditions if told["type"] == kind and told["status"] == "True"), None)


def test_a_job_at_its_end_has_none_ready_and_none_terminating() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(JOB, job(completions=2, parallelism=2))
            await made.until(lambda: condition(made, "Complete"))
            status = (await made.registry.get(JOB, "default", "sum"))["status"]
            assert (status["ready"], status["terminating"], status["succeeded"]) == (0, 0, 2)
            assert "active" not in status and "failed" not in status

    play(main())


def test_a_job_fails_where_its_command_says_exit_1() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(JOB, with_script(job(backoffLimit=1), "exit 1"))
            failed = await made.until(lambda: condition(made, "Failed"))
            assert failed["reason"] == "BackoffLimitExceeded"
            status = (await made.registry.get(JOB, "default", "sum"))["status"]
            assert (status["failed"], status["ready"], status["terminating"]) == (2, 0, 0)

    play(main())


def test_a_success_policy_counts_the_index_that_ended_and_not_those_that_hang() -> None:
    async def main() -> None:
        async with cluster() as made:
            wanted = job(
                completions=2,
                parallelism=2,
                completionMode="Indexed",
                successPolicy={"rules": [{"succeededCount": 1}]},
            )
            await made.registry.create(JOB, with_script(wanted, HANGS_AT_ODD))
            complete = await made.until(lambda: condition(made, "Complete"))
            assert complete["reason"] == "SuccessPolicy"
            status = (await made.registry.get(JOB, "default", "sum"))["status"]
            assert status["completedIndexes"] == "0" and status["succeeded"] == 1
            assert (status["ready"], status["terminating"]) == (0, 0)

    play(main())


@pytest.mark.parametrize("all_at_once", [False, True])
def test_a_circle_of_owners_does_not_block_a_foreground_deletion(all_at_once: bool) -> None:
    names = ("one", "two", "three")

    async def main() -> None:
        async with cluster() as made:
            for name in names:
                metadata = {"name": name, "namespace": "default"}
                await made.registry.create(POD, {"metadata": metadata, "spec": template()["spec"]})
            pods = {name: await made.registry.get(POD, "default", name) for name in names}
            for name, owner in zip(names, (names[-1], *names), strict=False):
                owned = {**owner_reference(POD, pods[owner]), "controller": False, "blockOwnerDeletion": True}

                def change(pod: dict[str, Any], owned: dict[str, Any] = owned) -> dict[str, Any]:
                    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owned]}}

                await made.registry.edit(POD, "default", name, change)
            for name in names if all_at_once else names[:1]:
                await made.registry.delete(POD, "default", name, propagation="Foreground")

            async def gone() -> bool:
                return not await made.list(POD, "default")

            await made.until(gone, 120)

    play(main())


def test_of_a_namespace_pods_go_first_and_its_conditions_say_what_is_left() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(NAMESPACE, {"metadata": {"name": "team"}})
            held = {"name": "held", "namespace": "team", "finalizers": ["example.com/keep"]}
            await made.registry.create(POD, {"metadata": held, "spec": template()["spec"]})
            await made.registry.create(CONFIG_MAP, {"metadata": {"name": "words", "namespace": "team"}})
            await made.registry.delete(NAMESPACE, "", "team")

            async def told() -> dict[str, dict[str, Any]]:
                status = (await made.registry.get(NAMESPACE, "", "team")).get("status", {})
                return {one["type"]: one for one in status.get("conditions") or ()}

            conditions = await made.until(told)
            left = conditions["NamespaceContentRemaining"]
            assert (left["status"], left["reason"]) == ("True", "SomeResourcesRemain")
            assert left["message"] == "Some resources are remaining: pods. has 1 resource instances"
            finalizers = conditions["NamespaceFinalizersRemaining"]
            assert finalizers["status"] == "True"
            assert "example.com/keep in 1 resource instances" in finalizers["message"]
            assert conditions["NamespaceDeletionContentFailure"]["status"] == "False"
            assert [one["metadata"]["name"] for one in await made.list(CONFIG_MAP, "team")] == ["words"]

            def freed(pod: dict[str, Any]) -> dict[str, Any]:
                return {**pod, "metadata": {**pod["metadata"], "finalizers": []}}

            await made.registry.edit(POD, "team", "held", freed)

            async def gone() -> bool:
                return "team" not in [one["metadata"]["name"] for one in await made.list(NAMESPACE)]

            await made.until(gone, 120)

    play(main())


def test_every_namespace_has_its_account_and_the_certificate_and_they_come_back() -> None:
    async def main() -> None:
        async with cluster() as made:
            await made.registry.create(NAMESPACE, {"metadata": {"name": "team"}})

            async def complete(authority: str) -> bool:
                for namespace in await made.list(NAMESPACE):
                    name = namespace["metadata"]["name"]
                    try:
                        await made.registry.get(SERVICE_ACCOUNT, name, "default")
                        certificate = await made.registry.get(CONFIG_MAP, name, "kube-root-ca.crt")
                    except StatusError:
                        return False
                    if certificate["data"] != {"ca.crt": authority}:
                        return False
                return True

            await note_api(made.registry, 6480, "PEM 1")
            await made.until(lambda: complete("PEM 1"), 60)
            service = await made.registry.get(SERVICE, "default", "kubernetes")
            assert service["spec"]["ports"][0]["targetPort"] == 6480
            await made.registry.delete(SERVICE_ACCOUNT, "team", "default")
            await made.registry.delete(CONFIG_MAP, "team", "kube-root-ca.crt")
            await made.until(lambda: complete("PEM 1"), 60)
            await note_api(made.registry, 6481, "PEM 2")  # another start, with another certificate
            await made.until(lambda: complete("PEM 2"), 60)
            service = await made.registry.get(SERVICE, "default", "kubernetes")
            assert service["spec"]["ports"][0]["targetPort"] == 6481
            await made.registry.delete(NAMESPACE, "", "team")

            async def gone() -> bool:
                return not [
                    one
                    for kind in (SERVICE_ACCOUNT, CONFIG_MAP)
                    for one in await made.list(kind)
                    if one["metadata"]["namespace"] == "team"
                ]

            await made.until(gone, 60)

    play(main())


@pytest.mark.parametrize("image", ["webserver:404", "registry.invalid/team/app:1", "invalid:5000/app"])
def test_pods_of_an_image_that_says_it_does_not_exist_are_never_ready(image: str) -> None:
    async def main() -> None:
        async with cluster() as made:
            wanted = deployment(replicas=1)
            wanted["spec"]["template"]["spec"]["containers"][0]["image"] = image
            await made.registry.create(DEPLOYMENT, wanted)

            async def reason() -> str:
                for pod in await made.list(POD, "default"):
                    for container in pod["status"].get("containerStatuses") or ():
                        return str(container["state"].get("waiting", {}).get("reason", ""))
                return ""

            await made.until(lambda: _is(reason, "ErrImagePull"), 60)
            await made.until(lambda: _is(reason, "ImagePullBackOff"), 60)
            pods = await made.list(POD, "default")
            assert [pod["status"]["phase"] for pod in pods] == ["Pending"]

    play(main())


async def _is(reason: Any, wanted: str) -> bool:
    return bool(await reason() == wanted)
