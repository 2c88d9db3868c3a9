"""A status may hold a condition that says nothing, not even its type; agents go on all the same."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.controllers.instructions import DeleteObject, UpdateObject
from proreus.engine.controllers.nodes import lifecycle
from proreus.engine.controllers.workloads.deployments import reconcile_deployment
from proreus.engine.controllers.workloads.job_failure_policy import matched
from proreus.engine.controllers.workloads.job_pods import finished_at
from proreus.engine.controllers.workloads.jobs import reconcile_job
from proreus.engine.controllers.workloads.pods import first_to_go, ready_since, seconds_to_available
from proreus.engine.kubelet.node_status import NodeSpec, NodeState, new_node, node_status
from proreus.engine.kubelet.pod_status import StatusInputs, pod_status
from proreus.engine.objects.conditions import find_condition, moment_of
from proreus.engine.objects.timestamps import parse_timestamp, timestamp
from proreus.engine.runtimes.protocol import Capacity
from tests.engine.controllers.clusters import deployment, job, template
from tests.engine.controllers.test_job_failure_policy import Played


def pod(name: str) -> dict[str, Any]:
    """One of the template."""
    found = template()
    return {**found, "metadata": {**found["metadata"], "name": name, "namespace": "default", "uid": name}}


BARE: list[dict[str, Any]] = [{}, {"type": "Other"}, {"status": "True"}]


def test_a_jobs_rules_pass_over_it() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    failing = {**pod("p"), "status": {"phase": "Failed", "conditions": BARE}}
    assert matched(job(podFailurePolicy={"rules": rules}), failing) is None
    failing["status"]["conditions"] = [*BARE, {"type": "DisruptionTarget", "status": "True"}]
    found = matched(job(podFailurePolicy={"rules": rules}), failing)
    assert found is not None and "DisruptionTarget" in str(found)


def test_a_job_with_one_comes_to_its_end() -> None:
    played = Played()
    played.job["status"] = {"conditions": BARE}
    played.look()
    for living in played.living():
        played.end(living["metadata"]["uid"], "Succeeded")
    played.look()
    complete = find_condition(played.job, "Complete")
    assert complete is not None and complete["status"] == "True"


def test_a_pod_that_is_gated_waits_on() -> None:
    gated = pod("p")
    gated["spec"]["readinessGates"] = [{"conditionType": "example.com/open"}]
    gated["status"] = {"conditions": BARE}
    told = pod_status(StatusInputs(gated, None, {}, {}, None, 0.0, "10.0.0.1", 0.0))
    ready = next(condition for condition in told["conditions"] if condition.type == "Ready")
    assert ready.status == "False"


def test_a_node_is_heard_of_and_lost() -> None:
    spec, state = NodeSpec("n", "10.0.0.1"), NodeState(Capacity({"cpu": "1"}, {"cpu": "1"}))
    node = new_node(spec, state, 0.0)
    node["status"]["conditions"] = BARE
    heard = node_status(node, spec, state, 1.0)
    assert find_condition({"status": heard}, "Ready") is not None
    assert [condition.type for condition in lifecycle._unknown({"conditions": BARE})] == ["Other", "Ready"]


@pytest.mark.parametrize("kind", ["Progressing", "Available", "ReplicaFailure"])
@pytest.mark.parametrize("stated", [{}, {"status": "True"}, {"status": "True", "reason": None}])
def test_a_deployment_whose_condition_says_little_is_rolled_out(kind: str, stated: dict[str, Any]) -> None:
    """Of a condition only its type need be there; a fuzzer wrote one, and its Deployment stood still."""
    made = deployment(progressDeadlineSeconds=600)
    made["metadata"] |= {"uid": "u", "namespace": "default", "resourceVersion": "1", "generation": 1}
    made["metadata"]["creationTimestamp"] = timestamp(0.0)
    made["status"] = {"conditions": [{"type": kind, **stated}], "observedGeneration": 1}
    plan = reconcile_deployment(made, (), (), 1_000.0)
    again = next(
        (update.object for update in plan.instructions if isinstance(update, UpdateObject)),
        made,
    )
    reconcile_deployment(again, (), (), 2_000.0)


def test_pods_whose_containers_say_little_have_an_end_and_an_order() -> None:
    bare = pod("p")
    bare["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    bare["status"] = {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}],
    }
    assert finished_at(bare) == parse_timestamp("2026-01-01T00:00:00Z"), "nobody says when: not in 1970"
    assert first_to_go([bare]) == [bare]


def test_a_time_that_nobody_stated_is_no_moment() -> None:
    serving = {**pod("p"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert ready_since(serving) is None
    assert seconds_to_available(serving, 0.0, 1e9) == 0.0, "it serves"
    assert seconds_to_available(serving, 10.0, 1e9) is None, "but for how long nobody knows"
    over = job(ttlSecondsAfterFinished=10)
    over["metadata"] |= {"uid": "u", "namespace": "default", "resourceVersion": "1"}
    over["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert not reconcile_job(over, (), 1e9).instructions, "neither begun anew nor deleted"
    over["status"]["conditions"][0]["lastTransitionTime"] = "2001-01-01T00:00:00Z"
    assert [type(one) for one in reconcile_job(over, (), 1e9).instructions] == [DeleteObject]


def test_what_a_deployment_shows_of_it_is_no_time_of_1970() -> None:
    made = deployment(progressDeadlineSeconds=600)
    made["metadata"] |= {"uid": "u", "namespace": "default", "resourceVersion": "1", "generation": 1}
    made["metadata"]["creationTimestamp"] = timestamp(1_000.0)
    made["status"] = {
        "conditions": [{"type": kind, "status": "False"} for kind in ("Progressing", "Available")]
    }
    for now in (1_100.0, 2_000.0):
        plan = reconcile_deployment(made, (), (), now)
        updates = [one.object for one in plan.instructions if isinstance(one, UpdateObject)]
        made = updates[-1] if updates else made
        assert "1970-01-01T00:00:00Z" not in str(made["status"])
    progressing = find_condition(made, "Progressing")
    assert progressing is not None and moment_of(progressing) is not None
