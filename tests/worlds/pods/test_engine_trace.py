"""A cluster's own trace as a workload: what it knows is replayed, what it cannot know is told."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.store.factory import open_store
from proreus.engine.store.protocol import Put
from proreus.engine.trace.segments import PREFIX, NodeEntry, PodEntry, Segment, digest, encode
from proreus.model.cluster_trace import ClusterTrace, NodeTrace, PodTrace, PodUsed
from proreus.model.errors import InputError, UsageError
from proreus.model.node import Node
from proreus.model.pod import PodSpec
from proreus.model.resources import GIB, Resources
from proreus.worlds.pods.datasets.engine_trace import TraceReplay, drawn_anew, moment_of, replayed
from proreus.worlds.pods.flags import PodsFlags
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.scenarios import FromEngine, scenario_from_json
from proreus.worlds.pods.state.compile import compile_workload

AT = 1_800_000_000.0
NODE = Node("n", Resources(cpu=4000, memory=8 * GIB, pods=110))
SMALL, LARGE = PodSpec(Resources(cpu=1000)), PodSpec(Resources(cpu=3000), priority=5)


def life(name: str, created: float, *moments: float | None, spec: PodSpec = SMALL, **parts: Any) -> PodTrace:
    """moments: bound, running, ended; seconds after the beginning, as `created`."""
    bound, running, ended = [None if m is None else AT + m for m in (*moments, *3 * [None])[:3]]
    node = "n" if bound else ""
    end = parts.pop("end", "succeeded" if ended else "")
    return PodTrace(
        name, name, spec, AT + created, bound=bound, node=node, running=running, ended=ended, end=end, **parts
    )


def trace(*pods: PodTrace, nodes: tuple[NodeTrace, ...] = (NodeTrace("n", AT, NODE),)) -> ClusterTrace:
    return ClusterTrace(tuple(sorted(pods, key=lambda pod: pod.created)), nodes, AT + 100)


def replay(*pods: PodTrace, since: float = 0.0, until: float = math.inf, **parts: Any) -> TraceReplay:
    return replayed("x", trace(*pods, **parts), AT + since if since else 0.0, AT + until)


def test_arrivals_durations_and_start_latency_are_those_that_were() -> None:
    trace_replay = replay(
        life("a", 10, 10.5, 11.5, 31.5, owner="Job/j"), life("b", 20, 21, 22, 32, spec=LARGE)
    )
    first, second = trace_replay.workload.pods
    assert (first.name, first.arrival, first.duration, first.job) == ("a", 10.0, 20.0, "Job/j")
    assert (second.arrival, second.duration, second.spec.priority) == (20.0, 10.0, 5)
    assert trace_replay.workload.nodes[0].pace.start_seconds == 1.0
    assert not (
        trace_replay.censored or trace_replay.left_out or trace_replay.disturbed or trace_replay.changed_nodes
    )


def test_who_had_not_ended_stays_and_that_is_told() -> None:
    trace_replay = replay(
        life("runs", 10, 11, 12), life("waits", 20), life("later", 30, 31, 32, 90), until=50
    )
    assert [pod.duration for pod in trace_replay.workload.pods] == 3 * [math.inf]
    assert trace_replay.censored == 3
    assert "3 had not ended and stay to the end" in trace_replay.told


def test_who_was_there_before_is_where_it_was() -> None:
    trace_replay = replay(
        life("there", 0, 1, 2, 60),
        life("over", 0, 1, 2, 30),
        life("waited", 5, 50, 51, 80),
        life("new", 45, 46, 47, 70),
        since=40,
    )
    pods = {pod.name: pod for pod in trace_replay.workload.pods}
    assert pods.keys() == {"there", "waited", "new"}
    assert (pods["there"].node, pods["there"].arrival, pods["there"].duration) == ("n", 0.0, 20.0)
    assert (pods["waited"].node, pods["waited"].arrival, pods["waited"].duration) == ("", 0.0, 29.0)
    assert pods["new"].arrival == 5.0


def test_what_cannot_be_replayed_is_left_out_and_told() -> None:
    gave_up = life("gave up", 10, None, None, 20, end="deleted")
    victim = life("victim", 10, 11, 12, 15, end="preempted")
    trace_replay = replay(gave_up, victim)
    assert [pod.name for pod in trace_replay.workload.pods] == ["victim"]
    assert (trace_replay.left_out, trace_replay.disturbed) == (1, 1)
    assert "1 were deleted before they had a node" in trace_replay.told


def test_a_node_counts_as_it_was_for_most_of_the_time() -> None:
    cordoned = Node("n", NODE.allocatable, unschedulable=True)
    other = Node("m", NODE.allocatable)
    nodes = (
        NodeTrace("n", AT, NODE),
        NodeTrace("n", AT + 10, cordoned),
        NodeTrace("m", AT + 20, other),
        NodeTrace("n", AT + 30, NODE),
        NodeTrace("m", AT + 60, None),
        NodeTrace("late", AT + 200, other),
    )
    trace_replay = replay(life("a", 10, 11, 12, 20), nodes=nodes)
    assert [node.name for node in trace_replay.workload.nodes] == ["m", "n"]
    assert not trace_replay.workload.nodes[1].unschedulable
    assert trace_replay.changed_nodes == 2
    early = replay(life("a", 10, 11, 12, 20), nodes=nodes, since=12, until=29)
    assert early.workload.nodes[1].unschedulable


def test_pods_of_one_name_are_told_apart() -> None:
    twice = [
        PodTrace(f"u{n}", "default/web", SMALL, AT + n, bound=AT + n, node="n", running=AT + n)
        for n in (1, 2)
    ]
    assert [pod.name for pod in replay(*twice).workload.pods] == ["default/web", "default/web#2"]


def test_where_nothing_happened_one_line_says_so() -> None:
    with pytest.raises(InputError, match="no pod was recorded between 2027-01-15"):
        replay(life("a", 10, 11, 12, 20), since=50, until=60)


def test_pods_drawn_anew_come_when_pods_came() -> None:
    was = replay(life("there", 0, 1, 2), *(life(f"p{n}", 10 + n, 20, 20, 20 + n) for n in range(30)), since=5)
    workload, other = drawn_anew(was, 1), drawn_anew(was, 2)
    assert [pod.arrival for pod in workload.pods] == [pod.arrival for pod in was.workload.pods]
    assert workload != other
    assert drawn_anew(was, 1) == workload
    assert workload.pods[0] == was.workload.pods[0], "who was there stays"
    known = {(pod.spec, pod.duration) for pod in was.workload.pods}
    assert {(pod.spec, pod.duration) for pod in workload.pods} <= known


def test_who_had_not_ended_is_drawn_with_the_length_of_one_that_lasted_longer() -> None:
    ended = [life(f"e{n}", n, n, n, n + length) for n, length in enumerate((5, 30, 50))]
    runs, service = life("runs", 80, 80, 80), life("service", 90, 90, 90, spec=LARGE)
    was = replay(*ended, runs, service)
    drawn = [pod for seed in range(1, 40) for pod in drawn_anew(was, seed).pods]
    assert {pod.duration for pod in drawn if pod.spec is SMALL} == {5.0, 30.0, 50.0}
    assert {pod.duration for pod in drawn if pod.spec is LARGE} == {math.inf}, "none of its kind ever ended"
    assert was.workload.pods[3].duration == math.inf, "as recorded it stays"


def test_what_pods_really_used_is_what_load_aware_scores_see() -> None:
    asked = SMALL.requests.cpu
    trace_replay = replay(
        life("busy", 0, 1, 2, 30, used=PodUsed(asked * 0.5, asked * 0.1, 1 << 20)),
        life("unknown", 1, 2, 3, 40),
    )
    busy, unknown = trace_replay.workload.pods
    assert (busy.spec.usage, busy.spec.usage_deviation) == (0.5, 0.1)
    assert unknown.spec == SMALL
    stays = life("stays", 80, 80, 80, used=PodUsed(asked * 0.25, 0.0, 0))
    again = replay(life("longer", 0, 1, 2, 90, used=PodUsed(asked * 0.75, 0.0, 0)), stays)
    drawn = [pod.duration for seed in range(1, 9) for pod in drawn_anew(again, seed).pods]
    assert set(drawn) == {88.0}, "pods that ask for the same are of one kind"


def test_a_replay_by_the_same_rules_is_played_to_the_end() -> None:
    pods = [life(f"p{n}", n, n + 0.5, n + 1, n + 21, spec=LARGE) for n in range(1, 5)]
    outcome = simulate(compile_workload(replay(*pods).workload), make_policy("kube"))
    assert outcome.measures["failures"] == 0
    assert outcome.measures["jct_mean"] > 20


@pytest.fixture
def store(tmp_path: Path) -> str:
    async def write() -> None:
        opened = await open_store(str(tmp_path / "cluster.db"))
        pods = [
            PodEntry(f"u{n}", f"default/p{n}", digest(SMALL), AT + n, bound=AT + n, node="n", running=AT + n)
            for n in range(1, 9)
        ]
        segment = Segment(9, AT + 50, pods, [NodeEntry("n", AT, NODE)], {digest(SMALL): SMALL})
        await opened.commit([], [Put(f"{PREFIX}{1:012d}", encode(segment))])
        await opened.close()

    asyncio.run(write())
    return str(tmp_path)


def test_the_flags_name_a_store_and_a_stretch(store: str) -> None:
    scenario = PodsFlags(
        format="engine", from_=store, since="2027-01-15T08:00:03", until="2100-01-01"
    ).chosen()
    assert isinstance(scenario.source, FromEngine)
    assert len(scenario.source.load(0).pods) == 8, "those that were there before included"
    assert sum(not pod.node for pod in scenario.source.load(0).pods) == 6
    assert "8 had not ended" in scenario.caution((0, 1))
    assert scenario_from_json(scenario.to_json()) == scenario


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (PodsFlags(format="engine"), "--from STORE"),
        (PodsFlags(format="engine", from_="x", pods=Path("y")), "no files"),
        (PodsFlags(from_="x"), "go with --format engine"),
        (PodsFlags(format="manifests", pods=Path("x"), since="1d"), "go with --format engine"),
        (PodsFlags(format="engine", from_="x", since="soon"), "--since 'soon' is no moment"),
        (PodsFlags(format="engine", from_="x", since="1h", until="2h"), "--since is not before --until"),
    ],
)
def test_flags_that_cannot_be_meant(flags: PodsFlags, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flags.chosen()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400.0),
        ("1.5h", 5400.0),
        ("7d", 604_800.0),
        ("1970-01-01", AT),
        ("1970-01-01T01:00:00+01:00", AT),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    assert moment_of("--since", text, AT) == AT - seconds
