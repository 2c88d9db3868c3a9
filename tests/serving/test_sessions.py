"""Clusters that the service keeps: told by changes, numbered, lost and found again."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import pytest

from proreus.model.decision import Decision
from proreus.serving.client.cluster_session import Described, KeptCluster
from proreus.serving.client.rest import RestClient, ServiceError
from proreus.serving.cluster_api import sessions
from proreus.serving.cluster_api.changes import AddNode, AddPod, BindPod, RemoveNode, RemovePod
from proreus.serving.cluster_api.cost import Kept, cost_of
from proreus.serving.cluster_api.decide import NamedDecisions
from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest
from proreus.serving.cluster_api.schema import NodeWire, PodWire
from proreus.serving.cluster_api.sessions import MOST_SESSIONS
from proreus.serving.messages import Refusal, Refused
from proreus.serving.metrics import Measurements
from proreus.worlds.pods.state.observation import PodObservation
from tests.serving.door_cases import Doors, ask

ROOM = {"cpu": 4, "memory": "8Gi", "pods": 110}
NODES: list[dict[str, Any]] = [{"name": name, "allocatable": ROOM} for name in "abc"]
POD = {"name": "web", "requests": {"cpu": "1500m", "memory": "1Gi"}}


def asked(named: NamedDecisions, **fields: Any) -> DecideAnswer:
    """What the service says to a request of these fields."""
    return named.decide(msgspec.convert({"explain": False, **fields}, DecideRequest), 0, 60.0)


@pytest.fixture(scope="module")
def named() -> NamedDecisions:
    """Best fit: it has no memory, so that sessions and single questions must agree."""
    named = NamedDecisions("best_fit", 60.0, Measurements())
    named.warm_up()
    return named


def test_changes_lead_where_a_fresh_description_would(named: NamedDecisions) -> None:
    kept = asked(named, nodes=NODES, keep=True)
    assert (kept.decision, kept.node, kept.generation) == ("none", None, 1)
    changes = [
        {"change": "add_pod", "pod": {**POD, "name": "one"}, "node": "b"},
        {"change": "add_pod", "pod": {**POD, "name": "two"}},
        {"change": "bind_pod", "name": "two", "node": "b"},
        {"change": "remove_node", "name": "a"},
        {"change": "add_node", "node": {"name": "d", "allocatable": ROOM, "used": {"cpu": "2"}}},
        {"change": "update_node", "node": {"name": "c", "allocatable": ROOM, "unschedulable": True}},
        {"change": "set_budget", "budget": {"name": "x", "selector": {}, "max_unavailable": 1}},
        {"change": "remove_budget", "name": "x"},
    ]
    decide_answer = asked(named, session=kept.session, generation=1, changes=changes, pod=POD)
    fresh = [
        {"name": "b", "allocatable": ROOM, "pods": [{**POD, "name": name} for name in ("one", "two")]},
        {"name": "c", "allocatable": ROOM, "unschedulable": True},
        {"name": "d", "allocatable": ROOM, "used": {"cpu": "2"}},
    ]
    alone = asked(named, nodes=fresh, pod=POD)
    assert decide_answer.generation == 2 and decide_answer.node == "d"
    assert msgspec.structs.replace(decide_answer, session="", generation=0) == alone


def test_a_decision_can_count_as_carried_out(named: NamedDecisions) -> None:
    first = asked(named, nodes=NODES[:1], keep=True, bind=True, pod=POD)
    assert (first.node, first.generation) == ("a", 2)
    second = asked(named, session=first.session, generation=2, bind=True, pod={**POD, "name": "second"})
    assert (second.node, second.generation) == ("a", 3)
    full = asked(named, session=first.session, generation=3, pod={**POD, "name": "third"})
    assert (full.decision, full.generation) == ("delay", 3)
    strong = {**POD, "name": "strong", "priority": 5}
    pushed = asked(named, session=first.session, generation=3, bind=True, pod=strong)
    assert pushed.decision == "preempt" and len(pushed.victims) == 1 and pushed.generation == 4
    again = asked(named, session=first.session, generation=4, pod={**strong, "name": "other", "priority": 9})
    assert set(again.victims).isdisjoint(pushed.victims)


def test_who_knows_another_generation_is_told_so(named: NamedDecisions) -> None:
    kept = asked(named, nodes=NODES, keep=True)
    with pytest.raises(Refused, match="is at 1; send the whole cluster again") as exception_info:
        asked(named, session=kept.session, generation=7, pod=POD)
    assert (exception_info.value.refusal, exception_info.value.field) == (Refusal.CONFLICT, "generation")
    assert asked(named, session=kept.session, generation=1, pod=POD).node == "a"


def test_a_session_that_is_not_there_is_told_so(doors: Doors) -> None:
    reply = ask(doors.rest, "/v1/decide", {"session": "0" * 32, "generation": 3, "pod": POD})
    assert (reply.status, reply.json["field"]) == (404, "session")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"pod": POD}, "nodes"),
        ({"nodes": NODES}, "pod"),
        ({"nodes": NODES, "pod": POD, "bind": True}, "bind"),
        ({"nodes": NODES, "pod": POD, "generation": 2}, "generation"),
        ({"nodes": NODES, "pod": POD, "changes": [{"change": "remove_pod", "name": "x"}]}, "changes"),
        ({"session": "s", "nodes": NODES, "pod": POD}, "nodes"),
        ({"session": "s", "keep": True, "pod": POD}, "keep"),
        ({"nodes": [*NODES, NODES[0]], "keep": True}, "nodes[3].name"),
        ({"nodes": NODES, "keep": True, "budgets": [{"name": "x", "selector": {}}]}, "budgets[0]"),
    ],
)
def test_what_does_not_go_together_is_refused_by_field(
    named: NamedDecisions, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as exception_info:
        asked(named, **fields)
    assert (exception_info.value.refusal, exception_info.value.field) == (Refusal.INVALID, field)


def test_what_cannot_be_meant_leaves_the_session_as_it_was(named: NamedDecisions) -> None:
    kept = asked(named, nodes=NODES, keep=True)
    changes = [
        {"change": "add_pod", "pod": {**POD, "name": "one"}, "node": "b"},
        {"change": "add_pod", "pod": {**POD, "requests": {"cpu": "lots"}}, "node": "b"},
    ]
    with pytest.raises(Refused) as exception_info:
        asked(named, session=kept.session, generation=1, changes=changes)
    assert exception_info.value.field == "changes[1].pod.requests.cpu"
    assert asked(named, session=kept.session, generation=1, pod=POD).node == "a"  # b is as empty as a


def test_what_cannot_be_done_ends_the_session(named: NamedDecisions) -> None:
    kept = asked(named, nodes=NODES, keep=True)
    changes = [
        {"change": "add_pod", "pod": {**POD, "name": "one"}, "node": "b"},
        {"change": "remove_pod", "name": "nobody"},
    ]
    with pytest.raises(Refused, match="session is closed") as exception_info:
        asked(named, session=kept.session, generation=1, changes=changes)
    assert exception_info.value.field == "changes[1]"
    with pytest.raises(Refused) as gone:
        asked(named, session=kept.session, generation=1, pod=POD)
    assert gone.value.field == "session"


def test_the_session_asked_longest_ago_makes_room(named: NamedDecisions) -> None:
    first = asked(named, nodes=NODES, keep=True)
    second = asked(named, nodes=NODES, keep=True)
    asked(named, session=first.session, generation=1, pod=POD)
    for _ in range(MOST_SESSIONS - 1):
        asked(named, nodes=NODES, keep=True)
    assert asked(named, session=first.session, generation=1, pod=POD).node == "a"
    with pytest.raises(Refused, match="is not kept"):
        asked(named, session=second.session, generation=1, pod=POD)


def test_a_policy_that_is_still_at_work_takes_its_session_along() -> None:
    named = NamedDecisions("best_fit", 0.05, Measurements())
    release = threading.Event()

    class Slow:
        name = "slow"

        def decide(self, observation: PodObservation) -> Decision:
            release.wait(20.0)
            raise AssertionError("nobody waits for this")

        def fresh(self, seed: int) -> Slow:
            return self

    named.policy = Slow()
    kept = asked(named, nodes=NODES, keep=True)
    decide_answer = asked(named, session=kept.session, generation=1, pod=POD)
    release.set()
    assert (decide_answer.decided_by, decide_answer.policy, decide_answer.node, decide_answer.session) == (
        "rule",
        "kube",
        "a",
        "",
    )
    with pytest.raises(Refused, match="is not kept"):
        asked(named, session=kept.session, generation=1, pod=POD)


def test_of_two_who_change_the_same_generation_one_is_refused(named: NamedDecisions) -> None:
    kept = asked(named, nodes=NODES, keep=True)
    outcomes: list[str] = []

    def change(name: str) -> None:
        changes = [{"change": "add_pod", "pod": {**POD, "name": name}, "node": "a"}]
        try:
            asked(named, session=kept.session, generation=1, changes=changes)
            outcomes.append("done")
        except Refused as refused:
            outcomes.append(refused.field)

    threads = [threading.Thread(target=change, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", "generation"]


def test_a_client_goes_on_where_the_service_has_forgotten(doors: Doors) -> None:
    room: dict[str, str | int | float] = {"cpu": 4, "memory": "8Gi", "pods": 110}
    nodes = [NodeWire("a", room), NodeWire("b", room)]
    told = 0

    def describe() -> Described:
        nonlocal told
        told += 1
        return nodes, []

    pod = PodWire("web", {"cpu": "1"})
    with RestClient(doors.url) as client:
        kept = KeptCluster(client, describe)
        assert kept.decide(pod).node == "a" and told == 1
        kept.note(AddPod(PodWire("big", {"cpu": "3500m"}), "a"), AddNode(NodeWire("c", room)))
        assert kept.decide(pod).node == "b" and told == 1
        kept.note(
            RemovePod("big"), RemoveNode("c"), AddPod(PodWire("late", {"cpu": "1"})), BindPod("late", "b")
        )
        assert kept.decide(pod).node == "b" and told == 1
        for _ in range(MOST_SESSIONS):
            client.decide(DecideRequest(None, nodes, keep=True))
        assert kept.decide(pod).node == "a" and told == 2  # as described: nothing runs on either
        kept.note(RemovePod("nobody"))
        with pytest.raises(ServiceError, match="session is closed"):
            kept.decide(pod)
        assert kept.decide(pod).node == "a" and told == 3


def test_a_question_in_a_session_costs_no_description(doors: Doors) -> None:
    """A thousand nodes: changes must be far less work than describing all of them again.

    The service is of this process, so its processor time tells, however busy the machine is."""
    room: dict[str, str | int | float] = {"cpu": 4, "memory": "8Gi", "pods": 110}
    nodes = [NodeWire(f"n{k}", room) for k in range(1_000)]
    pod = PodWire("web", {"cpu": "1"})
    with RestClient(doors.url) as client:
        kept = KeptCluster(client, lambda: (nodes, []))
        kept.decide(pod)
        kept.decide(pod)
        begin = time.process_time()
        for k in range(10):
            kept.note(AddPod(PodWire(f"p{k}", {"cpu": "1"}), f"n{k}"))
            kept.decide(pod)
        told = time.process_time() - begin
        begin = time.process_time()
        client.decide(DecideRequest(pod, nodes, explain=False))
        described = time.process_time() - begin
    assert told / 10 < described


def test_what_a_session_may_cost_is_told_from_the_changes(named: NamedDecisions) -> None:
    """A few changes that would be dear against all nodes that are kept."""
    room = {**ROOM, "pods": 110}
    nodes = [{"name": f"n{k}", "allocatable": room} for k in range(2_000)]
    kept = asked(named, nodes=nodes, keep=True)
    dear = {**ROOM, **{f"own/{k}": 1 for k in range(20_000)}}
    with pytest.raises(Refused, match="units of work") as exception_info:
        asked(
            named,
            session=kept.session,
            generation=1,
            changes=[{"change": "add_node", "node": {"name": "x", "allocatable": dear}}],
        )
    assert (exception_info.value.refusal, exception_info.value.field) == (
        Refusal.TOO_LARGE,
        "nodes.allocatable",
    )
    assert asked(named, session=kept.session, generation=1, pod=POD).node == "n0"  # nothing was changed


def test_a_cluster_that_grows_too_large_is_not_kept(
    named: NamedDecisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = asked(named, nodes=NODES, keep=True)
    monkeypatch.setattr(sessions, "MOST_BYTES", 1)
    change = {"change": "add_node", "node": {"name": "x", "allocatable": ROOM}}
    with pytest.raises(Refused, match="takes more than 0 MiB; the session is closed"):
        asked(named, session=kept.session, generation=1, changes=[change])
    with pytest.raises(Refused, match="takes more than"):
        asked(named, nodes=NODES, keep=True)


def test_sessions_make_room_by_what_they_take(named: NamedDecisions, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked(named, nodes=NODES, keep=True)
    monkeypatch.setattr(sessions, "MOST_BYTES_IN_ALL", 1)
    second = asked(named, nodes=NODES, keep=True)
    assert asked(named, session=second.session, generation=1, pod=POD).node == "a"
    with pytest.raises(Refused, match="is not kept"):
        asked(named, session=first.session, generation=1, pod=POD)


def test_resources_that_a_session_has_and_those_that_come_are_both_counted() -> None:
    """One more column may move all rows, as wide as they have become."""
    has = frozenset(f"x/{k}" for k in range(2_000))

    def units(kept: Kept, name: str) -> float:
        pod = {"name": "p", "requests": {name: 1}}
        request = msgspec.convert({"session": "s", "generation": 1, "pod": pod}, DecideRequest)
        return cost_of(request, kept)["nodes.allocatable"]

    narrow, wide = Kept(2_000), Kept(2_000, resources=has)
    assert units(wide, "x/new") > 500 * units(narrow, "x/new")
    assert units(narrow, "x/1") < units(wide, "x/1") < units(wide, "x/new") / 10


def test_a_session_knows_its_resources(named: NamedDecisions) -> None:
    node = {"name": "n", "allocatable": {**ROOM, "x/1": 1}}
    kept = asked(named, nodes=[node], keep=True)
    asked(named, session=kept.session, generation=1, pod={"name": "p", "requests": {"x/2": 1}})
    assert set(named._sessions.named(kept.session).kept().resources) == {"x/1", "x/2"}
