"""Tables as `kubectl get` prints them."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.objects.event_recorder import EventRecorder, RecordEvent
from proreus.engine.objects.human_duration import duration
from proreus.engine.objects.kinds import DEPLOYMENT, EVENT, JOB, KINDS, NODE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.tables import table
from tests.engine.objects.worlds import NOW, deployment, pod, with_registry

MADE = {"creationTimestamp": "2026-09-21T14:08:20Z"}  # five minutes before NOW


def _pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**pod(), "metadata": {"name": "web", **MADE, **metadata}, "status": status}


def _row(kind: Any, obj: dict[str, Any]) -> dict[str, Any]:
    made = table(kind, [obj], NOW)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}, "Running"),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            },
            "CrashLoopBackOff",
        ),
        (
            {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]},
            "Completed",
        ),
        (
            {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]},
            "ExitCode:3",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}, "Init:0/0"),
    ],
)
def test_how_a_pod_does(status: dict[str, Any], word: str) -> None:
    assert _row(POD, _pod(status))["Status"] == word
    assert _row(POD, _pod(status, deletionTimestamp="2026-09-21T14:08:20Z"))["Status"] == "Terminating"


def test_the_row_of_a_pod() -> None:
    row = _row(POD, _pod({"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}]}))
    assert (row["Ready"], row["Restarts"], row["Age"], row["Node"]) == ("1/1", "2", "5m", "<none>")


def test_restarts_of_init_containers_count_until_they_are_done() -> None:
    again = {"name": "init", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    later = {"restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    row = _row(POD, _pod({"initContainerStatuses": [again], "containerStatuses": [later]}))
    assert (row["Status"], row["Restarts"]) == ("Init:CrashLoopBackOff", "3")
    done = {**again, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    runs = {"ready": True, "restartCount": 1, "state": {"running": {}}}
    row = _row(POD, _pod({"initContainerStatuses": [done], "containerStatuses": [runs], "phase": "Running"}))
    assert (row["Status"], row["Restarts"]) == ("Running", "1")


def test_sidecars_count_as_containers() -> None:
    side = {"name": "side", "restartCount": 2, "ready": True, "started": True, "state": {"running": {}}}
    runs = {"ready": True, "restartCount": 1, "state": {"running": {}}}
    status = {"initContainerStatuses": [side], "containerStatuses": [runs], "phase": "Running"}
    shown = _pod(status)
    sidecar = {"name": "side", "image": "none", "restartPolicy": "Always"}
    shown["spec"] = {**shown["spec"], "initContainers": [sidecar]}
    row = _row(POD, shown)
    assert (row["Ready"], row["Status"], row["Restarts"]) == ("2/2", "Running", "3")
    status["conditions"] = [{"type": "Initialized", "status": "True"}]
    status["initContainerStatuses"] = [{**side, "started": False, "ready": False}]
    row = _row(POD, shown)
    assert (row["Ready"], row["Status"], row["Restarts"]) == ("1/2", "Running", "3")


def test_the_row_of_a_node() -> None:
    node = {
        "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/worker": ""}, **MADE},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
    }
    row = _row(NODE, node)
    assert (row["Status"], row["Roles"], row["Version"]) == ("Ready,SchedulingDisabled", "worker", "v1")


def test_the_rows_of_workloads() -> None:
    obj = {**deployment(), "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}
    row = _row(DEPLOYMENT, obj)
    assert (row["Ready"], row["Up-to-date"], row["Available"], row["Selector"]) == ("1/2", 2, 1, "app=web")
    job = {
        "metadata": {"name": "a", **MADE},
        "spec": {"completions": 3},
        "status": {
            "succeeded": 1,
            "startTime": "2026-09-21T14:08:20Z",
            "completionTime": "2026-09-21T14:10:25Z",
        },
    }
    row = _row(JOB, job)
    assert (row["Status"], row["Completions"], row["Duration"]) == ("Running", "1/3", "2m5s")


def test_every_kind_has_a_cell_for_every_column() -> None:
    for kind in KINDS:
        made = table(kind, [{"metadata": {"name": "a"}}], NOW, include="None")
        assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])
        assert made["rows"][0]["object"] is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (-1, "0s"),
        (-5, "<invalid>"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (12_060, "3h21m"),
        (8 * 3600, "8h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (3 * 365 * 86400, "3y"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown


def test_an_event_told_again_is_counted() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        failed = RecordEvent(POD, made, "Warning", "FailedScheduling", "0/1 nodes are available")
        scheduled = RecordEvent(POD, made, "Normal", "Scheduled", "assigned")
        clock = [NOW]
        recorder = EventRecorder(registry, "default-scheduler", lambda: clock[0])
        await recorder.commit((), [failed, scheduled])
        clock[0] += 60
        await recorder.commit((), [failed])
        events = (await registry.list(EVENT, "default")).items
        counts = {event["reason"]: event["count"] for event in events}
        assert counts == {"FailedScheduling": 2, "Scheduled": 1}
        again = next(event for event in events if event["count"] == 2)
        assert _row(EVENT, again)["Object"] == "pod/web" and again["lastTimestamp"] > again["firstTimestamp"]

    with_registry(scenario)
