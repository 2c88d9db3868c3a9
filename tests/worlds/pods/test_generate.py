"""The generator: what every preset promises, for many seeds."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.errors import UsageError
from proreus.model.node import ZONE
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.generator import PRESETS, Departures, GeneratorConfig, from_config, generate
from proreus.worlds.pods.datasets.shapes import GPU_PODS, GPU_SERVERS, ORDINARY_PODS


def peak_cpu(workload: Workload) -> float:
    """The largest CPU demand, as a share of the capacity, if every pod started on arrival."""
    changes = [(pod.arrival, pod.spec.requests.cpu) for pod in workload.pods]
    changes += [(pod.arrival + pod.duration, -pod.spec.requests.cpu) for pod in workload.pods]
    level = peak = 0
    for _, change in sorted(changes):
        level += change
        peak = max(peak, level)
    return peak / sum(node.allocatable.cpu for node in workload.nodes)


def share(workload: Workload, trait: str) -> float:
    """The share of pods whose spec has something in that field."""
    return sum(bool(getattr(pod.spec, trait)) for pod in workload.pods) / len(workload.pods)


@pytest.mark.parametrize("preset", PRESETS)
def test_same_seed_same_workload(preset: str) -> None:
    assert generate(preset, 7) == generate(preset, 7)
    assert generate(preset, 7) != generate(preset, 8)


@pytest.mark.parametrize(
    ("preset", "nodes", "pods", "specs"),
    [("small", 20, 200, 24), ("medium", 200, 4_000, 100), ("large", 5_000, 30_000, 250)],
)
def test_presets_have_their_size_and_load(preset: str, nodes: int, pods: int, specs: int) -> None:
    workload = generate(preset, 3)
    assert (len(workload.nodes), len(workload.pods)) == (nodes, pods)
    assert len({pod.spec for pod in workload.pods}) <= specs
    assert 0.85 <= peak_cpu(workload) <= 1.10
    assert len({dict(node.labels)[ZONE] for node in workload.nodes}) == 3
    assert len({pod.name for pod in workload.pods}) == pods
    assert workload.budgets


def test_medium_has_the_promised_mixture() -> None:
    workload = generate("medium", 5)
    assert 0.03 < share(workload, "tolerations") < 0.07
    assert 0.35 < share(workload, "spread") < 0.45
    assert sum(bool(node.taints) for node in workload.nodes) == 10
    assert {pod.spec.priority for pod in workload.pods} == {0, 100, 1000}
    assert all(0.3 <= pod.spec.usage <= 0.7 for pod in workload.pods)
    apart = [pod for pod in workload.pods if pod.spec.anti_affinity.required]
    assert 0 < len(apart) < 0.05 * len(workload.pods)
    assert max(Counter(dict(pod.spec.labels)["app"] for pod in apart).values()) < len(workload.nodes)
    assert 0.2 < sum(pod.spec.requests.network > 0 for pod in workload.pods) / 4_000 < 0.4
    assert 0.1 < sum(pod.spec.requests.disk > 0 for pod in workload.pods) / 4_000 < 0.3
    sizes = Counter(pod.spec.requests.cpu for pod in workload.pods)
    for cpu in {shape.cpu for shape in ORDINARY_PODS}:
        wanted = sum(shape.share for shape in ORDINARY_PODS if shape.cpu == cpu)
        assert abs(sizes[cpu] / 4_000 - wanted) < 0.03


def test_arrivals_follow_the_day() -> None:
    arrivals = [pod.arrival for pod in generate("medium", 1).pods]
    noon = sum(86_400 / 3 < arrival < 2 * 86_400 / 3 for arrival in arrivals)
    assert noon / len(arrivals) > 0.40
    flat = [pod.arrival for pod in generate("medium", 1, daily_swing=0.0).pods]
    assert abs(sum(86_400 / 3 < arrival < 2 * 86_400 / 3 for arrival in flat) / len(flat) - 1 / 3) < 0.03


def test_gpu_menus_meet_the_published_figures() -> None:
    kinds = {"whole": 0.0, "part": 0.0, "none": 0.0, "several": 0.0}
    for shape in GPU_PODS:
        gpu = shape.gpu
        whole = "whole" if gpu.milli == 1000 else "part"
        kinds["none" if gpu.count == 0 else "several" if gpu.count > 1 else whole] += shape.share
    assert kinds == pytest.approx({"whole": 0.48, "part": 0.377, "none": 0.134, "several": 0.009}, abs=1e-6)
    pods = 0.98 * sum(s.share * s.gpus for s in GPU_SERVERS)
    pods /= sum(s.share * s.gpu.count * s.gpu.milli / 1000 for s in GPU_PODS)
    cpu = (
        pods * sum(s.share * s.cpu for s in GPU_PODS) / sum(s.share * s.allocatable.cpu for s in GPU_SERVERS)
    )
    memory = sum(s.share * s.memory for s in GPU_PODS) / sum(
        s.share * s.allocatable.memory for s in GPU_SERVERS
    )
    assert cpu == pytest.approx(0.798, abs=0.01)
    assert pods * memory == pytest.approx(0.60, abs=0.01)


def test_gpu_preset_arrives_up_to_its_load_and_stays() -> None:
    workload = generate("gpu", 2)
    capacity = 1000 * sum(node.gpu_count for node in workload.nodes)
    demands = [pod.spec.gpu.count * pod.spec.gpu.milli for pod in workload.pods]
    assert sum(demands) >= 1.3 * capacity > sum(demands[:-1])
    assert all(pod.duration == math.inf for pod in workload.pods)
    assert len({pod.spec for pod in workload.pods}) <= len(GPU_PODS)
    assert len({node.gpu_model for node in workload.nodes}) > 4


@settings(max_examples=40)
@given(
    nodes=st.integers(1, 40),
    pods=st.integers(0, 120),
    apps=st.integers(1, 30),
    zones=st.integers(1, 30),
    seed=st.integers(0, 2**32),
    load=st.floats(0.05, 3.0),
)
def test_any_configuration_gives_a_sound_workload(
    nodes: int, pods: int, apps: int, zones: int, seed: int, load: float
) -> None:
    overrides = {"nodes": nodes, "pods": pods, "apps": apps, "zones": zones, "peak_load": load}
    workload = generate("small", seed, **overrides)
    assert (len(workload.nodes), len(workload.pods)) == (nodes, pods)
    assert all(0 <= pod.arrival <= 10_800 and 0 <= pod.duration <= 10_800 for pod in workload.pods)
    largest = max((pod.spec.requests.cpu for pod in workload.pods), default=0)
    capacity = sum(node.allocatable.cpu for node in workload.nodes)
    assert peak_cpu(workload) <= max(load, largest / capacity) + 1e-9
    assert len({zone for node in workload.nodes for zone in node.labels}) == min(zones, nodes)


def test_a_number_of_staying_pods_can_be_asked_for() -> None:
    assert len(generate("gpu", 0, pods=17).pods) == 17


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nodes": 0}, "nodes: 0 is not above 0"),
        ({"nodes": 2.5}, "nodes: 2.5 is not a whole number"),
        ({"peak_load": math.inf}, "peak_load: inf"),
        ({"daily_swing": 2}, "daily_swing: 2 is not between 0 and 1"),
        ({"pods": -1}, "pods: -1 is negative"),
        ({"pods": None}, "pods: a number is needed"),
        ({"budgets": -1}, "cannot be negative"),
        ({"node": 3}, "unknown generator option 'node'; did you mean 'nodes'"),
    ],
)
def test_bad_options(overrides: dict[str, float | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generate("small", 0, **overrides)


def test_unknown_preset() -> None:
    with pytest.raises(UsageError, match="unknown preset 'smal'; did you mean 'small'"):
        generate("smal", 0)


def test_a_menu_that_never_reaches_the_load_is_refused() -> None:
    only_cpu = tuple(shape for shape in GPU_PODS if shape.gpu.count == 0)
    config = GeneratorConfig(2, None, 1.0, GPU_SERVERS, only_cpu, Departures.NEVER)
    with pytest.raises(UsageError, match="pod_menu"):
        from_config("x", config, 0)
