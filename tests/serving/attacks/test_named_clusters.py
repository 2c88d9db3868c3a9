"""Clusters in named fields that no workload has: the policy decides, not the rule that stands in for it."""

from __future__ import annotations

import msgspec
import pytest

from proreus.serving.cluster_api.decide import NamedDecisions
from proreus.serving.cluster_api.request import DecideRequest
from proreus.serving.metrics import Measurements


@pytest.fixture(scope="module")
def decisions() -> NamedDecisions:
    named_decisions = NamedDecisions("learned", 600.0, Measurements())
    named_decisions.warm_up()
    return named_decisions


@pytest.mark.parametrize("cpu", [0, 4])
@pytest.mark.parametrize("memory", [0, "8Gi"])
@pytest.mark.parametrize("gpus", [0, 1, 4])
@pytest.mark.parametrize("asked", [None, {"count": 1, "milli": 500}, {"count": 2, "models": ["V100"]}])
def test_nodes_without_cpu_memory_or_gpus_are_decided_on_by_the_policy(
    decisions: NamedDecisions, cpu: int, memory: int | str, gpus: int, asked: dict[str, object] | None
) -> None:
    body = {
        "pod": {"name": "pod", "requests": {"cpu": "0"}, **({} if asked is None else {"gpu": asked})},
        "nodes": [
            {
                "name": "node",
                "allocatable": {"cpu": cpu, "memory": memory, "pods": 10, "nvidia.com/gpu": gpus},
                "gpu_model": "T4" if gpus else "",
            }
        ],
    }
    answer = decisions.decide(msgspec.convert(body, DecideRequest), 1, 600.0)
    assert answer.decided_by == "policy"
