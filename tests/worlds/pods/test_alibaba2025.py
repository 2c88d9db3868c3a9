"""The DLRM trace of 2025 and the nodes built for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.model.errors import InputError
from proreus.model.node import HOSTNAME
from proreus.model.pod import GpuRequest, PodTerm
from proreus.model.resources import GIB, Resources
from proreus.model.selectors import match_labels
from proreus.worlds.pods.datasets.alibaba2025 import ROLE, dlrm_nodes, read_pods

Write = Callable[[str, str | bytes], Path]
HEADER = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
    "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,"
    "creation_time,scheduled_time,deletion_time\n"
)


def test_reads_instances(write: Write) -> None:
    text = (
        HEADER
        + "late,CN,web,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,500.5,501,600.5\n"
        + "first,HN,rank,12,16,1,1,25,25,120.0,120.0,640.5,800.0,1,,,\n"
        + "leaving,HN,rank,12,16,1,1,25,25,120.0,120.0,640.5,800.0,8,,,75\n"
    )
    first, leaving, late = read_pods(write("t.csv", text))
    assert (first.name, first.arrival, first.duration) == ("first", 0.0, math.inf)
    assert (leaving.arrival, leaving.duration) == (0.0, 75.0)
    assert (late.arrival, late.duration) == (500.5, 100.0)
    assert first.spec.requests == Resources(12_000, 120 * GIB, int(640.5 * GIB), network=25_000)
    assert (first.spec.gpu, late.spec.gpu) == (GpuRequest(1, 1000), GpuRequest())
    assert (first.spec.cpu_limit, first.spec.node_selector) == (16_000, ((ROLE, "HN"),))
    alone = PodTerm(match_labels({"app": "rank"}), HOSTNAME)
    assert first.spec.anti_affinity.required == (alone,)
    assert leaving.spec.anti_affinity.required == late.spec.anti_affinity.required == ()


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        ("a,XN,w,1,1,0,0,1,1,1,1,1,1,-1,,,", "role", "neither HN nor CN"),
        ("a,CN,w,1,1,0,0,1,1,1,1,1,1,-1,9,,5", "deletion_time", "before it starts"),
        ("a,CN,w,1,1,0.5,0,1,1,1,1,1,1,-1,,,", "gpu_request", "whole"),
        ("a,CN,w,1,1,0,0,1,1,1e12,1,1,1,-1,,,", "memory_request", "above"),
        ("a,CN,w,1,1,0,0,1,1,1,1,1,1,-2,,,", "max_instance_per_node", "below -1"),
        ("ok,CN,w,1,1,0,0,1,1,1,1,1,1,-1,,,", "instance_sn", "two instances"),
    ],
)
def test_bad_rows(write: Write, row: str, field: str, message: str) -> None:
    path = write("t.csv", HEADER + "ok,CN,w,1,1,0,0,1,1,1,1,1,1,-1,,,\n" + row + "\n")
    with pytest.raises(InputError, match=message) as caught:
        read_pods(path)
    assert (caught.value.file, caught.value.line, caught.value.field) == (path, 3, field)


def test_nodes_are_sized_to_the_peak_of_the_scarcest_resource(write: Write) -> None:
    together = "".join(f"a{i},CN,w,192,192,0,0,1,1,1,1,1,1,-1,{i},,100\n" for i in range(8))
    apart = "".join(f"b{i},HN,w,1,1,1,1,1,1,1,1,1,1,-1,{10 * i},,{10 * i + 10}\n" for i in range(8))
    nodes = dlrm_nodes(read_pods(write("t.csv", HEADER + together + apart)))
    roles = [dict(node.labels)[ROLE] for node in nodes]
    assert roles == ["HN"] + ["CN"] * 10, (
        "8 whole CPU nodes at once fill 10 to 80 %; one GPU at a time needs one"
    )
    assert (nodes[0].gpu_count, nodes[1].gpu_count) == (8, 0)


def test_real_trace(real_data: Path) -> None:
    pods = read_pods(real_data / "alibaba_gpu_v2025" / "disaggregated_DLRM_trace.csv")
    assert len(pods) == 23_871
    assert sum(pod.spec.gpu.count for pod in pods) == 7_386
    assert sum(pod.arrival == 0.0 for pod in pods) == 7_280
    nodes = dlrm_nodes(pods)
    for pod in pods:
        role = pod.spec.node_selector[0]
        shape = next(node for node in nodes if role in node.labels)
        offered, asked = shape.allocatable, pod.spec.requests
        assert asked.cpu <= offered.cpu and asked.memory <= offered.memory
        assert asked.ephemeral <= offered.ephemeral and asked.network <= offered.network
