"""The agent of a node without I/O: pods and reports go in, orders come out."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from proreus.engine.kubelet.agent import ResourceAgent
from proreus.engine.kubelet.instructions import (
    FinishDeletion,
    ForgetPod,
    Order,
    StartContainer,
    StartPod,
    StopPod,
    WakeAt,
    WriteStatus,
)
from proreus.engine.objects.event_recorder import EventLimiter, RecordEvent
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.timestamps import timestamp
from proreus.engine.runtimes.clock import Moment
from proreus.engine.runtimes.pod_reports import first_attempt
from proreus.engine.runtimes.protocol import Capacity, ContainerReport, Notice, Phase, PodReport

WALL = 1_800_000_000.0
ROOM = {"cpu": "2", "memory": "4Gi", "pods": "3"}


def at(seconds: float) -> Moment:
    return Moment(WALL + seconds, seconds)


def agent() -> ResourceAgent:
    return ResourceAgent("n1", Capacity(ROOM, ROOM), "10.0.0.1")


def pod(uid: str = "u1", cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {"nodeName": "n1", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def leaving(one: dict[str, Any], grace: int = 30) -> dict[str, Any]:
    marks = {"deletionTimestamp": timestamp(WALL + grace), "deletionGracePeriodSeconds": grace}
    return {**one, "metadata": {**one["metadata"], **marks}}


def running(name: str = "main", attempt: int = 0) -> ContainerReport:
    return ContainerReport(name, Phase.RUNNING, attempt, started=WALL, ready=True)


def ended(code: int, name: str = "main", attempt: int = 0) -> ContainerReport:
    return ContainerReport(name, Phase.EXITED, attempt, started=WALL, finished=WALL, exit_code=code)


def told(*containers: ContainerReport, uid: str = "u1") -> PodReport:
    return PodReport(uid, containers, "10.1.0.1")


def status(orders: list[Order]) -> dict[str, Any]:
    return [order.status for order in orders if isinstance(order, WriteStatus)][-1]


def of(kind: type, orders: list[Order]) -> list[Any]:
    return [order for order in orders if isinstance(order, kind)]


def test_a_pod_is_started_once_and_told_to_run() -> None:
    node = agent()
    orders = node.pod(pod(), at(0))
    assert of(StartPod, orders)[0].containers == ("main",)
    assert status(orders)["phase"] == "Pending" and of(WriteStatus, orders)[0].lazy
    assert not of(StartPod, node.pod(pod(), at(1)))
    orders = node.reported(told(running()), at(2))
    shown = status(orders)
    assert shown["phase"] == "Running" and shown["podIP"] == "10.1.0.1"
    assert {condition.type: condition.status for condition in shown["conditions"]}["Ready"] == "True"
    assert not of(WriteStatus, orders)[0].lazy


def test_what_does_not_fit_is_refused_in_the_nodes_words_and_takes_no_room() -> None:
    node = agent()
    node.pod(pod("u1", "1500m"), at(0))
    orders = node.pod(pod("u2", "600m"), at(0))
    assert not of(StartPod, orders)
    assert (status(orders)["phase"], status(orders)["reason"]) == ("Failed", "OutOfcpu")
    assert "requested: 600, used: 1500, capacity: 2000" in status(orders)["message"]
    assert of(StartPod, node.pod(pod("u3", "500m"), at(0)))


def test_room_is_free_again_when_a_pod_has_ended() -> None:
    node = agent()
    node.pod(pod("u1", "2", restartPolicy="Never"), at(0))
    assert status(node.reported(told(ended(0)), at(5)))["phase"] == "Succeeded"
    assert of(StartPod, node.pod(pod("u2", "2"), at(6)))


def test_crashes_are_tried_again_at_once_then_after_pauses_that_double() -> None:
    node = agent()
    node.pod(pod(), at(0))
    now, pauses = 1.0, []
    for attempt in range(8):
        node.reported(told(running(attempt=attempt)), at(now))
        orders = node.reported(told(ended(1, attempt=attempt)), at(now))
        begun = now
        while not of(StartContainer, orders):
            assert status(orders)["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            now = of(WakeAt, orders)[0].steady
            assert not of(StartContainer, node.tick(at(now - 0.01)))
            orders = node.tick(at(now))
        assert of(StartContainer, orders) == [StartContainer("u1", "main", attempt + 1)]
        pauses.append(now - begun)
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]


def test_after_a_long_calm_the_pauses_begin_anew() -> None:
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(ended(1)), at(1))
    assert not of(StartContainer, node.reported(told(ended(1, attempt=1)), at(2)))
    node.tick(at(12))
    assert of(StartContainer, node.reported(told(ended(1, attempt=2)), at(2000)))


def test_a_tick_for_one_pod_leaves_no_other_waiting_for_ever() -> None:
    node = agent()
    node.pod(pod("u3", activeDeadlineSeconds=21), at(0))
    node.reported(told(running(), uid="u3"), at(0))
    for uid, now in (("u1", 1), ("u2", 2)):
        node.pod(pod(uid), at(0))
        node.reported(told(ended(1), uid=uid), at(0))
        node.reported(told(ended(1, attempt=1), uid=uid), at(now))
    for now, uid, following in ((11, "u1", 12), (12, "u2", 21)):
        orders = node.tick(at(now))
        assert of(StartContainer, orders) == [StartContainer(uid, "main", 2)]
        assert [one.steady for one in of(WakeAt, orders)] == [following]
        node.reported(told(running(attempt=2), uid=uid), at(now))
    orders = node.tick(at(21))
    assert of(StopPod, orders) and not of(WakeAt, orders)


def test_an_end_that_nobody_saw_is_not_before_its_start() -> None:
    node, lost = agent(), pod()
    state = {"running": {"startedAt": timestamp(WALL + 100)}}
    known = {"name": "main", "restartCount": 0, "state": state}
    lost["status"] = {"phase": "Running", "startTime": timestamp(WALL), "containerStatuses": [known]}
    node.begin([lost], [], at(200))
    orders = node.reported(told(ContainerReport("main", Phase.WAITING, 1)), at(201))
    last = status(orders)["containerStatuses"][0]["lastState"]["terminated"]
    assert last["reason"] == "ContainerStatusUnknown" and last["finishedAt"] >= last["startedAt"]


def test_the_end_that_a_new_agent_did_not_see_is_when_it_took_the_pod_up() -> None:
    """`RESTARTS 1 (48s ago)` was the start of the attempt before, not its end."""
    node, lost = agent(), pod()
    known = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": timestamp(WALL)}}}
    lost["status"] = {"phase": "Running", "startTime": timestamp(WALL), "containerStatuses": [known]}
    node.begin([lost], [], at(48))
    orders = node.reported(told(ContainerReport("main", Phase.WAITING, 1)), at(49))
    last = status(orders)["containerStatuses"][0]["lastState"]["terminated"]
    assert last["finishedAt"] == timestamp(WALL + 48)


def test_policies_say_what_runs_again_and_what_a_pod_came_to() -> None:
    cases = [
        ("Never", 0, "Succeeded", False),
        ("Never", 1, "Failed", False),
        ("OnFailure", 0, "Succeeded", False),
        ("OnFailure", 1, "Running", True),
        ("Always", 0, "Running", True),
    ]
    for policy, code, phase, again in cases:
        node = agent()
        node.pod(pod(restartPolicy=policy), at(0))
        orders = node.reported(told(ended(code)), at(1))
        assert (status(orders)["phase"], bool(of(StartContainer, orders))) == (phase, again), policy


def test_init_containers_come_one_after_the_other_and_first() -> None:
    node = agent()
    inits = [{"name": "one", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}]
    orders = node.pod(pod(initContainers=inits), at(0))
    assert of(StartPod, orders)[0].containers == ("one",)
    assert not of(StartContainer, node.reported(told(running("one")), at(1)))
    orders = node.reported(told(ended(0, "one")), at(2))
    assert of(StartContainer, orders) == [StartContainer("u1", "side", 0)]
    assert status(orders)["phase"] == "Pending"
    orders = node.reported(told(ended(0, "one"), running("side")), at(3))
    assert of(StartContainer, orders) == [StartContainer("u1", "main", 0)]
    orders = node.reported(told(ended(0, "one"), running("side"), running()), at(4))
    assert status(orders)["phase"] == "Running"


def test_a_deleted_pod_is_stopped_with_its_grace_and_goes_when_it_has_ended() -> None:
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(running()), at(1))
    orders = node.pod(leaving(pod()), at(2))
    assert of(StopPod, orders) == [StopPod("u1", 30.0)] and not of(FinishDeletion, orders)
    assert not of(StopPod, node.pod(leaving(pod()), at(3)))
    assert of(StopPod, node.pod(leaving(pod(), 5), at(4))) == [StopPod("u1", 5.0)]
    assert of(FinishDeletion, node.reported(told(ended(143)), at(6)))
    assert node.gone("u1", at(7)) == [ForgetPod("u1")] and node.uids() == []


def test_a_pod_that_left_the_api_by_force_is_killed_then_forgotten() -> None:
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(running()), at(1))
    assert node.gone("u1", at(2)) == [StopPod("u1", 0.0)]
    assert node.reported(told(ended(137)), at(3)) == [ForgetPod("u1")]


def test_a_pod_deleted_before_it_was_seen_only_lets_go() -> None:
    assert agent().pod(leaving(pod()), at(0)) == [FinishDeletion(leaving(pod()))]


def test_a_pod_that_is_active_too_long_fails() -> None:
    node = agent()
    orders = node.pod(pod(activeDeadlineSeconds=60), at(0))
    assert of(WakeAt, orders)[0].steady == 60
    node.reported(told(running()), at(1))
    orders = node.tick(at(60))
    assert of(StopPod, orders)
    orders = node.reported(told(ended(143)), at(61))
    assert (status(orders)["phase"], status(orders)["reason"]) == ("Failed", "DeadlineExceeded")


def test_an_agent_that_begins_adopts_what_runs_and_ends_what_nobody_knows() -> None:
    node = agent()
    orders = node.begin([pod("u1"), pod("u2")], [told(running()), told(running(), uid="x")], at(0))
    assert [one.pod["metadata"]["uid"] for one in of(StartPod, orders)] == ["u2"]
    assert (of(StopPod, orders), of(ForgetPod, orders)) == ([StopPod("x", 0.0)], [ForgetPod("x")])
    assert of(WriteStatus, orders)[0].status["phase"] == "Running"
    assert sorted(node.uids()) == ["u1", "u2"]


def test_an_adopted_crash_loop_goes_on_where_it_was() -> None:
    node = agent()
    orders = node.begin([pod("u1")], [told(ended(1, attempt=3))], at(0))
    assert of(WakeAt, orders)[0].steady == 40 and not of(StartContainer, orders)


def test_what_a_runtime_has_to_tell_of_a_container_becomes_an_event_once() -> None:
    node = agent()
    node.pod(pod(), at(0))
    greeting = ContainerReport("main", Phase.WAITING, reason="ContainerCreating", started=WALL)
    greeting = greeting.with_notice(Notice("Normal", "Started", "Started container main"))
    orders = node.reported(told(greeting), at(1))
    assert [(event.reason, event.field_path) for event in of(RecordEvent, orders)] == [
        ("Started", "spec.containers{main}")
    ]
    assert status(orders)["phase"] == "Pending"
    assert status(orders)["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    failed = Notice("Warning", "FailedPostStartHook", "PostStartHook failed")
    greeting = replace(greeting, reason="PostStartHookError", message="no").with_notice(failed)
    notes = of(RecordEvent, node.reported(told(greeting), at(2)))
    assert [(one.type, one.reason, one.message) for one in notes] == [
        ("Warning", "FailedPostStartHook", "PostStartHook failed")
    ]
    assert of(RecordEvent, node.reported(told(replace(ended(137), notices=greeting.notices)), at(3))) == []
    again = replace(running(attempt=1), notices=(failed,))
    notes = of(RecordEvent, node.reported(told(again), at(4)))
    assert [one.reason for one in notes] == ["FailedPostStartHook"]


def test_what_happens_again_is_told_again_though_only_the_last_of_it_is_kept() -> None:
    node = agent()
    node.pod(pod(), at(0))
    report, heard = running(), 0
    for turn in range(50):
        for _ in range(1 + turn % 3):
            report = report.with_notice(Notice("Warning", "Unhealthy", "Liveness probe failed: no"))
        heard += len(of(RecordEvent, node.reported(told(report), at(turn))))
        assert not of(RecordEvent, node.reported(told(report), at(turn))), (
            "a report that comes twice is no news"
        )
    assert heard == sum(1 + turn % 3 for turn in range(50))
    assert len(report.notices) < 20


def test_a_container_that_waits_after_a_crash_is_told_once_for_each_crash() -> None:
    node = agent()
    node.pod(pod(), at(0))
    assert not of(RecordEvent, node.reported(told(ended(1)), at(1))), "the first time it does not wait"
    orders = node.reported(told(ended(1, attempt=1)), at(2))
    (note,) = of(RecordEvent, orders)
    assert (note.type, note.reason) == ("Warning", "BackOff")
    assert note.message == "Back-off restarting failed container main in pod u1_default(u1)"
    assert not of(RecordEvent, node.reported(told(ended(1, attempt=1)), at(3)))
    node.tick(at(12))
    assert len(of(RecordEvent, node.reported(told(ended(1, attempt=2)), at(13)))) == 1


def test_only_what_runs_is_said_to_be_killed() -> None:
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(ContainerReport("main", Phase.WAITING, reason="ErrImagePull")), at(1))
    assert not of(RecordEvent, node.pod(leaving(pod()), at(2)))
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(running()), at(1))
    notes = of(RecordEvent, node.pod(leaving(pod()), at(2)))
    assert [(one.reason, one.message) for one in notes] == [("Killing", "Stopping container main")]


def test_restarts_never_fall() -> None:
    """Another runtime, or one that was emptied, knows nothing of the attempts before."""
    state = {"running": {"startedAt": timestamp(WALL - 60)}}
    shown = {"name": "main", "restartCount": 4, "state": state, "containerID": "runc://x"}
    known = pod("u1")
    known["status"] = {"phase": "Running", "containerStatuses": [shown]}
    node = agent()
    orders = node.begin([known], [], at(0))
    assert of(StartPod, orders) and first_attempt(known, "main") == 5
    assert status(orders)["containerStatuses"][0]["restartCount"] == 4
    orders = node.reported(told(running(attempt=5)), at(1))
    (now,) = status(orders)["containerStatuses"]
    assert now["restartCount"] == 5
    assert now["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert of(StartContainer, node.reported(told(ended(1, attempt=5)), at(2))), "its first crash here"
    behind = agent().begin([known], [told(ended(1, attempt=3))], at(0))
    assert status(behind)["containerStatuses"][0]["restartCount"] == 4


def test_the_number_of_the_next_attempt_follows_from_what_was_told() -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({"waiting": {"reason": "ContainerCreating"}}, 2),
        ({"waiting": {"reason": "ImagePullBackOff"}}, 2),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, 3),
        ({"running": {"startedAt": timestamp(WALL)}}, 3),
        ({"terminated": {"exitCode": 1}}, 3),
    ]
    for state, attempt in cases:
        one = pod()
        one["status"] = {"containerStatuses": [{"name": "main", "restartCount": 2, "state": state}]}
        assert first_attempt(one, "main") == attempt, state
    assert first_attempt(pod(), "main") == 0


def test_how_the_last_attempt_ended_is_told_though_the_api_never_saw_it() -> None:
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(running()), at(1))
    node.reported(told(ended(7)), at(2))
    (shown,) = status(node.reported(told(running(attempt=1)), at(2.01)))["containerStatuses"]
    assert shown["lastState"]["terminated"]["exitCode"] == 7 and shown["restartCount"] == 1


def test_the_digest_of_an_image_is_told_once_it_is_known() -> None:
    node = agent()
    orders = node.pod(pod(), at(0))
    assert status(orders)["containerStatuses"][0]["imageID"] == ""
    orders = node.reported(told(replace(running(), image="docker.io/library/nginx@sha256:00")), at(1))
    (shown,) = status(orders)["containerStatuses"]
    assert (shown["image"], shown["imageID"]) == ("nginx", "docker.io/library/nginx@sha256:00")


def test_so_much_is_told_of_a_pod_and_no_more() -> None:
    limiter = EventLimiter()

    def allows(uid: str, now: float) -> bool:
        event = RecordEvent(POD, {"metadata": {"uid": uid}}, "Warning", "Unhealthy", "no")
        return limiter.due(event, now) is event

    assert [allows("u1", 0.0) for _ in range(30)] == [True] * 25 + [False] * 5
    assert allows("u2", 0.0)
    assert not allows("u1", 299.0)
    assert not allows("u1", 10.0), "a clock that was put back takes nothing away"
    assert allows("u1", 605.0) and allows("u1", 605.0) and not allows("u1", 605.0)


def test_a_pod_that_is_too_full_is_evicted() -> None:
    node = agent()
    node.pod(pod(), at(0))
    node.reported(told(running()), at(1))
    message = 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". '
    orders = node.reported(replace(told(running()), overfull=message), at(2))
    assert [one.grace for one in of(StopPod, orders)] == [1.0]
    assert ("Warning", "Evicted", message) in [(n.type, n.reason, n.message) for n in of(RecordEvent, orders)]
    orders = node.reported(replace(told(ended(137)), overfull=message), at(3))
    shown = status(orders)
    assert (shown["phase"], shown["reason"], shown["message"]) == ("Failed", "Evicted", message)
    assert not of(StartContainer, orders) and not of(RecordEvent, orders)


def test_what_is_never_to_run_twice_and_was_taken_away_has_ended() -> None:
    shown = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": timestamp(WALL - 60)}}}
    over = {"exitCode": 0, "reason": "Completed", "startedAt": timestamp(WALL), "finishedAt": timestamp(WALL)}
    beside = {"name": "beside", "restartCount": 0, "state": {"terminated": over}}
    once = pod("u1", restartPolicy="Never")
    once["spec"]["containers"].append({"name": "beside", "image": "nginx"})
    once["status"] = {"phase": "Running", "containerStatuses": [shown, beside]}
    node = agent()
    orders = node.begin([once], [], at(0))
    assert not of(StartPod, orders)
    told_now = status(orders)
    assert told_now["phase"] == "Failed"
    ends = {
        container_status["name"]: container_status["state"]["terminated"]
        for container_status in told_now["containerStatuses"]
    }
    assert (ends["main"]["exitCode"], ends["main"]["reason"]) == (137, "ContainerStatusUnknown")
    assert (ends["beside"]["exitCode"], ends["beside"]["reason"]) == (0, "Completed")
    assert of(FinishDeletion, node.pod(leaving(once), at(1)))
    again = pod("u2", restartPolicy="Always")
    again["status"] = {"phase": "Running", "containerStatuses": [shown]}
    assert of(StartPod, agent().begin([again], [], at(0)))
