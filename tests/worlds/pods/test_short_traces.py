"""Learning from a short trace of a real cluster: few pods, most of which had not ended."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest

from proreus.cli.main import main
from proreus.engine.client.schedulers import DDQNScheduler
from proreus.engine.store.factory import open_store
from proreus.engine.store.protocol import Put
from proreus.engine.trace.segments import PREFIX, NodeEntry, PodEntry, Segment, digest, encode
from proreus.model.errors import InputError, UsageError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.resample import filling
from proreus.worlds.pods.scenarios import FromEngine, PodScenario, Resampled
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.training.batched_lanes import BatchedPods

AT = 1_700_000_000.0
GPU_NODE = Node("g", Resources(cpu=4000, memory=8 * GIB, pods=110), 4, "T4")
PLAIN_NODE = Node("n", Resources(cpu=4000, memory=8 * GIB, pods=110))
ASKING = PodSpec(Resources(cpu=1000, memory=GIB))
LARGE = PodSpec(Resources(cpu=3000, memory=GIB))
APART = 2.0
"""Seconds between two pods: more than the nodes can hold at once."""


def workload(spec: PodSpec, *durations: float, node: Node = PLAIN_NODE) -> Workload:
    pods = tuple(Pod(f"p{place}", spec, 10.0 * place, lasts) for place, lasts in enumerate(durations))
    return Workload("short", (node, Node("m", node.allocatable, node.gpu_count, node.gpu_model)), pods)


def write(path: Path, ended: int, count: int = 12) -> Path:
    """A store with the trace of so many pods, the first of which had ended."""
    entries = [
        PodEntry(
            f"u{place}",
            f"default/p{place}",
            digest(LARGE if place % 3 == 0 else ASKING),
            AT + APART * place,
            bound=AT + APART * place + 1,
            node="a",
            running=AT + APART * place + 2,
            ended=AT + APART * place + 42 + place if place < ended else 0.0,
            end="succeeded" if place < ended else "",
        )
        for place in range(count)
    ]
    nodes = [NodeEntry(name, AT, Node(name, PLAIN_NODE.allocatable)) for name in ("a", "b", "c")]
    specs = {digest(spec): spec for spec in (ASKING, LARGE)}
    segment = Segment(1, AT + APART * count + 100, entries, nodes, specs)

    async def keep() -> None:
        store = await open_store(f"sqlite:{path}")
        await store.commit([], [Put(f"{PREFIX}{1:020d}", encode(segment))])
        await store.close()

    asyncio.run(keep())
    return path


def test_pods_that_had_not_ended_are_censored_and_not_refused() -> None:
    batch = BatchedPods(compile_workload(workload(ASKING, 30.0, math.inf, 70.0)), 1, reward="completion")
    assert batch.lanes[0].base_work.tolist() == [30.0, 70.0, 70.0], "as long as the longest that ended"
    with pytest.raises(UsageError, match="needs pods that end"):
        BatchedPods(compile_workload(workload(ASKING, *[math.inf] * 4)), 1, reward="completion")


def test_pods_that_ask_for_cpu_alone_are_measured_by_it_also_where_nodes_have_gpus() -> None:
    batch = BatchedPods(compile_workload(workload(ASKING, 30.0, 40.0, node=GPU_NODE)), 1)
    assert batch.lanes[0].scale[0] == 1000.0
    batch.observe()
    assert batch.step_one(0, 0)[0] == pytest.approx(1.0), "placing a mean pod is worth one"


def test_what_is_missing_is_said_truly() -> None:
    with pytest.raises(UsageError, match=r"none of the 2 pods of short asks for CPU or GPUs.*--reward compl"):
        BatchedPods(compile_workload(workload(PodSpec(Resources(memory=GIB)), 30.0, 40.0)), 1)


def test_nodes_are_filled_by_what_pods_do_ask_for() -> None:
    by_memory = workload(PodSpec(Resources(memory=GIB)), *[1.0] * 3)
    assert len(filling(by_memory.nodes, by_memory.pods, 0).pods) == math.ceil(1.3 * 16)
    by_number = workload(PodSpec(Resources()), *[1.0] * 3)
    assert len(filling(by_number.nodes, by_number.pods, 0).pods) == math.ceil(1.3 * 220)
    nothing = (Node("x", Resources(cpu=1)),)
    with pytest.raises(
        InputError, match="none of these 3 pods asks for CPU, memory or GPUs, and no node says"
    ):
        filling(nothing, by_number.pods, 0)


@pytest.mark.parametrize(("ended", "measure"), [(5, "jct_mean"), (0, "wait_mean")])
def test_a_trace_is_judged_by_what_it_shows(tmp_path: Path, ended: int, measure: str) -> None:
    source = FromEngine(str(write(tmp_path / "trace.db", ended)), 0.0, AT + 10_000)
    assert PodScenario(source).yardstick() == (measure, ("best_fit",))
    drawn = PodScenario(Resampled(source), PodsOptions(drop_failures=True))
    with pytest.raises(InputError, match="12 pods are too few"):
        drawn.yardstick()


def learned(tmp_path: Path, ended: int, count: int) -> int:
    settings = "--warm-up 20 --batch-size 8 --report-every 30 --validation-seeds 2 --train-seeds 1 --steps 60"
    words = f"train pods --algo ddqn --format engine --reward completion --quiet {settings}".split()
    words += ["--from", str(write(tmp_path / "trace.db", ended, count)), "--out", str(tmp_path / "run")]
    return main([*words, "--confirm-seeds", "2"])


def test_ddqn_learns_from_a_short_trace_and_its_class_decides(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="ddqn needs the extra `learn`")
    assert learned(tmp_path, 30, 40) == 0
    card = json.loads((tmp_path / "run" / "best" / "card.json").read_text())
    assert (card["algorithm"], card["kind"]) == ("ddqn", "q")
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    nodes = [{"metadata": {"name": name}, "status": {"allocatable": room}} for name in ("full", "free")]
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}
    running = {"metadata": {"name": "there"}, "spec": {"nodeName": "full", "containers": [container]}}
    asking = {"metadata": {"name": "new"}, "spec": {"containers": [container]}}
    assert DDQNScheduler(tmp_path / "run").choose(asking, nodes, [running]) == "free"


def test_a_trace_that_teaches_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="ddqn needs the extra `learn`")
    assert learned(tmp_path, 4, 4) == 1, "four pods, all of which find room"
    assert "nothing to learn" in capsys.readouterr().err
