"""The openb reader and the published experiment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GpuRequest, Pod, PodSpec
from proreus.model.resources import MIB, Resources
from proreus.worlds.pods.datasets.openb import first_nodes, openb_experiment, read_nodes, read_pods

Write = Callable[[str, str | bytes], Path]
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
LONG = SHORT.strip() + ",gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_reads_nodes(write: Write) -> None:
    first, second = read_nodes(write("n.csv", NODES + "a,96000,1024,8,G2\nb,1000,2,0,\n"))
    assert first == Node("a", Resources(96_000, 1024 * MIB, pods=1_000_000), 8, "G2")
    assert (second.gpu_count, second.gpu_model) == (0, "")


def test_reads_pods_by_arrival_from_the_earliest_creation(write: Write) -> None:
    text = LONG + "late,1,2,1,500,A|B|B,LS,Running,300,400,310\nearly,1,2,0,0,,BE,Failed,100,,\n"
    early, late = read_pods(write("p.csv", text))
    assert (early.name, early.arrival, early.duration) == ("early", 0.0, math.inf)
    assert (late.name, late.arrival, late.duration) == ("late", 200.0, 100.0)
    assert late.spec.gpu == GpuRequest(1, 500, ("A", "B"))
    assert late.spec.requests == Resources(cpu=1, memory=2 * MIB)


def test_pods_without_times_arrive_at_zero_and_stay_in_file_order(write: Write) -> None:
    pods = read_pods(write("p.csv", SHORT + "b,1,1,0,0\na,1,1,0,0\n"))
    assert [(pod.name, pod.arrival, pod.duration) for pod in pods] == [("b", 0, math.inf), ("a", 0, math.inf)]


@pytest.mark.parametrize(
    ("text", "line", "field", "message"),
    [
        (LONG + "a,1,1,0,0,,,,5,9,\nb,1,1,0,0,,,,9,5,\n", 3, "deletion_time", "before it starts at 9"),
        (LONG + "a,1,1,0,0,,,,,5,\n", 2, "creation_time", "needs a creation time"),
        (SHORT + "a,-1,1,0,0\n", 2, "cpu_milli", "negative"),
        (SHORT + "a,1,nan,0,0\n", 2, "memory_mib", "finite"),
        (SHORT + "a,1,1,1,1001\n", 2, "gpu_milli", "above 1000"),
        (SHORT + "a,1,1,0,500\n", 2, "gpu_milli", "not a request"),
        (SHORT + "a,1,1,2,0\n", 2, "gpu_milli", "not a request"),
        (SHORT + "a,1,1,0,0\na,1,1,0,0\n", 3, "name", "two pods"),
        (SHORT + "a,1,1,0\n", 2, None, "4 cells where 5"),
        ("name,cpu_milli\n", 1, "memory_mib", "missing"),
    ],
)
def test_bad_pods(write: Write, text: str, line: int, field: str | None, message: str) -> None:
    path = write("p.csv", text)
    with pytest.raises(InputError, match=message) as caught:
        read_pods(path)
    assert (caught.value.file, caught.value.line, caught.value.field) == (path, line, field)


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        ("a,1,1,x,G2", "gpu", "not a number"),
        ("a,1,99999999999999999,0,", "memory_mib", "above"),
        (",1,1,0,", "sn", "empty"),
    ],
)
def test_bad_nodes(write: Write, row: str, field: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_nodes(write("n.csv", NODES + row + "\n"))
    assert (caught.value.line, caught.value.field) == (2, field)


def test_two_nodes_of_one_name(write: Write) -> None:
    with pytest.raises(InputError, match=r":3: sn: two nodes"):
        read_nodes(write("n.csv", NODES + "a,1,1,0,\na,1,1,0,\n"))


def gpu_pod(name: str, milli: int) -> Pod:
    gpu = GpuRequest(1, milli) if milli else GpuRequest()
    return Pod(name, PodSpec(Resources(cpu=1), gpu), arrival=5.0, duration=7.0)


@given(
    milli=st.lists(st.sampled_from([0, 100, 500, 1000]), min_size=1, max_size=30).filter(any),
    seed=st.integers(0, 2**31),
    load=st.floats(0.1, 3.0),
)
def test_experiment_stops_at_the_load_with_unique_names(milli: list[int], seed: int, load: float) -> None:
    nodes = tuple(Node(f"n{i}", Resources(cpu=1), 2) for i in range(4))
    pods = tuple(gpu_pod(f"p{i:02d}", amount) for i, amount in enumerate(milli))
    workload = openb_experiment(nodes, pods, seed, load)
    demands = [pod.spec.gpu.count * pod.spec.gpu.milli for pod in workload.pods]
    assert sum(demands) >= load * 8000 > sum(demands[:-1])
    assert len({pod.name for pod in workload.pods}) == len(workload.pods)
    assert [pod.arrival for pod in workload.pods] == list(range(len(workload.pods)))
    assert all(pod.duration == math.inf for pod in workload.pods)
    assert set(workload.nodes) == set(nodes)
    originals = [pod.name for pod in workload.pods[: len(pods)]]
    assert set(originals) <= {pod.name for pod in pods}
    assert openb_experiment(nodes, tuple(reversed(pods)), seed, load) == workload


def test_the_first_nodes_are_asked_for_as_much_as_all_of_them() -> None:
    nodes = tuple(Node(f"n{i}", Resources(cpu=1), 2) for i in range(20))
    pods = tuple(gpu_pod(f"p{i:02d}", 500) for i in range(50))
    whole = openb_experiment(nodes, pods, 42)
    part = first_nodes(whole, 5)
    assert (part.nodes, part.pods) == (whole.nodes[:5], whole.pods[:26])
    assert sum(pod.spec.gpu.milli for pod in part.pods) == 1.3 * 10_000
    with pytest.raises(InputError, match="21 nodes: the experiment has 20"):
        first_nodes(whole, 21)


def test_experiment_differs_by_seed() -> None:
    nodes = tuple(Node(f"n{i}", Resources(cpu=1), 2) for i in range(20))
    pods = tuple(gpu_pod(f"p{i:02d}", 500) for i in range(50))
    first, second = openb_experiment(nodes, pods, 42), openb_experiment(nodes, pods, 43)
    assert first.nodes != second.nodes
    assert first.pods != second.pods


def test_experiment_without_gpus_is_an_error() -> None:
    gpu_node, cpu_node = Node("g", Resources(), 1), Node("c", Resources())
    for nodes, pods in (((gpu_node,), (gpu_pod("p", 0),)), ((cpu_node,), (gpu_pod("p", 1000),))):
        with pytest.raises(InputError, match="needs nodes with GPUs"):
            openb_experiment(nodes, pods, 0)


def test_real_trace_has_the_published_counts(real_data: Path) -> None:
    folder = real_data / "openb"
    assert len(read_nodes(folder / "openb_node_list_all_node.csv")) == 1523
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    assert len(nodes) == 1213
    assert sum(node.gpu_count for node in nodes) == 6212
    assert sum(node.allocatable.cpu for node in nodes) == 107_018_000
    pods = read_pods(folder / "openb_pod_list_default.csv")
    assert len(pods) == 8152
    kinds = Counter(
        "none" if pod.spec.gpu.count == 0
        else "several" if pod.spec.gpu.count > 1
        else "whole" if pod.spec.gpu.milli == 1000
        else "part"
        for pod in pods
    )  # fmt: skip
    shares = {kind: round(100 * count / len(pods), 1) for kind, count in kinds.items()}
    assert shares == {"whole": 48.0, "part": 37.8, "none": 13.3, "several": 0.9}
    workload = openb_experiment(nodes, pods, 42)
    demand = sum(pod.spec.gpu.count * pod.spec.gpu.milli for pod in workload.pods) / 6_212_000
    assert 1.3 <= demand < 1.3 + 8 / 6212


def test_real_variants_are_read(real_data: Path) -> None:
    assert len(read_pods(real_data / "openb" / "openb_pod_list_multigpu20.csv")) == 8324
    specified = read_pods(real_data / "openb" / "openb_pod_list_gpuspec10.csv")
    assert any(len(pod.spec.gpu.models) > 1 for pod in specified)
