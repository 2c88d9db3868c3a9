"""Lanes of pods by the name of a scenario, for vector environments."""

from __future__ import annotations

from pathlib import Path

from proreus.data.catalogue import data_dir
from proreus.worlds.pods.datasets.generator import PRESETS
from proreus.worlds.pods.scenarios import parse_scenario
from proreus.worlds.pods.training.base_pods import Reward
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions


def episodes(
    scenario: str = "small",
    count: int = 1,
    *,
    data: Path | str | None = None,
    reward: Reward = "allocation",
    horizon: int = 0,
) -> BatchedPods:
    """`count` lanes over a workload of the training part, the pods of every episode drawn anew from it."""
    generated = scenario.partition("@")[0] in PRESETS
    folder = None if generated else data_dir(None if data is None else Path(data))
    pod_scenario = parse_scenario(scenario, folder).of_part("train")
    return BatchedPods(
        pod_scenario.load(0), count, 0, horizon, reward, BatchOptions(world=pod_scenario.options)
    )
