"""The simulated runtime: what is stated is done, what is drawn is drawn again, what it cannot do it says."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

import pytest

from proreus.engine.objects.timestamps import timestamp
from proreus.engine.runtimes.protocol import Capacity, LogWanted, Phase, PodReport, RuntimeRefused
from proreus.engine.runtimes.simulated.draws import Habits, draw_plan, draw_start
from proreus.engine.runtimes.simulated.runtime import KILLED, TERMINATED, SimulatedRuntime
from tests.engine.runtimes.timing import HandTimers

ROOM = Capacity({"cpu": "4"}, {"cpu": "4"})


def pod(uid: str = "u1", policy: str = "Always", **annotations: str) -> dict[str, Any]:
    stated = {f"proreus.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    container = {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": stated},
        "spec": {"containers": [container], "restartPolicy": policy},
    }


class Node:
    """A runtime, its time, and what it has reported."""

    def __init__(self, **habits: Any) -> None:
        self.timers = HandTimers()
        self.runtime = SimulatedRuntime(ROOM, self.timers, Habits(**habits))
        self.heard: list[PodReport] = []
        self.runtime.subscribe(self.heard.append)

    def last(self) -> Any:
        return self.heard[-1].containers[0]


def test_a_pod_starts_runs_and_ends_as_its_annotations_say() -> None:
    node = Node()
    node.runtime.start(pod(policy="Never", start_latency="2", duration="30", exit_code="3"), ["main"])
    node.timers.play(1.9)
    assert node.heard == []
    node.timers.play(0.2)
    assert node.last().phase is Phase.RUNNING and node.last().ready and node.heard[-1].address
    node.timers.play(29.8)
    assert node.last().phase is Phase.RUNNING
    node.timers.play(0.2)
    assert (node.last().phase, node.last().exit_code) == (Phase.EXITED, 3)
    assert node.last().finished - node.last().started == pytest.approx(30)


def test_a_service_runs_until_it_is_stopped_and_ready_comes_later() -> None:
    node = Node(stop_latency=1.0, start_spread=0.0)
    node.runtime.start(pod(start_latency="1", ready_after="5"), ["main"])
    node.timers.play(2)
    assert node.last().phase is Phase.RUNNING and not node.last().ready
    node.timers.play(5)
    assert node.last().ready
    node.timers.play(100_000)
    assert node.last().phase is Phase.RUNNING
    node.runtime.stop("u1", 30.0)
    node.timers.play(1.1)
    assert (node.last().phase, node.last().exit_code) == (Phase.EXITED, TERMINATED)


def test_who_does_not_end_within_the_grace_is_killed() -> None:
    node = Node()
    node.runtime.start(pod(start_latency="0", stop_latency="60"), ["main"])
    node.timers.play(1)
    node.runtime.stop("u1", 5.0)
    node.timers.play(4.9)
    assert node.last().phase is Phase.RUNNING
    node.timers.play(0.2)
    assert node.last().exit_code == KILLED


def test_draws_belong_to_who_they_are_for_and_to_the_seed() -> None:
    job = pod(policy="Never")
    main = job["spec"]["containers"][0]
    assert draw_plan(Habits(seed=7), job, main, 0) == draw_plan(Habits(seed=7), job, main, 0)
    assert draw_plan(Habits(seed=7), job, main, 0) != draw_plan(Habits(seed=8), job, main, 0)
    assert draw_plan(Habits(seed=7), job, main, 0) != draw_plan(Habits(seed=7), job, main, 1)


def test_drawn_latencies_have_the_stated_median_and_failures_the_stated_rate() -> None:
    habits = Habits(start_latency=0.6, failure_rate=0.25)
    pods = [pod(f"u{number}", "Never") for number in range(2000)]
    assert statistics.median(draw_start(habits, one) for one in pods) == pytest.approx(0.6, rel=0.05)
    plans = [draw_plan(habits, one, one["spec"]["containers"][0], 0) for one in pods]
    assert statistics.mean(plan.exit_code for plan in plans) == pytest.approx(0.25, abs=0.03)
    assert all(0 < plan.cpu <= 2000 and 0 < plan.memory <= 2**30 for plan in plans)


def test_an_annotation_that_cannot_be_read_is_told_and_nothing_runs() -> None:
    for wrong in ({"duration": "soon"}, {"exit_code": "-1"}, {"exit_code": "256"}, {"use_cpu": "two"}):
        node = Node()
        node.runtime.start(pod(**wrong), ["main"])
        node.timers.play(60)
        assert node.last().phase is Phase.WAITING
        assert node.last().reason == "CreateContainerConfigError"
        assert "annotation proreus.io/" in node.last().message


def test_stated_use_is_reported_while_it_runs_only() -> None:
    node = Node()
    node.runtime.start(pod(start_latency="1", use_cpu="1500m", use_memory="100Mi"), ["main"])
    assert node.runtime.stats() == []
    node.timers.play(2)
    (use,) = node.runtime.stats()
    assert (use.uid, use.container, use.cpu, use.memory) == ("u1", "main", 1500, 100 * 2**20)
    node.runtime.remove("u1")
    assert node.runtime.stats() == []


def test_orders_given_twice_are_done_once() -> None:
    node = Node()
    for _ in range(2):
        node.runtime.start(pod(start_latency="1", duration="5"), ["main"])
    node.timers.play(7)
    assert [report.containers[0].phase for report in node.heard] == [Phase.RUNNING, Phase.EXITED]
    for _ in range(2):
        node.runtime.start_container("u1", "main", 1)
    node.timers.play(1)
    assert node.last().attempt == 1 and node.last().phase is Phase.RUNNING
    node.runtime.start_container("u1", "main", 1)
    node.timers.play(1)
    assert node.last().attempt == 1


def test_a_new_runtime_takes_up_what_the_status_says_was_running() -> None:
    node = Node()
    begun = node.timers.wall() - 20
    running = {"name": "main", "restartCount": 2, "state": {"running": {"startedAt": timestamp(begun)}}}
    known = {**pod(duration="30"), "status": {"podIP": "10.1.1.1", "containerStatuses": [running]}}
    (report,) = node.runtime.adopt([known, pod("u2")])
    assert (report.uid, report.address) == ("u1", "10.1.1.1")
    assert (report.containers[0].phase, report.containers[0].attempt) == (Phase.RUNNING, 2)
    node.timers.play(9)
    assert node.heard == []
    node.timers.play(2)
    assert node.last().phase is Phase.EXITED


def _status(name: str, state: dict[str, Any], restarts: int = 0, last: Any = None) -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "state": state, "lastState": last or {}}


def test_a_crash_loop_is_taken_up_with_its_count() -> None:
    node = Node()
    ended = {"exitCode": 3, "startedAt": timestamp(1.0), "finishedAt": timestamp(2.0), "reason": "Error"}
    waits = _status("main", {"waiting": {"reason": "CrashLoopBackOff"}}, 4, {"terminated": ended})
    known = {**pod(), "status": {"podIP": "10.1.1.1", "containerStatuses": [waits]}}
    (report,) = node.runtime.adopt([known])
    assert report.address == "10.1.1.1"
    (main,) = report.containers
    assert (main.phase, main.attempt, main.exit_code) == (Phase.EXITED, 4, 3)


def test_what_was_not_begun_yet_of_a_pod_is_left_to_its_agent() -> None:
    node = Node()
    begun = {"running": {"startedAt": timestamp(node.timers.wall())}}
    waits = _status("main", {"waiting": {"reason": "PodInitializing"}})
    status = {"initContainerStatuses": [_status("first", begun)], "containerStatuses": [waits]}
    known = {**pod(), "status": status}
    known["spec"]["initContainers"] = [{"name": "first", "image": "i"}]
    (report,) = node.runtime.adopt([known])
    assert [container.name for container in report.containers] == ["first"]
    node.runtime.start_container("u1", "main", 0)
    node.timers.play(1)
    assert node.heard[-1].containers[-1].phase is Phase.RUNNING


def test_the_attempt_before_the_last_is_taken_up_with_its_log() -> None:
    node = Node()
    begun = {"running": {"startedAt": timestamp(node.timers.wall())}}
    before = node.timers.wall() - 60
    ended = {"exitCode": 3, "startedAt": timestamp(before), "finishedAt": timestamp(before + 5)}
    known = {**pod(), "status": {"containerStatuses": [_status("main", begun, 1, {"terminated": ended})]}}
    node.runtime.adopt([known])
    assert _lines(node, previous=True)[-1] == b"exiting with code 3\n"


def test_pods_that_run_have_addresses_of_their_own_after_a_restart_and_after_many_others() -> None:
    node = Node(start_latency=0.0, start_spread=0.0)
    begun = {"running": {"startedAt": timestamp(node.timers.wall())}}
    kept = [
        {**pod(f"k{n}"), "status": {"podIP": f"10.244.0.{n}", "containerStatuses": [_status("main", begun)]}}
        for n in range(2, 6)
    ]
    addresses = {report.uid: report.address for report in node.runtime.adopt(kept)}
    for number in range(300):
        node.runtime.start(pod(f"u{number}"), ["main"])
        node.timers.play(1)
        addresses[f"u{number}"] = node.heard[-1].address
        if number >= 200:  # so many run at once
            node.runtime.remove(f"u{number - 200}")
            del addresses[f"u{number - 200}"]
    assert len(addresses) == 204 and len(set(addresses.values())) == 204


def _lines(node: Node, **wanted: Any) -> list[bytes]:
    async def read() -> list[bytes]:
        return [line async for line in node.runtime.logs("u1", LogWanted("main", **wanted))]

    return asyncio.run(read())


def test_logs_are_lines_that_stay_the_same_and_can_be_cut() -> None:
    node = Node()
    node.runtime.start(pod(start_latency="0", duration="100", exit_code="4"), ["main"])
    node.timers.play(50)
    early = _lines(node)
    node.timers.play(60)
    late = _lines(node)
    assert early[0].startswith(b"starting nginx:1") and all(line.endswith(b"\n") for line in late)
    assert late[: len(early)] == early and len(late) > len(early)
    assert late[-1] == b"exiting with code 4\n"
    assert _lines(node, tail=2) == late[-2:] and _lines(node, tail=0) == []
    assert b"".join(_lines(node, limit_bytes=10)) == b"".join(late)[:10]
    assert len(_lines(node, since=node.timers.wall() - 60)) < len(late)
    assert _lines(node, follow=True) == late  # it has ended: nothing more will come
    assert _lines(node, timestamps=True, tail=1)[0].split()[0].endswith(b"Z")


def test_logs_of_what_is_not_there_are_refused() -> None:
    node = Node()
    node.runtime.start(pod(start_latency="10"), ["main"])
    for uid, name, says in (
        ("u9", "main", "does not run that pod"),
        ("u1", "main", "waiting to start: ContainerCreating"),
        ("u1", "other", "is not valid for pod u1"),
    ):
        with pytest.raises(RuntimeRefused, match=says):
            asyncio.run(_first(node, uid, LogWanted(name)))
    node.timers.play(11)
    with pytest.raises(RuntimeRefused, match="previous"):
        _lines(node, previous=True)


async def _first(node: Node, uid: str, wanted: LogWanted) -> None:
    async for _ in node.runtime.logs(uid, wanted):
        return


def test_exec_says_that_nothing_was_run() -> None:
    node = Node()
    node.runtime.start(pod(start_latency="0"), ["main"])
    with pytest.raises(RuntimeRefused, match="not running"):
        asyncio.run(node.runtime.execute("u1", "main", ["ls"]))
    node.timers.play(1)
    done = asyncio.run(node.runtime.execute("u1", "main", ["ls", "-l"]))
    assert done.exit_code == 126 and b"simulated" in done.stderr and done.stdout == b""
