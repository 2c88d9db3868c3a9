"""Gavel's traces and throughputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.model.errors import InputError, UsageError
from proreus.model.pod import GpuRequest
from proreus.worlds.pods.datasets.gavel import (
    Throughputs,
    Unmeasured,
    gavel_nodes,
    nodes_for,
    read_jobs,
    read_throughputs,
)

Write = Callable[[str, str | bytes], Path]
SPEEDS = Throughputs(
    "v100", {("LM (batch size 5)", 1): 10.0, ("LM (batch size 5)", 4): 30.0, ("Big", 1): 0.0}
)


def short(job: str = "LM (batch size 5)", steps: str = "100", arrival: str = "6.0", scale: str = "1") -> str:
    return "\t".join([job, "python3 main.py", "--steps", "1", steps, arrival, scale]) + "\n"


def long(job: str, scale: str, arrival: str) -> str:
    return "\t".join([job, "cmd", "dir", "-n", "1", "600", scale, "1", "-1.000000", arrival]) + "\n"


def test_both_widths_become_pods_by_arrival(write: Write) -> None:
    text = short() + long("LM (batch size 5)", "4", "2") + "\n"
    first, second = read_jobs(write("t.trace", text), SPEEDS)
    assert (first.name, first.arrival, first.duration) == ("job-00002", 2.0, 20.0)
    assert first.spec.gpu == GpuRequest(4, 1000)
    assert (second.name, second.arrival, second.duration) == ("job-00001", 6.0, 10.0)


@pytest.mark.parametrize("job", ["A3C", "Big"])
def test_unmeasured_jobs_are_refused_by_line_and_type_or_left_out(write: Write, job: str) -> None:
    path = write("t.trace", short() + short(job=job))
    with pytest.raises(InputError, match=f"no throughput of '{job}' on 1 GPUs of type v100") as caught:
        read_jobs(path, SPEEDS)
    assert (caught.value.file, caught.value.line, caught.value.field) == (path, 2, "job_type")
    assert len(read_jobs(path, SPEEDS, Unmeasured.LEAVE_OUT)) == 1


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        (short(steps="-1"), "total_steps", "negative"),
        (short(steps="1.5"), "total_steps", "whole"),
        (short(arrival="nan"), "arrival_time", "finite"),
        (short(scale="0"), "scale_factor", "below 1"),
        ("a\tb\tc\n", None, "3 cells where 7 or 10"),
    ],
)
def test_bad_rows(write: Write, row: str, field: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_jobs(write("t.trace", short() + row), SPEEDS)
    assert (caught.value.line, caught.value.field) == (2, field)


def test_throughputs_are_those_of_jobs_alone(write: Write) -> None:
    content = {"v100": {"('LM', 2)": {"null": 3.5, "('X', 1)": [1.0, 2.0]}}, "k80": {}}
    assert read_throughputs(write("s.json", json.dumps(content))) == Throughputs("v100", {("LM", 2): 3.5})
    with pytest.raises(UsageError, match="unknown GPU type 'v10'; did you mean 'v100'"):
        read_throughputs(write("s.json", json.dumps(content)), gpu="v10")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{\n oops", r"s\.json:2: not valid JSON"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "an object of GPU types"),
        ('{"v100": 3}', "an object of GPU types"),
        ('{"v100": {"LM": {"null": 1}}}', r"v100\.LM: a job type reads"),
        ('{"v100": {"(\'LM\', 1)": {}}}', "None is not a number of steps"),
        ('{"v100": {"(\'LM\', 1)": {"null": -1}}}', "-1 is not a number of steps"),
        ('{"v100": {"(\'LM\', 1)": {"null": NaN}}}', "nan is not a number of steps"),
    ],
)
def test_bad_throughputs(write: Write, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_throughputs(write("s.json", content))


def test_nodes() -> None:
    first, second = gavel_nodes(2, gpus_per_node=4, model="p100")
    assert (first.gpu_count, first.gpu_model, first.allocatable.cpu) == (4, "p100", 32_000)
    assert first.name != second.name


def test_cluster_is_sized_to_the_work(write: Write) -> None:
    # 90 jobs of 10 s in 10 s keep 90 GPUs busy: 12.5 nodes of 8 at 90 %.
    pods = read_jobs(write("t.trace", "".join(short(arrival=str(i % 11)) for i in range(90))), SPEEDS)
    assert len(nodes_for(pods)) == 13
    assert len(nodes_for(())) == 1


def test_real_traces(real_data: Path) -> None:
    folder = real_data / "gavel"
    speeds = read_throughputs(folder / "simulation_throughputs.json")
    assert len(speeds.steps_per_second) == 83
    jobs = read_jobs(folder / "physical_cluster" / "max_min_fairness.trace", speeds)
    assert len(jobs) == 96
    assert jobs[-1].arrival == 46_317.0
    assert {pod.spec.gpu.count for pod in jobs} == {1, 2, 4}
    assert len(read_jobs(folder / "msr_seed0" / "ed69ec.trace", speeds)) == 951
    with pytest.raises(InputError, match="no throughput of"):
        read_jobs(folder / "msr_seed0" / "0e4a51.trace", speeds)
