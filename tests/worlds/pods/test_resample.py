"""Draws of a user's own work: parts that never meet, and nodes that are filled."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from proreus.contract.scenario import PARTS
from proreus.model.errors import InputError, UsageError
from proreus.model.node import Node
from proreus.model.pod import GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.worlds.pods.datasets.resample import LOAD, filling, part_of
from proreus.worlds.pods.flags import PodsFlags
from proreus.worlds.pods.scenarios import FromFiles, Resampled

NODES = tuple(Node(f"n{n}", Resources(cpu=8_000, memory=GIB, pods=110), 2, "T4") for n in range(4))


def pods(count: int, *, apart: float = 1.0, milli: int = 500) -> tuple[Pod, ...]:
    gpu = GpuRequest(1, milli) if milli else GpuRequest()
    return tuple(Pod(f"p{p}", PodSpec(Resources(cpu=100), gpu=gpu), apart * p, 5.0) for p in range(count))


def test_parts_follow_each_other_in_time_and_never_meet() -> None:
    work = pods(100)
    train, valid, test = (part_of(work, part) for part in PARTS)
    assert (len(train), len(valid), len(test)) == (60, 20, 20)
    assert train[-1].arrival < valid[0].arrival and valid[-1].arrival < test[0].arrival


def test_without_times_every_part_has_some_of_everything() -> None:
    work = pods(100, apart=0.0)
    parts = [{pod.name for pod in part_of(work, part)} for part in PARTS]
    assert set.union(*parts) == {pod.name for pod in work} and sum(map(len, parts)) == 100
    assert {"p1", "p96"} <= parts[0] and {"p4", "p99"} <= parts[2]


def test_pods_arrive_and_stay_until_more_is_asked_for_than_there_is() -> None:
    drawn = filling(NODES, pods(50), seed=1)
    asked = sum(pod.spec.gpu.count * pod.spec.gpu.milli for pod in drawn.pods)
    assert LOAD * 8_000 <= asked < LOAD * 8_000 + 500
    assert all(pod.duration == math.inf for pod in drawn.pods)
    assert drawn == filling(NODES, pods(50), seed=1) != filling(NODES, pods(50), seed=2)


def test_without_gpu_pods_the_cpu_is_filled() -> None:
    drawn = filling(NODES, pods(50, milli=0), seed=1)
    assert sum(pod.spec.requests.cpu for pod in drawn.pods) == LOAD * 4 * 8_000


def test_too_few_pods_are_refused() -> None:
    with pytest.raises(InputError, match="49 pods are too few"):
        part_of(pods(49), "train")


def test_a_folder_holds_pods_and_nodes(tmp_path: Path) -> None:
    for name in ("my_nodes.csv", "jobs.csv"):
        (tmp_path / name).touch()
    scenario = PodsFlags().drawing(str(tmp_path))
    assert isinstance(scenario.source, Resampled)
    files = scenario.source.files
    assert isinstance(files, FromFiles)
    assert (files.format, files.pods.name, files.nodes) == ("openb", "jobs.csv", tmp_path / "my_nodes.csv")
    assert scenario.of_part("train").source == Resampled(files, "train")
    (tmp_path / "more.csv").touch()
    with pytest.raises(UsageError, match=r"jobs\.csv, more\.csv, my_nodes\.csv"):
        PodsFlags().drawing(str(tmp_path))


def test_a_name_is_a_scenario() -> None:
    assert PodsFlags().drawing("gpu@30").name == "gpu@30"
