"""What becomes of a Job whose pods fail: by exit code, by condition, index by index; and what is success."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.controllers.instructions import DeleteObject, UpdateObject
from proreus.engine.controllers.workloads.job_indexes import FAILURES, IGNORED, index_of
from proreus.engine.controllers.workloads.job_pods import FINALIZER
from proreus.engine.controllers.workloads.jobs import reconcile_job
from proreus.engine.objects.conditions import find_condition
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.timestamps import timestamp
from tests.engine.controllers.clusters import job
from tests.engine.controllers.test_workload_laws import NOW, Object, World


class Played:
    """A Job, its pods, and time."""

    def __init__(self, **spec: Any) -> None:
        self.world, self.now = World(), NOW
        self.job = job(**spec)
        self.job["metadata"] |= {"uid": "j", "generation": 1, "creationTimestamp": timestamp(NOW)}

    def look(self, seconds: float = 1000.0) -> None:
        """Some time later, the agent looks until nothing changes."""
        self.now += seconds
        for _ in range(20):
            changed = False
            for instruction in reconcile_job(self.job, self.world.of(POD), self.now).instructions:
                changed = True
                if isinstance(instruction, UpdateObject) and instruction.subresource == "status":
                    self.job = instruction.object
                elif isinstance(instruction, DeleteObject) and FINALIZER in instruction.object[
                    "metadata"
                ].get("finalizers", ()):
                    deleted = {**instruction.object["metadata"], "deletionTimestamp": timestamp(self.now)}
                    self.world.do((UpdateObject(POD, {**instruction.object, "metadata": deleted}),))
                    self.end(instruction.object["metadata"]["uid"], "Failed", 143)
                else:
                    self.world.do((instruction,))
            if not changed:
                return
        raise AssertionError("it never comes to rest")

    def living(self) -> list[Object]:
        return [pod for pod in self.world.of(POD) if pod["status"]["phase"] == "Pending"]

    def of(self, index: int) -> str:
        """The uid of the pod that works on an index."""
        (found,) = (pod["metadata"]["uid"] for pod in self.living() if index_of(pod) == index)
        return str(found)

    def end(self, uid: str, phase: str, code: int = 0, *conditions: str) -> None:
        _, pod = self.world.objects[uid]
        terminated = {"exitCode": code, "finishedAt": timestamp(self.now), "startedAt": timestamp(self.now)}
        status = {
            "phase": phase,
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
            "conditions": [{"type": condition, "status": "True"} for condition in conditions],
        }
        self.world.objects[uid] = (POD, {**pod, "status": status})

    def ended(self) -> tuple[str, str, str] | None:
        """(how, why, in what words)."""
        for kind in ("Complete", "Failed"):
            condition = find_condition(self.job, kind)
            if condition is not None and condition["status"] == "True":
                return kind, condition["reason"], condition["message"]
        return None


def _codes(action: str, *values: int, operator: str = "In") -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}


def _policy(*rules: Object, **spec: Any) -> Played:
    return Played(podFailurePolicy={"rules": list(rules)}, podReplacementPolicy="Failed", **spec)


def test_an_exit_code_ends_the_whole_job_at_once() -> None:
    played = _policy(_codes("Ignore", 7), _codes("FailJob", 42), completions=4, parallelism=3)
    played.look()
    first = played.living()[0]["metadata"]
    played.end(first["uid"], "Failed", 42)
    played.look()
    name = f"{first['namespace']}/{first['name']}"
    message = f"Container main for pod {name} failed with exit code 42 matching FailJob rule at index 1"
    assert played.ended() == ("Failed", "PodFailurePolicy", message)
    assert not played.living() and played.job["status"]["failed"] == 3, "the others were ended"


def test_the_first_rule_that_is_met_counts_and_zero_is_no_failure() -> None:
    played = _policy(_codes("Count", 1), _codes("FailJob", 1, 2), _codes("Ignore", 3, operator="NotIn"))
    for code, failures in ((1, 1), (3, 2), (9, 2)):
        played.look()
        played.end(played.living()[0]["metadata"]["uid"], "Failed", code)
        played.look()
        assert played.job["status"].get("failed", 0) == failures and played.ended() is None


def test_a_disruption_is_overlooked_as_often_as_it_happens() -> None:
    pattern = {"type": "DisruptionTarget", "status": "True"}
    played = _policy({"action": "Ignore", "onPodConditions": [pattern]}, backoffLimit=0)
    for _ in range(5):
        played.look()
        played.end(played.living()[0]["metadata"]["uid"], "Failed", 137, "DisruptionTarget")
    played.look()
    assert "failed" not in played.job["status"] and len(played.living()) == 1
    assert sum(FINALIZER in pod["metadata"]["finalizers"] for pod in played.world.of(POD)) == 1
    played.end(played.living()[0]["metadata"]["uid"], "Failed", 137)
    played.look()
    assert played.ended() == (
        "Failed",
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )


def test_a_pod_that_nobody_can_end_any_more_is_replaced() -> None:
    played = _policy(_codes("FailJob", 42))
    played.look()
    (pod,) = played.living()
    for grace, living in ((30, 1), (0, 2)):
        deleted = {"deletionTimestamp": timestamp(played.now), "deletionGracePeriodSeconds": grace}
        played.world.do((UpdateObject(POD, {**pod, "metadata": {**pod["metadata"], **deleted}}),))
        played.look()
        assert len(played.living()) == living, "one that may still run is waited for"
    assert played.job["status"]["failed"] == 1


def _indexed(completions: int = 3, limit: int | None = 1, **spec: Any) -> Played:
    per_index = {} if limit is None else {"backoffLimitPerIndex": limit, "backoffLimit": 2**31 - 1}
    return Played(
        completionMode="Indexed", completions=completions, parallelism=completions, **per_index, **spec
    )


def test_an_index_that_fails_too_often_is_given_up_and_the_others_go_on() -> None:
    played = _indexed()
    played.look()
    for _ in range(2):
        played.end(played.of(1), "Failed", 1)
        played.look()
    assert played.job["status"]["failedIndexes"] == "1" and played.ended() is None
    assert sorted(index_of(pod) or 0 for pod in played.living()) == [0, 2]
    for index in (0, 2):
        played.end(played.of(index), "Succeeded")
    played.look()
    status = played.job["status"]
    assert played.ended() == ("Failed", "FailedIndexes", "Job has failed indexes")
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert (status["succeeded"], status["failed"]) == (2, 2)


def test_each_index_has_pauses_and_counts_of_its_own() -> None:
    played = _indexed(limit=9)
    played.look()
    for failures, pause in ((1, 10.0), (2, 20.0), (3, 40.0)):
        played.end(played.of(1), "Failed", 1)
        played.look(pause - 1)
        assert sorted(index_of(pod) or 0 for pod in played.living()) == [0, 2]
        kept = [pod for pod in played.world.of(POD) if index_of(pod) == 1 and FINALIZER in _finalizers(pod)]
        assert len(kept) == 1, "the next one reads its count from it: it must not go before"
        played.look(2.0)
        _, next_one = played.world.objects[played.of(1)]
        assert next_one["metadata"]["annotations"][FAILURES] == str(failures)
        assert played.job["status"]["failed"] == failures


def _finalizers(pod: Object) -> list[str]:
    return list(pod["metadata"].get("finalizers") or ())


def test_what_is_overlooked_does_not_count_against_an_index() -> None:
    rules = {"rules": [_codes("Ignore", 5), _codes("FailIndex", 6)]}
    played = _indexed(podFailurePolicy=rules, podReplacementPolicy="Failed")
    played.look()
    for _ in range(3):
        played.end(played.of(0), "Failed", 5)
        played.look()
    _, pod = played.world.objects[played.of(0)]
    annotations = pod["metadata"]["annotations"]
    assert (annotations[FAILURES], annotations[IGNORED]) == ("0", "3")
    played.end(played.of(0), "Failed", 6)
    played.look()
    assert played.job["status"]["failedIndexes"] == "0"


def test_too_many_failed_indexes_end_the_job() -> None:
    played = _indexed(4, 0, maxFailedIndexes=1)
    played.look()
    for index in (0, 1):
        played.end(played.of(index), "Failed", 1)
    played.look()
    message = "Job has exceeded the specified maximal number of failed indexes"
    assert played.ended() == ("Failed", "MaxFailedIndexesExceeded", message)
    assert played.job["status"]["failed"] == 4 and not played.living()


@pytest.mark.parametrize(
    ("rule", "enough"),
    [
        ({"succeededIndexes": "1,3"}, [0, 1, 3]),
        ({"succeededCount": 2}, [0, 1]),
        ({"succeededIndexes": "1-3", "succeededCount": 2}, [0, 1, 2]),
    ],
)
def test_enough_is_success_and_the_rest_is_ended(rule: Object, enough: list[int]) -> None:
    played = _indexed(4, None, successPolicy={"rules": [{"succeededCount": 4}, rule]})
    played.look()
    for place, index in enumerate(enough):
        assert played.ended() is None, f"after {enough[:place]}"
        played.end(played.of(index), "Succeeded")
        played.look()
    assert played.ended() == ("Complete", "SuccessPolicy", "Matched rules at index 1")
    assert not played.living() and played.job["status"]["succeeded"] == len(enough)


def test_two_pods_for_one_index_become_one() -> None:
    played = _indexed(limit=None)
    played.look()
    _, twin = played.world.objects[played.of(1)]
    played.world.put(POD, twin)
    assert len(played.living()) == 4
    played.look()
    assert sorted(index_of(pod) or 0 for pod in played.living()) == [0, 1, 2]
