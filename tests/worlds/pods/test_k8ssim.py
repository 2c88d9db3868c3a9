"""The k8s simulator's node and job files."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.model.errors import InputError
from proreus.model.node import Effect, Pace, Taint
from proreus.model.pod import GpuRequest
from proreus.model.resources import MIB
from proreus.worlds.pods.datasets.k8ssim import WORK_PER_EPOCH, read_jobs, read_nodes, read_workload

Write = Callable[[str, str | bytes], Path]
CONTAINER = "jobs[0].spec.tasks[0].template.spec.containers[0]"
FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_nodes_are_kept_by_name_with_all_timing() -> None:
    master, worker = read_nodes(FIXTURES / "sim_nodes.yaml")
    assert master.taints == (Taint("node-role.kubernetes.io/master", "", Effect.NO_SCHEDULE),)
    assert master.pace == Pace(speed=1.0, start_seconds=2.0, start_extra=0.5, start_spacing=1.0)
    assert (worker.allocatable.cpu, worker.gpu_count) == (4000, 8)
    assert worker.pace == Pace(
        speed=1.5,
        start_seconds=6.0,
        start_extra=2.5,
        start_spacing=2.0,
        minimum_speed=0.6,
        slow_threshold=0.8,
    )


def test_tasks_come_by_submission_then_job_then_index() -> None:
    pods = read_jobs(FIXTURES / "sim_jobs.yaml")
    assert [pod.name for pod in pods] == ["default-early-one-0", "team-late-train-0", "team-late-train-1"]
    early, late, _ = pods
    assert (early.arrival, early.duration, early.job) == (0.0, WORK_PER_EPOCH, "early")
    assert (late.arrival, late.duration, late.job) == (7.0, 3 * WORK_PER_EPOCH, "late")
    assert late.spec.gpu == GpuRequest(2, 1000)
    assert (late.spec.requests.cpu, late.spec.requests.memory) == (500, 1000 * MIB)
    assert (late.spec.cpu_limit, late.spec.namespace) == (600, "team")


def test_workload_runs_in_ticks() -> None:
    workload = read_workload(FIXTURES / "sim_nodes.yaml", FIXTURES / "sim_jobs.yaml")
    assert workload.ticked
    assert workload.name == "k8ssim-sim_jobs"


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ("'7'", "soon", "jobs[0].metadata.labels.sub-time", "not a number"),
        ("'7'", "'-1'", "jobs[0].metadata.labels.sub-time", "negative"),
        ("replicas: 2", "replicas: two", "jobs[0].spec.tasks[0].replicas", "not a number"),
        ("minAvailable: 2", "minAvailable: 1.5", "jobs[0].spec.minAvailable", "not a whole number"),
        ("--epochs=3", "--epochs=x", f"{CONTAINER}.command[2]", "epochs"),
        ("name: late,", "", "jobs[0].metadata.name", "missing"),
        ("jobs:", "work:", "jobs", "missing"),
        ("name: early}", "name: late, namespace: team}", None, None),
    ],
)  # fmt: skip
def test_bad_jobs(write: Write, old: str, new: str, field: str | None, message: str | None) -> None:
    text = (FIXTURES / "sim_jobs.yaml").read_text()
    assert old in text
    path = write("jobs.yaml", text.replace(old, new, 1))
    if message is None:  # jobs of one name are fine while their tasks differ
        assert len(read_jobs(path)) == 3
        return
    with pytest.raises(InputError, match=message) as caught:
        read_jobs(path)
    assert (caught.value.file, caught.value.field) == (path, field)
    assert caught.value.line is not None


def test_bad_nodes(write: Write) -> None:
    text = (FIXTURES / "sim_nodes.yaml").read_text()
    with pytest.raises(InputError, match=r":10: cluster\[1\]\.calculationSpeed: '-2' is negative"):
        read_nodes(write("n.yaml", text.replace("calculationSpeed: 0.5", "calculationSpeed: -2")))
    with pytest.raises(InputError, match="cluster: the list is empty"):
        read_nodes(write("n.yaml", "cluster: []\n"))
    with pytest.raises(InputError, match=r"n\.yaml:3: not valid YAML"):
        read_nodes(write("n.yaml", "cluster:\n- a: 1\n b: 2\n"))


def test_two_tasks_of_one_name(write: Write) -> None:
    text = (FIXTURES / "sim_jobs.yaml").read_text()
    repeated = text + text.split("jobs:\n")[1]
    with pytest.raises(InputError, match="two tasks are named 'team-late-train-0'"):
        read_jobs(write("j.yaml", repeated))


def test_real_large_test_has_the_tasks_of_the_published_run(real_data: Path) -> None:
    folder = real_data / "k8ssim"
    workload = read_workload(folder / "nodes_500.yaml", folder / "wsl_large_test.yaml")
    assert (len(workload.nodes), len(workload.pods)) == (500, 350)
    with (folder / "2025-09-08-17-53-09-PPO.csv").open() as published:
        names = {row["Pod_name"] for row in csv.DictReader(published)}
    assert {pod.name for pod in workload.pods} == names
    assert {pod.arrival for pod in workload.pods} == {1.0}


def test_real_small_test_keeps_one_node_per_name(real_data: Path) -> None:
    folder = real_data / "k8ssim"
    workload = read_workload(folder / "nodes_7-0.yaml", folder / "wsl_test_mrp-2.yaml")
    assert (len(workload.nodes), len(workload.pods)) == (5, 11)
