"""Lanes of workflows by the name of a scenario, for vector environments."""

from __future__ import annotations

from pathlib import Path

from proreus.contract.episodes import EpisodeLanes
from proreus.data.catalogue import data_dir
from proreus.worlds.workflows.scenarios import parse_scenario
from proreus.worlds.workflows.training.lanes import lanes_of


def episodes(scenario: str = "busy", count: int = 1, *, data: Path | str | None = None) -> EpisodeLanes:
    """`count` lanes, each run with workflows of the training part."""
    folder = data_dir(None if data is None else Path(data)) if "/" in scenario else None
    return lanes_of(parse_scenario(scenario, folder), count)
