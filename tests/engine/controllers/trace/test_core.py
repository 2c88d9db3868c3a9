"""What becomes of pods and nodes, as entries of the trace; no I/O."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proreus.engine.controllers.trace.core import TraceCore
from proreus.engine.objects.decision_annotation import DECISION
from proreus.engine.objects.timestamps import timestamp
from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.engine.trace.segments import PodEntry, Segment
from tests.engine.scheduler.objects import Object, node, on, pod

AT = 1_800_000_000.0


def a_core() -> TraceCore:
    reader = TemplateReader()
    return TraceCore(lambda obj: reader.pod(obj).spec, reader.node)


def made(name: str, at: float = AT, **spec: Any) -> Object:
    obj = pod(name, **spec)
    obj["metadata"]["creationTimestamp"] = timestamp(at)
    return obj


def running(obj: Object, at: float) -> Object:
    state = {"running": {"startedAt": timestamp(at)}}
    return {**obj, "status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]}}


def done(obj: Object, begun: float, at: float, phase: str = "Succeeded") -> Object:
    state = {"terminated": {"startedAt": timestamp(begun), "finishedAt": timestamp(at)}}
    return {**obj, "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}}


def taken(core: TraceCore, most: int = 100) -> Segment:
    return core.take(7, AT + 100, most)


def only(core: TraceCore) -> PodEntry:
    (entry,) = taken(core).pods
    return entry


def test_a_life_from_creation_to_its_end() -> None:
    core, obj = a_core(), made("a")
    core.pod_came(obj, AT + 0.25)
    note = json.dumps({"policy": "best_fit", "fallback": "deadline", "node": "n"})
    bound = on(obj, "n", **{DECISION: note})
    core.pod_seen(bound, AT + 1.5)
    core.pod_seen(running(bound, AT + 3), AT + 3.5)
    core.pod_seen(done(bound, AT + 3, AT + 10), AT + 10.125)
    entry = only(core)
    assert (entry.name, entry.created, entry.bound, entry.running) == (
        "default/a",
        AT + 0.25,
        AT + 1.5,
        AT + 3.5,
    )
    assert (entry.ended, entry.end) == (AT + 10.125, "succeeded")
    assert (entry.node, entry.policy, entry.fallback) == ("n", "best_fit", "deadline")


def test_what_is_seen_late_happened_when_the_object_says() -> None:
    core, obj = a_core(), made("a")
    core.pod_came(done(on(obj, "n"), AT + 2, AT + 5), AT + 500)
    entry = only(core)
    assert (entry.created, entry.running, entry.ended) == (AT + 0.999, AT + 2.999, AT + 5.999)


def test_nothing_is_told_twice() -> None:
    core, obj = a_core(), on(made("a"), "n")
    for _ in range(2):
        core.pod_came(running(obj, AT), AT)
    assert len(taken(core).pods) == 1
    core.pod_came(running(obj, AT), AT + 9)
    assert core.waiting == 0
    core.pod_gone(running(obj, AT), AT + 20)
    assert only(core).end == "deleted"
    core.pod_gone(running(obj, AT), AT + 21)  # heard again after a restart
    core.pod_seen(done(obj, AT, AT + 20), AT + 21)
    assert core.waiting == 0


@pytest.mark.parametrize(
    ("reason", "end"), [("PreemptionByScheduler", "preempted"), ("DeletionByTaintManager", "evicted")]
)
def test_who_was_taken_for_the_sake_of_others_is_told_apart(reason: str, end: str) -> None:
    core, obj = a_core(), running(on(made("a"), "n"), AT)
    core.pod_came(obj, AT)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    obj["status"]["conditions"] = [condition]
    core.pod_gone(obj, AT + 9)
    assert only(core).end == end


def test_whoever_leads_next_goes_on_where_the_trace_ends() -> None:
    first = a_core()
    for name in ("stays", "leaves", "ended"):
        first.pod_came(running(on(made(name), "n"), AT), AT)
    first.pod_gone(running(on(made("ended"), "n"), AT), AT + 1)
    first.node_seen(node("n"), AT)
    first.node_seen(node("gone"), AT)
    written = taken(first)

    second = a_core()
    second.recall(written)
    assert second.waiting == 0
    there = [running(on(made("stays"), "n"), AT), made("new", AT + 50)]
    second.pods_listed(there, AT + 40, AT + 60)
    second.nodes_listed([node("n")], AT + 60)
    segment = taken(second)
    ends = {entry.name: entry.end for entry in segment.pods}
    assert ends == {"default/leaves": "unseen", "default/new": ""}
    assert [(node_entry.name, node_entry.node) for node_entry in segment.nodes] == [("gone", None)]
    assert next(pod_entry.ended for pod_entry in segment.pods if pod_entry.end) == AT + 40


def test_a_pod_that_ended_before_the_trace_does_is_not_told_again_after_a_gap() -> None:
    core = a_core()
    old, young = (
        done(on(made("old"), "n"), AT, AT + 5),
        done(on(made("young", AT + 42), "n"), AT + 42, AT + 45),
    )
    core.pods_listed([old, young], AT + 40, AT + 60)
    assert [entry.name for entry in taken(core).pods] == ["default/young"]


def test_equal_pods_share_a_spec_and_a_segment_brings_its_own() -> None:
    core = a_core()
    for name in ("a", "b"):
        core.pod_came(made(name), AT)
    core.pod_came(made("c", cpu="2"), AT)
    first = taken(core)
    assert len(first.specs) == 2
    core.pod_seen(on(made("a"), "n"), AT + 1)
    second = taken(core)
    assert list(second.specs.values()) == [first.specs[second.pods[0].spec]]


def test_what_cannot_be_understood_is_recorded_without_its_wishes() -> None:
    core = a_core()
    core.pod_came(made("a", cpu="many"), AT)
    assert only(core).spec == ""


def test_a_node_is_told_when_it_changes_and_not_when_it_breathes() -> None:
    core = a_core()
    core.node_seen(node("n"), AT)
    breathing = node("n")
    breathing["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    core.node_seen(breathing, AT + 1)
    core.node_seen(node("n", unschedulable=True), AT + 2)
    core.node_gone("n", AT + 3)
    core.node_gone("n", AT + 4)
    told = [
        (node_entry.at - AT, node_entry.node.unschedulable if node_entry.node else None)
        for node_entry in taken(core).nodes
    ]
    assert told == [(0, False), (2, True), (3, None)]


def test_what_is_dropped_is_told_again_of_those_that_are_there() -> None:
    core = a_core()
    core.node_seen(node("n"), AT)
    for name in ("stays", "ends"):
        core.pod_came(running(on(made(name), "n"), AT), AT)
    old = taken(core)
    core.pod_gone(running(on(made("ends"), "n"), AT), AT + 5)
    taken(core)
    core.tell_again(old)
    again = taken(core)
    assert [entry.name for entry in again.pods] == ["default/stays"]
    assert [entry.at for entry in again.nodes] == [AT]


def test_a_segment_takes_so_many_and_the_rest_waits() -> None:
    core = a_core()
    for number in range(5):
        core.pod_came(made(f"p{number}"), AT)
    assert [len(taken(core, 2).pods) for _ in range(3)] == [2, 2, 1]
    assert core.waiting == 0


def test_what_a_pod_used_is_told_seldom_and_at_its_end() -> None:
    core, obj = a_core(), made("a")
    bound = on(obj, "n")
    uid = obj["metadata"]["uid"]
    core.pod_came(obj, AT)
    core.pod_used(uid, 500, 100)  # it does not run yet
    core.pod_seen(running(bound, AT + 1), AT + 1)
    assert only(core).looks == 0
    told = []
    for cpu, memory in ((100, 10), (300, 30), (200, 20), (400, 5), (0, 5)):
        core.pod_used(uid, cpu, memory)
        told.append(core.waiting)
        taken(core)
    assert told == [1, 1, 0, 1, 0]
    core.pod_seen(done(bound, AT + 1, AT + 10), AT + 10)
    entry = only(core)
    assert (entry.looks, entry.memory) == (5, 30)
    assert entry.cpu == pytest.approx(200)
    assert entry.cpu_squares == pytest.approx(100_000)
    core.pod_used(uid, 999, 999)
    assert not core.waiting
